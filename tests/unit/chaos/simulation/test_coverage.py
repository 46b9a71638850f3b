"""Situations are pairs of transitions that follow each other in one process."""

from enum import Enum

from rhumbline.chaos.simulation.coverage import TransitionCoverage
from rhumbline.chaos.simulation.plans.races import races
from rhumbline.chaos.simulation.seed_run import run_plan
from rhumbline.chaos.simulation.world.process import SimProcess
from rhumbline.core.runtime.state_machine import StateMachine, TransitionTable


class Door(Enum):
    OPEN = "people pass"
    SHUT = "nobody passes"


class Push(Enum):
    INWARD = "it is pushed"
    OUTWARD = "it is pulled"


DOOR = TransitionTable(
    "door",
    "A door.",
    Door.OPEN,
    {(Door.OPEN, Push.INWARD): Door.SHUT, (Door.SHUT, Push.OUTWARD): Door.OPEN},
)


def test_a_repeated_pair_counts_once() -> None:
    machine = StateMachine(DOOR)
    with TransitionCoverage() as coverage:
        for _ in range(3):
            machine.take(Push.INWARD)
            machine.take(Push.OUTWARD)
    machine.take(Push.INWARD)
    assert len(coverage.situations) == 3, "the first one, and both orders"


def test_transitions_of_different_processes_are_no_pair() -> None:
    machine = StateMachine(DOOR)
    processes = [SimProcess(name, name) for name in ("east", "west")]
    with TransitionCoverage() as coverage:
        for process in processes:
            process.context.run(machine.take, Push.INWARD)
            process.context.run(machine.take, Push.OUTWARD)
    assert len(coverage.situations) == 2, "each process begins anew"


def test_a_seed_reaches_the_same_situations_each_time() -> None:
    first, again = run_plan(races(3)), run_plan(races(3))
    assert first.situations == again.situations
    assert len(first.situations) > 10

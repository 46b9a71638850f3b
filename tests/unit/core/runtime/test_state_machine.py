"""State machines follow their table, remember their transitions, and run their checks."""

from collections.abc import Iterator
from enum import Enum
from traceback import format_exception

import pytest

from rhumbline.core.protocol.errors import InvariantBrokenError
from rhumbline.core.runtime.state_machine import (
    STORY_LINE_CHARS_MAX,
    STORY_MAX,
    StateMachine,
    TransitionTable,
    check_thoroughly,
    observe_transitions,
    story_line,
)


class Door(Enum):
    OPEN = "people can pass"
    SHUT = "nobody can pass"


class Act(Enum):
    PUSH = "it is pushed"
    PULL = "it is pulled"


TABLE = TransitionTable(
    "door",
    "A door.",
    Door.OPEN,
    {(Door.OPEN, Act.PUSH): Door.SHUT, (Door.SHUT, Act.PULL): Door.OPEN},
)


@pytest.fixture
def thorough() -> Iterator[None]:
    check_thoroughly(True)
    yield
    check_thoroughly(True)  # as in all tests


def test_take_follows_the_table() -> None:
    machine = StateMachine(TABLE, "3")
    assert machine.state is Door.OPEN
    assert machine.accepts(Act.PUSH) and not machine.accepts(Act.PULL)
    assert machine.take(Act.PUSH) is Door.SHUT
    assert repr(machine) == "<door 3: SHUT>"


def test_impossible_event_raises_with_the_story_and_changes_nothing() -> None:
    times = iter((0.5, 1.25))
    machine = StateMachine(TABLE, now=lambda: next(times))
    machine.take(Act.PUSH, "by the wind")
    with pytest.raises(InvariantBrokenError, match="PUSH is impossible in state SHUT") as e:
        machine.take(Act.PUSH)
    assert e.value.story == machine.story() == "0.500 s: OPEN -> SHUT by PUSH (by the wind)"
    assert machine.story() in "".join(format_exception(e.value))
    assert machine.state is Door.SHUT


def test_story_is_bounded_and_ends_with_the_last_transition() -> None:
    times = iter(range(1000))
    machine = StateMachine(TABLE, now=lambda: float(next(times)))
    for _ in range(STORY_MAX):
        machine.take(Act.PUSH)
        machine.take(Act.PULL)
    lines = machine.story().splitlines()
    assert len(lines) == STORY_MAX
    assert lines[-1] == f"{2 * STORY_MAX - 1}.000 s: SHUT -> OPEN by PULL"


def test_cheap_check_always_runs_after_a_transition() -> None:
    def check() -> None:
        assert machine.state is not Door.SHUT, "the door must stay open"

    machine = StateMachine(TABLE, check=check)
    with pytest.raises(InvariantBrokenError, match="state SHUT: the door must stay open") as e:
        machine.take(Act.PUSH)
    assert "OPEN -> SHUT by PUSH" in e.value.story


def test_costly_check_runs_only_where_all_is_checked(thorough: None) -> None:
    seen = []
    machine = StateMachine(TABLE, check_all=lambda: seen.append(machine.state))
    machine.take(Act.PUSH)
    check_thoroughly(False)
    machine.take(Act.PULL)
    assert seen == [Door.SHUT]


def test_an_observer_receives_transitions_until_it_is_removed() -> None:
    seen: list[tuple[str, Enum, Enum]] = []
    machine = StateMachine(TABLE)
    observe_transitions(lambda *step: seen.append(step))
    try:
        machine.take(Act.PUSH)
        with pytest.raises(InvariantBrokenError):
            machine.take(Act.PUSH)
    finally:
        observe_transitions(None)
    machine.take(Act.PULL)
    assert seen == [("door", Door.OPEN, Act.PUSH)]


def test_table_without_a_way_to_a_state_is_refused() -> None:
    with pytest.raises(ValueError, match="no transition leads to SHUT"):
        TransitionTable("door", "", Door.OPEN, {(Door.OPEN, Act.PUSH): Door.OPEN})


def test_table_without_a_use_of_an_event_is_refused() -> None:
    with pytest.raises(ValueError, match="no transition is caused by PULL"):
        TransitionTable("door", "", Door.OPEN, {(Door.OPEN, Act.PUSH): Door.SHUT})


def test_line_of_a_story_holds_the_latest_transitions_and_is_bounded() -> None:
    machine = StateMachine(TABLE)
    assert story_line(machine.story()) == ""
    machine.take(Act.PUSH)
    machine.take(Act.PULL, "again")
    first, second = machine.story().splitlines()
    assert story_line(machine.story()) == f"{first}; {second}"
    for number in range(20):
        machine.take((Act.PUSH, Act.PULL)[number % 2], f"number {number}")
    line = story_line(machine.story())
    assert line.endswith("(number 19)") and "(number 14)" in line and "(number 0)" not in line
    assert 300 < len(line) <= STORY_LINE_CHARS_MAX
    assert "\n" not in line
    machine.take(Act.PUSH, "x" * 1_000)
    line = story_line(machine.story())
    assert len(line) == STORY_LINE_CHARS_MAX
    assert line.startswith("0.000 s: OPEN -> SHUT by PUSH (xxx") and line.endswith("xxx...")

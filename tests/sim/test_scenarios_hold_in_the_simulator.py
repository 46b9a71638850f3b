"""Every scenario of the library that supports the simulator is played and checked."""

from typing import ClassVar

import pytest

from rhumbline.chaos.lab import scenario_library
from rhumbline.chaos.lab.report.judgement import outcome_of
from rhumbline.chaos.lab.report.scenario_outcome import ScenarioOutcome
from rhumbline.chaos.lab.sim_run import ScenarioRun, plan_of, play_in_sim
from rhumbline.chaos.simulation.world.sim_world import SimWorld

NAMES = [name for name in scenario_library.names() if "sim" in scenario_library.load(name).worlds]


def played(name: str, seed: int = 1) -> ScenarioOutcome:
    return outcome_of(play_in_sim(scenario_library.load(name), seed))


@pytest.mark.parametrize("name", NAMES)
def test_invariants_and_expectations_hold(name: str) -> None:
    outcome = played(name)
    assert outcome.problems == []
    assert outcome.acked > 0 and outcome.lost == 0 and outcome.doubled == 0
    assert [one for one in outcome.invariants if one.is_judged]
    assert outcome.digest


def test_the_same_seed_gives_the_same_run() -> None:
    digests = {played("everything-at-work", seed).digest for seed in (5, 5, 6)}
    assert len(digests) == 2


class RecordingRun(ScenarioRun):
    """A run that records which copies are missing when the lost region returns."""

    missing: ClassVar[list[str]] = []

    async def _await_all_copies(self) -> None:
        RecordingRun.missing = self._missing_copies()
        await super()._await_all_copies()


def test_copies_are_in_two_regions_until_the_lost_region_returns() -> None:
    scenario = scenario_library.load("region-returns-and-copies-spread")
    plan = plan_of(scenario, 1)
    with SimWorld(plan.seed, plan.topology) as world:
        run = RecordingRun(world, scenario, 1)
        world.run(run.play())
    assert any("only in regions ['east', 'north']" in line for line in RecordingRun.missing), (
        RecordingRun.missing
    )
    assert run.result.whole_ms is not None and run.result.whole_ms > 0

"""Some seeds of the plan that uses streams for all that they can do."""

import pytest

from rhumbline.chaos.simulation.seed_run import RunResult
from rhumbline.chaos.simulation.seed_runner import PLANS
from rhumbline.tests.support.simulation.plan_seeds import play, played_again, states, violations

SEEDS = 6
DONE = (
    *("deleted", "ended", "idle", "late entries offered", "look_at_the_end", "maintain"),
    *("open_at_latest", "purged", "read_from", "retried sets", "seek", "truncate"),
    "truncated reads",
)


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> list[RunResult]:
    return play("streams", request, SEEDS)


@pytest.mark.timeout(200)
def test_every_invariant_holds_however_streams_are_used(results: list[RunResult]) -> None:
    assert violations(results) == {}


def test_the_seeds_do_all_that_the_plan_is_for(results: list[RunResult]) -> None:
    if len(results) < SEEDS:
        pytest.skip("too few seeds to expect much")
    seen = states(results)
    assert [name for name in DONE if not seen[name]] == []


def test_a_seed_of_streams_gives_one_trace(results: list[RunResult]) -> None:
    assert played_again("streams", results[0]).digest == results[0].digest


def test_every_fourth_seed_of_everything_is_one_of_streams() -> None:
    plans = [PLANS["everything"](seed).seed for seed in range(1, 9)]
    assert [seed.endswith(" streams") for seed in plans] == [*[False] * 3, True] * 2
    assert plans[0] == PLANS["mixed"](1).seed

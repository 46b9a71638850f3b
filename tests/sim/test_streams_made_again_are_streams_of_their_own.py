"""Some seeds in which streams are deleted and made again by their names, and requests come late."""

import pytest

from rhumbline.chaos.simulation.seed_run import RunResult, run_plan
from rhumbline.chaos.simulation.seed_runner import PLANS
from rhumbline.tests.support.simulation.plan_seeds import play, played_again, states, violations

SEEDS = 12
DONE = ("create", "delete", "maintain", "purged", "read", "subscribe", "truncate", "write")


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> list[RunResult]:
    return play("rebirths", request, SEEDS)


@pytest.mark.timeout(200)
def test_no_request_for_one_stream_hits_the_next_of_its_name(results: list[RunResult]) -> None:
    assert violations(results) == {}


def test_names_change_hands_often_enough_to_matter(results: list[RunResult]) -> None:
    if len(results) < SEEDS:
        pytest.skip("too few seeds to expect much")
    seen = states(results)
    assert [name for name in DONE if not seen[name]] == []
    assert seen["lives"] > 4 * SEEDS
    assert sum(one.faults.get("metadata-late-requests", 0) for one in results) > SEEDS


def test_a_seed_of_rebirths_gives_one_trace(results: list[RunResult]) -> None:
    assert played_again("rebirths", results[0]).digest == results[0].digest


# With deletions, truncations and creations that named no version, each of these broke G18 or G11.
ONCE_BROKEN = (42, 75, 139, 151, 238, 406)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", ONCE_BROKEN)
def test_seed_in_which_a_late_request_hit_the_next_stream_finds_nothing_now(number: int) -> None:
    assert [str(violation) for violation in run_plan(PLANS["rebirths"](number)).violations] == []

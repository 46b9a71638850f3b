"""Some seeds in which several consumers acknowledge single records while everything fails."""

import pytest

from rhumbline.chaos.simulation.seed_run import RunResult
from rhumbline.tests.support.simulation.plan_seeds import play, replay, states, violations

SEEDS = 2
DONE = ("first deliveries", "redeliveries", "abandoned consumers", "dead letters", "stored states")


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> list[RunResult]:
    return play("acknowledgements", request, SEEDS)


@pytest.mark.timeout(200)
def test_no_record_is_passed_without_an_acknowledgement(results: list[RunResult]) -> None:
    assert violations(results) == {}


def test_seeds_do_everything_that_consumers_do(results: list[RunResult]) -> None:
    seen = states(results)
    assert [name for name in DONE if not seen[name]] == []


def test_a_seed_of_acknowledgements_gives_one_trace(results: list[RunResult]) -> None:
    assert replay("acknowledgements", results[0]).digest == results[0].digest

"""Some seeds in which streams are deleted and created again by name, and requests arrive late."""

import pytest

from rhumbline.chaos.simulation.seed_run import RunResult
from rhumbline.tests.support.simulation.plan_seeds import play, replay, states, violations

SEEDS = 12
DONE = (
    "create",
    "delete",
    "maintain",
    "purged",
    "read",
    "resume",
    "subscribe",
    "truncate",
    "write",
)


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> list[RunResult]:
    return play("recreation", request, SEEDS)


@pytest.mark.timeout(200)
def test_no_late_request_affects_the_next_stream_of_the_same_name(results: list[RunResult]) -> None:
    assert violations(results) == {}


def test_seeds_recreate_streams_often_enough(results: list[RunResult]) -> None:
    if len(results) < SEEDS:
        pytest.skip("too few seeds to expect much")
    seen = states(results)
    assert [name for name in DONE if not seen[name]] == []
    assert seen["incarnations"] > 4 * SEEDS
    assert sum(one.faults.get("metadata-late-requests", 0) for one in results) > SEEDS


def test_a_seed_of_recreation_gives_one_trace(results: list[RunResult]) -> None:
    assert replay("recreation", results[0]).digest == results[0].digest

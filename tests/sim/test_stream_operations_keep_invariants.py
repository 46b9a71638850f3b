"""Some seeds of the plan ``streams``, which performs every stream operation."""

import pytest

from rhumbline.chaos.simulation.seed_run import RunResult
from rhumbline.tests.support.simulation.plan_seeds import play, replay, states, violations

SEEDS = 5
DONE = (
    *("deleted", "ended", "idle", "late entries offered", "query_end", "maintain"),
    *("open_at_latest", "purged", "read_from", "retried sets", "seek", "truncate"),
    "truncated reads",
)


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> list[RunResult]:
    return play("streams", request, SEEDS)


@pytest.mark.timeout(200)
def test_every_invariant_holds_for_all_stream_operations(results: list[RunResult]) -> None:
    assert violations(results) == {}


def test_seeds_perform_every_stream_operation(results: list[RunResult]) -> None:
    if len(results) < SEEDS:
        pytest.skip("too few seeds to expect much")
    seen = states(results)
    assert [name for name in DONE if not seen[name]] == []


def test_a_seed_of_streams_gives_one_trace(results: list[RunResult]) -> None:
    assert replay("streams", results[0]).digest == results[0].digest

"""Some seeds of the plan that uses streams for all that they can do."""

from collections import Counter

import pytest

from rhumbline.chaos.simulation.many import PLANS
from rhumbline.chaos.simulation.scenario import Result, run_plan

SEEDS = 6
DONE = (
    *("deleted", "ended", "idle", "late entries offered", "look_at_the_end", "maintain"),
    *("open_at_latest", "purged", "read_from", "retried sets", "seek", "truncate"),
    "truncated reads",
)


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> list[Result]:
    first = request.config.option.seed
    count = request.config.option.seeds or SEEDS
    return [run_plan(PLANS["streams"](seed)) for seed in range(first, first + count)]


@pytest.mark.timeout(200)
def test_every_invariant_holds_however_streams_are_used(results: list[Result]) -> None:
    found = {one.plan.seed: [str(v) for v in one.violations] for one in results}
    assert {seed: texts for seed, texts in found.items() if texts} == {}


def test_the_seeds_do_all_that_the_plan_is_for(results: list[Result]) -> None:
    if len(results) < SEEDS:
        pytest.skip("too few seeds to expect much")
    states: Counter[str] = Counter()
    for one in results:
        states.update(one.states)
    assert [name for name in DONE if not states[name]] == []


def test_a_seed_of_streams_gives_one_trace(results: list[Result]) -> None:
    one = results[0]
    seed = int(one.plan.seed.split()[0])
    assert run_plan(PLANS["streams"](seed)).digest == one.digest


def test_every_fourth_seed_of_everything_is_one_of_streams() -> None:
    plans = [PLANS["everything"](seed).seed for seed in range(1, 9)]
    assert [seed.endswith(" streams") for seed in plans] == [*[False] * 3, True] * 2
    assert plans[0] == PLANS["mixed"](1).seed

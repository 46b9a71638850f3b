"""Some seeds of the plans that aim at one part of the protocol each."""

from collections import Counter

import pytest

from rhumbline.chaos.simulation.seed_run import RunResult
from rhumbline.tests.support.simulation.plan_seeds import play, replay, states, violations

SEEDS = 10
PLANS = (
    "cut-off-readers",
    "end-queries",
    "ownerless",
    "r-changes",
    "rebalances",
    "recoveries",
    "regional",
    "slow-bookies",
    "spread-rules",
)


@pytest.fixture(scope="module", params=PLANS)
def plan(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def results(plan: str, request: pytest.FixtureRequest) -> list[RunResult]:
    return play(plan, request, SEEDS)


def faults(results: list[RunResult]) -> Counter[str]:
    return sum((Counter(result.faults) for result in results), Counter())


@pytest.mark.timeout(200)
def test_every_invariant_holds(results: list[RunResult]) -> None:
    assert violations(results) == {}


def test_seeds_reach_what_the_plan_aims_at(plan: str, results: list[RunResult]) -> None:
    if len(results) < SEEDS:
        pytest.skip("too few seeds to expect much")
    seen = states(results)
    if plan == "cut-off-readers":
        assert seen["stale reads"] > 10 * SEEDS
        assert seen["ends reported"] > SEEDS
    elif plan == "end-queries":
        assert seen["query_end"] > 20 * SEEDS
        assert faults(results)["cut-region"] > SEEDS
    elif plan == "ownerless":
        assert seen["takeovers by repair"] > SEEDS / 2
        assert seen["takeovers beside a sleeper"] >= SEEDS / 2
        assert seen["seals"] > 0
    elif plan == "r-changes":
        assert faults(results)["change-r"] > 3 * SEEDS
        assert seen["ensemble changes"] > 0
    elif plan == "rebalances":
        assert faults(results)["rebalance"] > SEEDS
        assert seen["copies rebalanced"] > SEEDS
    elif plan == "regional":
        assert faults(results)["cut-region"] > SEEDS
        assert seen["segments"] > 2 * SEEDS
    elif plan == "slow-bookies":
        assert faults(results)["slow-disk"] > SEEDS
        assert seen["slow departures"] > 0
    elif plan == "spread-rules":
        assert faults(results)["kill"] + faults(results)["pause"] > 2 * SEEDS
        assert seen["ensemble changes"] > 0
    else:
        assert seen["recovery entry recover"] > 20 * SEEDS
        assert seen["recovery fence complete"] > 2 * SEEDS


def test_a_seed_gives_one_trace(plan: str, results: list[RunResult]) -> None:
    assert replay(plan, results[0]).digest == results[0].digest

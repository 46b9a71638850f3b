"""Some seeds of the plans that aim at one part of the protocol each."""

from collections import Counter

import pytest
from _pytest.mark import ParameterSet

from rhumbline.chaos.simulation.seed_run import RunResult
from rhumbline.tests.support.simulation.plan_seeds import play, replay, states, violations

SEEDS = 5
SEEN_MORE_THAN: dict[str, dict[str, float]] = {
    "archives": {"segments archived": 4 * SEEDS, "parts deleted": 4 * SEEDS},
    "conditions": {"conditional appended": 2 * SEEDS, "conditional refused": 2 * SEEDS},
    "cut-off-readers": {"stale reads": 10 * SEEDS, "ends reported": SEEDS},
    "data-directories": {"fail-directory": SEEDS},
    "end-queries": {"query_end": 20 * SEEDS, "cut-region": SEEDS},
    "grants": {
        "revocations": 2 * SEEDS,
        "calls refused": 20 * SEEDS,
        "appends of tenants": 20 * SEEDS,
        "deliveries to tenants": 20 * SEEDS,
    },
    "groups": {"group deliveries": 50 * SEEDS, "memberships": 3 * SEEDS, "growths": SEEDS},
    "idle-writers": {"query_end": 20 * SEEDS, "kill or power or read-error": 2 * SEEDS},
    "impatient-clients": {"stream claims": 2 * SEEDS},
    "ownerless": {
        "takeovers by repair": SEEDS / 2,
        "takeovers beside a sleeper": SEEDS / 2 - 1,
        "seals": 0,
    },
    "priorities": {"lag": 20 * SEEDS, "recovery fence complete": SEEDS},
    "producers": {"retried sets": 4 * SEEDS, "sessions": 5 * SEEDS},
    "proxies": {"stop-proxy": SEEDS / 2, "move-stream": SEEDS, "stream claims": 2 * SEEDS},
    "r-changes": {"change-r": 3 * SEEDS, "ensemble changes": 0},
    "rebalances": {"rebalance": SEEDS, "copies rebalanced": SEEDS},
    "recoveries": {"recovery entry recover": 20 * SEEDS, "recovery fence complete": 2 * SEEDS},
    "regional": {"cut-region": SEEDS, "segments": 2 * SEEDS},
    "schemas": {"schemas added": 5 * SEEDS, "schemas refused": SEEDS},
    "shared-machines": {"kill-machine or power-machine or wipe-machine": SEEDS - 1},
    "slow-bookies": {"slow-disk": SEEDS, "slow departures": 0},
    "spread-rules": {"kill or pause": 2 * SEEDS, "ensemble changes": 0},
    "unreachable-regions": {"ledgers made while cut off": 2 * SEEDS},
    "upgrades": {
        "roll": 10 * SEEDS,
        "raises refused": SEEDS / 2,
        "levels raised": SEEDS / 2,
        "values in the new format": SEEDS,
    },
}
"""By plan: how often all seeds together must see a state, or begin a kind of fault, at least."""


LONG = (
    "data-directories",
    "grants",
    "groups",
    "impatient-clients",
    "proxies",
    "rebalances",
    "upgrades",
)
"""Plans whose seeds take too long for the short tier."""


def _params() -> list[ParameterSet]:
    marks = {plan: [pytest.mark.long] for plan in LONG}
    return [pytest.param(plan, marks=marks.get(plan, ())) for plan in SEEN_MORE_THAN]


@pytest.fixture(scope="module", params=_params())
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
    seen = states(results) + faults(results)
    for name, count in SEEN_MORE_THAN[plan].items():
        assert sum(seen[part] for part in name.split(" or ")) > count, name


def test_a_seed_gives_one_trace(plan: str, results: list[RunResult]) -> None:
    assert replay(plan, results[0]).digest == results[0].digest

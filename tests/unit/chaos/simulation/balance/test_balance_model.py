"""The balance of a small model: it is even soon, with few moves, and keeps its promises."""

from dataclasses import replace

import pytest

from rhumbline.chaos.simulation.balance.balance_model import BalanceScenario, simulate
from rhumbline.chaos.simulation.balance.load_model import LoadShape
from rhumbline.proxies.balance import balance_plan, balance_rounds
from rhumbline.proxies.balance.balance_plan import BalanceLimits

SHAPE = LoadShape(streams=240, zipf_exponent=0.7, total=16_000.0, shift_s=300)
SMALL = BalanceScenario(proxies=8, seconds=900, shape=SHAPE, pinned=2)
SETTLED_S = 120


@pytest.mark.parametrize("number", [1, 2])
def test_skewed_and_shifting_load_is_evened_with_few_moves(number: int) -> None:
    result = simulate(SMALL, number)
    assert result.violations == []
    for shift in (0, *result.shifts):
        settled = slice((shift + SETTLED_S) // 5, (shift + 300) // 5)
        assert max(result.avoidable[settled]) < 1.45, shift
        assert sum(result.moves[settled]) <= 12
    assert result.total_moves < 150
    assert result.most_moves <= 4
    assert result.returns <= 2
    assert result.shortest_stay_s is None or result.shortest_stay_s >= 60


def test_a_steady_load_moves_nothing_after_it_was_evened() -> None:
    steady = replace(SHAPE, shift_s=0, bursting_share=0.0, noise=0.1)
    result = simulate(replace(SMALL, seconds=900, shape=steady))
    assert max(result.avoidable[24:]) < 1.45
    assert sum(result.moves[24:]) <= 2
    assert result.returns == 0


def test_lost_and_drained_proxies_get_nothing_and_their_load_is_evened() -> None:
    scenario = replace(SMALL, lost=((0, 300, 600),), drained=((1, 450, 600),))
    result = simulate(scenario)
    assert result.violations == []
    assert max(result.avoidable[(450 + SETTLED_S) // 5 : 600 // 5]) < 1.45


def test_without_moves_the_load_stays_where_hashing_puts_it() -> None:
    result = simulate(replace(SMALL, limits=BalanceLimits(25, 60_000, 0)))
    assert result.balanced == result.hashed
    assert result.total_moves == 0


def test_broken_limits_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(reports: object, limits: BalanceLimits, **others: object) -> object:
        ignored = limits._replace(stay_ms=0, moves_max=100)
        return balance_plan.plan_moves(reports, ignored, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(balance_rounds, "plan_moves", careless)
    hasty = replace(SHAPE, shift_s=30, shift_share=0.5)
    scenario = replace(SMALL, shape=hasty, limits=BalanceLimits(25, 60_000, 1))
    violations = simulate(scenario).violations
    assert any("moves in one round" in text for text in violations)
    assert any("s only" in text for text in violations)

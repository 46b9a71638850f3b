"""Time, and not the number of seeds, is divided over plans."""

from collections.abc import Iterator
from itertools import count

from rhumbline.chaos.simulation.time_shares import SEEDS_MAX, TimeShares

SECONDS = {"quick": 0.1, "slow": 2.0, "usual": 0.5}


def run_for(times: TimeShares, seconds: float, batch_s: float = 0.0) -> dict[str, float]:
    """Run batches until the time is up; return the time of each plan."""
    spent = dict.fromkeys(SECONDS, 0.0)
    while sum(spent.values()) < seconds:
        batch = times.take(batch_s)
        assert batch is not None
        for _ in batch.seeds:
            times.finished(batch.plan, SECONDS[batch.plan])
            spent[batch.plan] += SECONDS[batch.plan]
    return spent


def endless() -> dict[str, Iterator[int]]:
    return {plan: count(1) for plan in SECONDS}


def test_plans_get_equal_time_however_long_their_seeds_take() -> None:
    spent = run_for(TimeShares(dict.fromkeys(SECONDS, 1.0), endless()), 300)
    assert all(95 < seconds < 105 for seconds in spent.values()), spent


def test_a_share_multiplies_the_time_of_a_plan_and_none_leaves_it_out() -> None:
    spent = run_for(TimeShares({"quick": 3.0, "slow": 1.0, "usual": 0.0}, endless()), 400)
    assert 290 < spent["quick"] < 310
    assert spent["usual"] == 0


def test_batches_in_progress_are_charged_before_they_end() -> None:
    times = TimeShares({"quick": 1.0, "slow": 1.0}, endless())
    first, second = times.take(1.0), times.take(1.0)
    assert first is not None and second is not None
    assert {first.plan, second.plan} == {"quick", "slow"}


def test_batches_have_as_many_seeds_as_fit_into_the_time() -> None:
    times = TimeShares({"quick": 1.0}, endless())
    sizes = []
    for _ in range(3):
        batch = times.take(1.55)
        assert batch is not None
        sizes.append(len(batch.seeds))
        for _ in batch.seeds:
            times.finished("quick", SECONDS["quick"])
    assert sizes == [1, 15, 15], "the first seed of a plan measures it"
    run_for(times, 10, batch_s=1e9)
    batch = times.take(1e9)
    assert batch is not None and len(batch.seeds) == SEEDS_MAX


def test_every_seed_is_taken_once_and_then_none_is_left() -> None:
    times = TimeShares(dict.fromkeys(SECONDS, 1.0), dict.fromkeys(SECONDS, range(1, 8)))
    taken = []
    while (batch := times.take(1.0)) is not None:
        taken += [(batch.plan, seed) for seed in batch.seeds]
        for _ in batch.seeds:
            times.finished(batch.plan, SECONDS[batch.plan])
    assert sorted(taken) == sorted((plan, seed) for plan in SECONDS for seed in range(1, 8))

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


def test_half_of_the_time_follows_what_plans_find() -> None:
    times = TimeShares(dict.fromkeys(SECONDS, 1.0), endless())
    numbers = count(1)
    spent = dict.fromkeys(SECONDS, 0.0)
    while sum(spent.values()) < 600:
        batch = times.take(0)
        assert batch is not None
        plan = batch.plan
        # "usual" finds 30 new situations each second, "slow" 10, and "quick" none.
        found = {"usual": 30, "slow": 10, "quick": 0}[plan] * SECONDS[plan]
        times.finished(plan, SECONDS[plan], [next(numbers) for _ in range(int(found))])
        spent[plan] += SECONDS[plan]
    parts = {plan: round(seconds / 600, 2) for plan, seconds in spent.items()}
    assert abs(parts["quick"] - 1 / 6) < 0.02, "the fixed part alone"
    assert abs(parts["slow"] - (1 / 6 + 1 / 8)) < 0.02
    assert abs(parts["usual"] - (1 / 6 + 3 / 8)) < 0.02


def test_a_plan_that_stops_finding_loses_its_time() -> None:
    times = TimeShares({"quick": 1.0, "slow": 1.0}, endless())
    numbers = count(1)

    def run(plan: str, finds: int) -> None:
        while (batch := times.take(0)) is not None and batch.plan != plan:
            times.finished(batch.plan, 1.0, [next(numbers)])
        times.finished(plan, 1.0, [next(numbers) for _ in range(finds)])

    for _ in range(20):
        run("quick", 10)
    rich = times.weight("quick")
    for _ in range(100):
        run("quick", 0)
    assert rich > 0.6
    assert 0.25 <= times.weight("quick") < 0.27


def test_shares_hold_while_nothing_is_found_and_weights_add_up() -> None:
    times = TimeShares({"quick": 3.0, "slow": 1.0}, endless())
    assert (times.weight("quick"), times.weight("slow")) == (0.75, 0.25)
    run_for(times, 20)
    assert (times.weight("quick"), times.weight("slow")) == (0.75, 0.25)
    batch = times.take(0)
    assert batch is not None
    times.finished(batch.plan, 1.0, [1, 2, 3])
    assert times.weight("quick") + times.weight("slow") == 1.0
    assert times.situation_count == 3

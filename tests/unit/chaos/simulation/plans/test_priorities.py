"""The plan ``priorities`` orders messages by priorities of paths that depend on the seed alone."""

from collections import defaultdict
from itertools import pairwise

from rhumbline.chaos.simulation.plans.priorities import priorities
from rhumbline.chaos.simulation.plans.races import LASTS_MS


def test_each_path_has_one_priority_at_a_time() -> None:
    for seed in range(1, 20):
        lags = [fault for fault in priorities(seed).faults if fault.kind == "lag"]
        by_path = defaultdict(list)
        for lag in lags:
            by_path[lag.target].append(lag)
        for of_path in by_path.values():
            assert all(a.at_ms + a.lasts_ms < b.at_ms for a, b in pairwise(of_path))
            assert all(a.value < b.value for a, b in pairwise(of_path))
            assert of_path[-1].at_ms + of_path[-1].lasts_ms < LASTS_MS
        assert len({lag.value for lag in lags}) == len(lags)


def test_no_delay_reaches_the_request_timeout() -> None:
    for seed in range(1, 20):
        plan = priorities(seed)
        lags = [fault.value for fault in plan.faults if fault.kind == "lag"]
        assert len(lags) > 10
        assert max(lags) < plan.settings.ledger.request_timeout_ms / 2


def test_the_same_seed_gives_the_same_schedule() -> None:
    assert priorities(7).faults == priorities(7).faults != priorities(8).faults

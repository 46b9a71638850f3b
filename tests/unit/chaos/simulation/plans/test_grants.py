"""The plan ``grants`` revokes permissions while appends are in flight, or grants arrive late."""

from collections import Counter

from rhumbline.chaos.simulation.cluster import bookie_hosts
from rhumbline.chaos.simulation.plans.grants import grants
from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS


def test_all_bookies_hang_together() -> None:
    hangs = 0
    for seed in range(1, 20):
        plan = grants(seed)
        bookies = bookie_hosts(THREE_REGIONS.regions, plan.bookies_by_region)
        pauses = Counter(
            (fault.at_ms, fault.lasts_ms)
            for fault in plan.faults
            if fault.kind == "pause" and fault.target in bookies
        )
        assert all(number % len(bookies) == 0 for number in pauses.values())
        hangs += len(pauses)
    assert hangs > 10


def test_grants_arrive_late_in_some_seeds() -> None:
    late = [
        any(f.kind == "metadata-late-answers" for f in grants(seed).faults) for seed in range(20)
    ]
    assert 5 < sum(late) < 15

"""The plan ``policies``: ``swarm`` with stream policies such as keepalives and two regions.

Compression stays off, because durable records are recognized on the simulated disks by their bytes.
The choices come from a separate generator, so that the draws of ``swarm`` do not shift.
"""

from dataclasses import replace
from random import Random

from ....core.log.policy import StreamPolicy
from ..seed_run import RunPlan
from .swarm import REGIONS, swarm


def policies(seed: int) -> RunPlan:
    """Return a plan of ``swarm`` whose stream has randomly chosen policies."""
    random = Random(f"{seed} policies")
    plan = swarm(seed)
    policy = _chosen(plan.settings.policy, plan.bookies_by_region, random)
    habits = plan.habits
    if policy.keepalive_ms is not None or policy.flush.visibility_ms:
        # Keepalives and explicit LACs are sent only by a writer that pauses.
        habits = replace(habits, pause_ms=random.choice((habits.pause_ms, 1_000, 5_000)))
    settings = replace(plan.settings, policy=policy)
    return replace(plan, seed=f"{seed} policies", settings=settings, habits=habits)


def _chosen(
    policy: StreamPolicy, bookies_by_region: tuple[int, ...], random: Random
) -> StreamPolicy:
    flush = replace(policy.flush, visibility_ms=random.choice((0, 3, 300, 5_000)))
    return replace(
        policy,
        flush=flush,
        keepalive_ms=random.choice((None, 10, 300, 2_000)),
        regions=_regions(policy, bookies_by_region, random),
    )


def _regions(
    policy: StreamPolicy, bookies_by_region: tuple[int, ...], random: Random
) -> tuple[str, ...]:
    """Return two regions in half of the runs, if these have a spare bookie; else no restriction."""
    home, other = random.sample(range(len(REGIONS)), 2)
    quorum = policy.quorum
    has_room = bookies_by_region[home] + bookies_by_region[other] > quorum.ensemble_size
    if random.random() < 0.5 and has_room and quorum.min_regions <= 2:
        return REGIONS[home], REGIONS[other]
    return ()

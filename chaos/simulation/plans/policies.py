"""``swarm`` with what a stream may be asked for besides: keepalives, late visibility, two regions.

Nothing is compressed: what is durable is recognised on the disks by its bytes. The choices have a
stream of chance of their own, so that the seeds of ``swarm`` stay what they are.
"""

from dataclasses import replace
from random import Random

from ....core.log.policy import StreamPolicy
from ..seed_run import RunPlan
from .swarm import REGIONS, swarm


def policies(seed: int) -> RunPlan:
    """A swarm of faults over a stream with policies that are chosen anew."""
    random = Random(f"{seed} policies")
    plan = swarm(seed)
    policy = _chosen(plan.settings.policy, plan.bookies_by_region, random)
    habits = plan.habits
    if policy.keepalive_ms is not None or policy.flush.visibility_ms:
        # Only a writer that pauses has anything to say without an entry.
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
    """In half of the runs two regions, where they have a bookie to spare."""
    home, other = random.sample(range(len(REGIONS)), 2)
    quorum = policy.quorum
    has_room = bookies_by_region[home] + bookies_by_region[other] > quorum.ensemble_size
    if random.random() < 0.5 and has_room and quorum.min_regions <= 2:
        return REGIONS[home], REGIONS[other]
    return ()

"""The plan ``rebuild``: the metadata store is lost for good and rebuilt from the bookies' disks.

Writers take the stream over from each other while bookies are killed and regions cut off. Then all
processes stop at once, the inventory of each bookie is taken, the store is emptied and rebuilt, and
the workload continues. Half of the runs have a backup from some time before, and in some runs one
bookie's disk is lost as well.

The string "rebuild" seeds the generator, so it is part of a seed's identity.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from .....core.log.policy import FlushPolicy, StreamPolicy
from .....core.protocol.quorum import Quorum
from ...cluster import Fault
from ...seed_run import RunPlan
from ...world.sim_world import THREE_REGIONS, SimWorld
from ..basic import basic

if TYPE_CHECKING:
    from ...rebuild_run import RebuildRun

LASTS_MS = 12_000

QUORUM_OF_LOWERED_R = Quorum(4, 4, 2, 2)
"""With this quorum, R is lowered shortly before the loss; two bookies are in one region."""


def rebuild(seed: int) -> RunPlan:
    """Return a plan whose metadata store is lost between ``LASTS_MS`` / 2 and ``LASTS_MS``."""
    random = Random(f"{seed} rebuild")
    plan = basic(seed)
    regions = THREE_REGIONS.regions
    apps = [f"app-{region}" for region in regions]
    quorum = random.choice((Quorum(3, 3, 2, 2), Quorum(3, 3, 2, 1), Quorum(4, 3, 2, 2)))
    if Random(f"{seed} lowered R").random() < 0.3:
        quorum = QUORUM_OF_LOWERED_R
    policy = StreamPolicy(
        quorum=quorum,
        flush=FlushPolicy(period_ms=random.choice((0, 0, 5))),
        roll_bytes=random.choice((2_000, 10_000, 512 << 20)),
    )
    faults = list(plan.faults)
    for _ in range(random.randint(1, 4)):
        victim = f"bookie-{random.choice(regions)}-{random.randrange(2)}"
        kind = random.choice(("kill", "kill", "power"))
        faults.append(Fault(kind, victim, random.randint(300, LASTS_MS - 2_000), 2_000))
    writers = [(0, random.choice(apps))]
    for _ in range(random.randint(0, 3)):
        writers.append((random.randint(1_000, LASTS_MS), random.choice(apps)))
    return replace(
        plan,
        seed=f"{seed} rebuild",
        settings=replace(plan.settings, policy=policy, metadata_copies_ms=2_000),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=tuple(sorted(writers)),
        lasts_ms=LASTS_MS,
        run=_run,
    )


def _run(world: SimWorld, plan: RunPlan) -> "RebuildRun":
    from ...rebuild_run import RebuildRun

    return RebuildRun(world, plan)

"""The plan ``archives``: three processes archive the segments of a stream at the same time.

Segments are small, and writers take the stream over from each other, so that segments are completed
all the time. The archivers are killed and paused between the steps of an archive, and requests to
the cold store are lost, before or after they were carried out.

The string "archives" seeds the generator, so it is part of a seed's identity.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ...cluster import Fault
from ...seed_run import RunPlan
from ...world.sim_world import SimWorld
from ..basic import basic

if TYPE_CHECKING:
    from ...archives.archive_run import ArchiveRun

LASTS_MS = 6_000


def archives(seed: int) -> RunPlan:
    """Return a plan with frequent rolls, takeovers, and faults of the archivers."""
    random = Random(f"{seed} archives")
    plan = basic(seed)
    apps = [f"app-{region}" for region in plan.topology.regions]
    faults = [fault for fault in plan.faults if fault.kind == "kill"]
    for _ in range(random.randint(4, 14)):
        kind, lasting = random.choice(
            (("kill", (20, 100)), ("kill", (20, 300)), ("pause", (100, 400, 1_500)))
        )
        target = f"archiver-{random.randrange(3)}"
        faults.append(Fault(kind, target, random.randint(200, LASTS_MS), random.choice(lasting)))
    writers = [(at_ms, random.choice(apps)) for at_ms in range(0, LASTS_MS, 1_500)]
    policy = replace(plan.settings.policy, roll_bytes=random.choice((300, 1_000, 3_000)))
    return replace(
        plan,
        seed=f"{seed} archives",
        settings=replace(plan.settings, policy=policy),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=tuple(writers),
        lasts_ms=LASTS_MS,
        appends_max=200,
        run=_run,
    )


def _run(world: SimWorld, plan: RunPlan) -> "ArchiveRun":
    """Return the run of a plan. No other plan needs the packages of the extra ``arrow``."""
    from ...archives.archive_run import ArchiveRun

    return ArchiveRun(world, plan)

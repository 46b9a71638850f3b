"""The plan ``lowered-repairs``: repair restores copies while only one region is left.

The bookies of two of three regions are down for longer than repair waits. An operator lowers R of
the stream to 1 meanwhile, so that repair may put all copies into the region that is left, and must
record the lower R with them. In half of the seeds R is raised again when the bookies are back.
"""

from dataclasses import replace
from random import Random

from .....core.log.policy import FlushPolicy
from .....core.protocol.quorum import Quorum
from ...cluster import Fault
from ...seed_run import RunPlan
from ..races import races
from ..swarm import REGIONS

_DOWN_MS = 10_000
"""Longer than the time after which repair considers a bookie lost, and than its audit takes."""


def lowered_repairs(seed: int) -> RunPlan:
    """Return a plan in which closed ledgers are repaired under a lower R than they were written."""
    random = Random(f"{seed} lowered-repairs")
    plan = races(seed)
    settings = plan.settings
    left, *gone = REGIONS
    down_ms = random.randint(1_500, 3_000)
    back_ms = down_ms + _DOWN_MS + random.randint(0, 2_000)
    lowered_ms = down_ms + random.randint(0, 3_000)
    target = random.choice(("stream", "namespace"))
    faults = [Fault("change-r", target, lowered_ms, 0, 1)]
    for region in gone:
        at_ms = down_ms + random.randint(0, 300)
        faults.append(Fault("kill", f"bookie-{region}-0", at_ms, back_ms - at_ms))
    if random.random() < 0.5:
        faults.append(Fault("change-r", target, back_ms + random.choice((-500, 500)), 0, 2))
    return replace(
        plan,
        seed=f"{seed} lowered-repairs",
        topology=replace(plan.topology, metadata_regions=(left,)),
        bookies_by_region=(4, 1, 1),
        settings=replace(
            settings,
            policy=replace(
                settings.policy,
                quorum=Quorum(3, 3, 2, 2),
                flush=FlushPolicy(period_ms=0, bytes_max=100),
                roll_bytes=1_000,
            ),
            ledger=replace(settings.ledger, change_mode="delayed", on_bookie_failure="replace"),
        ),
        habits=replace(plan.habits, pause_ms=100),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=((0, f"app-{left}"),),
        readers=(),
        lasts_ms=back_ms + 1_000,
        appends_max=300,
        repairs=(left,),
    )

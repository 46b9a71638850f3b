"""The plan ``r-changes``: R goes up and down during outages, takeovers and repairs.

The plan is ``swarm`` or ``changes``. R of the namespace, of the stream and of the ledgers that are
being written changes every few seconds to a random number that AQ and the regions allow. Often a
region is cut off, an operator lowers R meanwhile, the stream changes its writer, and R is raised
again when the region is back. Each entry is judged by the R that the ledger's metadata records for
it. Data is destroyed only as far as AQ copies survive it, since R may be 1 at any moment.
"""

from dataclasses import replace
from random import Random

from .....core.protocol.quorum import Quorum
from ...cluster import Fault, bookie_hosts
from ...seed_run import RunPlan, SeedRun
from ...workload.r_changing import RChangingApplications
from ...world.sim_world import SimWorld
from ..races import changes
from ..swarm import REGIONS, swarm

_SHAPES = (
    # quorum, bookies by region, maximum R
    (Quorum(3, 3, 3, 1), (3, 3, 3), 3),
    (Quorum(3, 3, 3, 3), (2, 2, 2), 3),
    (Quorum(3, 3, 2, 1), (2, 2, 2), 2),
    (Quorum(3, 3, 2, 2), (3, 2, 1), 2),
    (Quorum(4, 4, 3, 2), (2, 2, 2), 3),
    (Quorum(5, 3, 3, 1), (3, 3, 3), 2),  # striped
    (Quorum(4, 3, 2, 1), (2, 2, 2), 2),  # striped
    (Quorum(5, 5, 3, 2), (3, 2, 2), 3),
)

_TARGETS = ("namespace", "stream", "ledgers", "ledgers", "ledgers")


def r_changes(seed: int) -> RunPlan:
    """Return a plan of ``swarm`` or ``changes`` in which R changes."""
    random = Random(f"{seed} r-changes")
    plan = random.choice((swarm, changes))(seed)
    settings = plan.settings
    quorum, bookies_by_region, r_max = random.choice(_SHAPES)
    existing = bookie_hosts(REGIONS, bookies_by_region)
    faults = [
        fault
        for fault in plan.faults
        if fault.kind not in ("wipe", "wipe-region", "wipe-members", "rot")
        and (not fault.target.startswith("bookie-") or fault.target in existing)
    ]
    for _ in range(random.randint(2, 12)):
        value = random.randint(1, r_max)
        at_ms = random.randint(100, plan.lasts_ms)
        faults.append(Fault("change-r", random.choice(_TARGETS), at_ms, 0, value))
    for victim in random.sample(existing, quorum.ack_quorum - 1):
        if random.random() < 0.3:
            faults.append(Fault("wipe", victim, random.randint(100, plan.lasts_ms), 500))
    if random.random() < 0.5:
        lasts_ms = random.choice((300, 1_500, 4_000))
        at_ms = random.randint(100, plan.lasts_ms)
        faults.append(Fault("cut-region", random.choice(REGIONS), at_ms, lasts_ms))
    if random.random() < 0.6:
        faults += _outage_with_lowered_r(random, plan, r_max)
    return replace(
        plan,
        seed=f"{seed} r-changes",
        bookies_by_region=bookies_by_region,
        settings=replace(settings, policy=replace(settings.policy, quorum=quorum)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        run=RChangesRun,
    )


def _outage_with_lowered_r(random: Random, plan: RunPlan, r_max: int) -> list[Fault]:
    """Return a region's outage during which R is lowered and a writer killed; R is raised later."""
    at_ms = random.randint(100, max(101, plan.lasts_ms // 2))
    lasts_ms = random.choice((1_000, 3_000, 6_000))
    lowered_ms = at_ms + random.choice((0, 20, 300, 1_000))
    target = random.choice(("stream", "namespace"))
    raised_ms = at_ms + lasts_ms + random.choice((-500, 0, 500))
    return [
        Fault("cut-region", random.choice(REGIONS), at_ms, lasts_ms),
        Fault("change-r", target, lowered_ms, 0, 1),
        Fault("kill", f"app-{random.choice(REGIONS)}", lowered_ms + random.choice((1, 200)), 300),
        Fault("change-r", target, max(raised_ms, lowered_ms + 1), 0, r_max),
    ]


class RChangesRun(SeedRun):
    """A run whose faults can change the R of the ledgers that are being written."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        self.apps = RChangingApplications(self.cluster, self.history, plan.habits)

"""The plan ``grants``: two tenants use streams of their own through proxies and try the other's.

An administrator takes their permissions away and gives them back, while owners end, regions are cut
off from the metadata store, and the store is unavailable or responds late. In most seeds, all
bookies hang together, for long enough that permissions end while appends are under way. Invariants
G32 and G33 judge what proxies sent to whom.

The strings "grants", "hanging bookies" and "grants arrive late" seed the generators, so they are
part of a seed's identity.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ..cluster import Fault, bookie_hosts
from ..seed_run import RunPlan
from ..world.sim_world import THREE_REGIONS, SimWorld
from .proxies import LASTS_MS, proxies

if TYPE_CHECKING:
    from ..proxies.grants_run import GrantsRun

_CUTS_MS = (1_500, 3_000, 5_000)
_HANGS_MS = (2_500, 4_000)


def grants(seed: int) -> RunPlan:
    """Return a plan of ``proxies`` with two tenants, and with more faults of the metadata store."""
    random = Random(f"{seed} grants")
    plan = proxies(seed)
    faults = [_fault(random) for _ in range(random.randint(1, 3))]
    return replace(
        plan,
        seed=f"{seed} grants",
        faults=tuple(
            sorted(
                [*plan.faults, *faults, *_hangs(seed, plan), *_late_answers(seed)],
                key=lambda fault: fault.at_ms,
            )
        ),
        appends_max=300,
        run=_run,
    )


def _run(world: SimWorld, plan: RunPlan) -> "GrantsRun":
    """Return the run of a plan. Only plans with proxies need the packages of the extra ``grpc``."""
    from ..proxies.grants_run import GrantsRun

    return GrantsRun(world, plan)


def _fault(random: Random) -> Fault:
    kind, target = random.choice(
        (
            ("cut-metadata", random.choice(THREE_REGIONS.regions)),
            ("cut-metadata", random.choice(THREE_REGIONS.regions)),
            ("metadata-down", "metadata"),
        )
    )
    return Fault(kind, target, random.randint(300, LASTS_MS), random.choice(_CUTS_MS))


def _hangs(seed: int, plan: RunPlan) -> list[Fault]:
    """Return faults by which all bookies hang together, up to three times."""
    random = Random(f"{seed} hanging bookies")
    bookies = bookie_hosts(THREE_REGIONS.regions, plan.bookies_by_region)
    faults = []
    for _ in range(random.randint(0, 3)):
        at_ms, lasts_ms = random.randint(2_000, LASTS_MS), random.choice(_HANGS_MS)
        faults += [Fault("pause", bookie, at_ms, lasts_ms) for bookie in bookies]
    return faults


def _late_answers(seed: int) -> list[Fault]:
    """Return a fault, in half of the seeds, by which grants arrive long after they were read."""
    random = Random(f"{seed} grants arrive late")
    if random.random() < 0.5:
        return []
    at_ms, value = random.randint(1_000, LASTS_MS // 2), random.choice((600, 1_500))
    return [Fault("metadata-late-answers", "metadata", at_ms, LASTS_MS // 2, value)]

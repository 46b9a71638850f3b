"""The plan ``proxies``: producers and readers use proxies, whose owners end and change.

Three regions have two write proxies and a read proxy each. The owner of the stream is killed,
paused, stopped gracefully, cut off, or loses its session, and an operator moves the stream to other
proxies meanwhile. The producers number their records and send them again to the next owner.
"""

from random import Random
from typing import TYPE_CHECKING

from ....core.bookie.config import KIB
from ....core.ledger.config import LedgerConfig
from ....core.log.policy import FlushPolicy, StreamPolicy
from ....core.protocol.quorum import Quorum
from ..cluster import Fault, SimClusterSettings
from ..seed_run import RunPlan
from ..workload.workload import WriterHabits
from ..world.sim_world import THREE_REGIONS, SimWorld

if TYPE_CHECKING:
    from ..proxies.proxy_plan_run import ProxyPlanRun

LASTS_MS = 9_000

_HABITS = (
    WriterHabits(pause_ms=200, burst_max=1),  # many sets in flight at a time
    WriterHabits(pause_ms=500, burst_max=4),
    WriterHabits(pause_ms=1_000, burst_max=4),
)
_LASTS_MS = (100, 700, 1_500, 4_000)


def proxies(seed: int) -> RunPlan:
    """Return a plan of 9 s whose faults hit owners, read proxies, bookies and the store."""
    random = Random(f"{seed} proxies")
    faults = [_fault(random) for _ in range(random.randint(4, 10))]
    faults.append(_move(random))
    return RunPlan(
        seed=f"{seed} proxies",
        topology=THREE_REGIONS,
        bookies_by_region=(2, 2, 2),
        settings=SimClusterSettings(
            policy=StreamPolicy(
                quorum=random.choice((Quorum(3, 3, 2, 2), Quorum(3, 3, 3, 3))),
                flush=FlushPolicy(period_ms=random.choice((0, 5))),
                roll_ms=random.choice((2_000, 60_000)),
            ),
            ledger=LedgerConfig(request_timeout_ms=1_000, underreplicated_ms_max=2_000),
            log_file_bytes=256 * KIB,
        ),
        habits=random.choice(_HABITS),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=(),
        readers=(random.choice(("app-east", "app-north", "app-west")),),
        lasts_ms=LASTS_MS,
        appends_max=1_500,
        run=_run,
    )


def _run(world: SimWorld, plan: RunPlan) -> "ProxyPlanRun":
    """Return the run of a plan. Only this plan needs the packages of the extra ``grpc``."""
    from ..proxies.proxy_plan_run import ProxyPlanRun

    return ProxyPlanRun(world, plan)


def _move(random: Random) -> Fault:
    region = random.choice(THREE_REGIONS.regions)
    return Fault(
        "move-stream", f"proxy-{region}-{random.randrange(2)}", random.randint(500, LASTS_MS), 0
    )


def _fault(random: Random) -> Fault:
    region, other = random.sample(THREE_REGIONS.regions, 2)
    kind, target, value = random.choice(
        (
            ("kill", "owner", 0.0),
            ("kill", "owner", 0.0),
            ("pause", "owner", 0.0),
            ("pause", "owner", 0.0),
            ("stop-proxy", "owner", 0.0),
            ("stop-proxy", "owner", 0.0),
            ("isolate", "owner", 0.0),
            ("expire-sessions", "owner", 0.0),
            ("reset", "owner", 0.7),
            ("kill", "reading", 0.0),
            ("pause", "reading", 0.0),
            ("stop-proxy", "reading", 0.0),
            ("cut-region", region, 0.0),
            ("slow-link", f"{region}>{other}", random.choice((3.0, 10.0))),
            ("kill", f"bookie-{region}-{random.randrange(2)}", 0.0),
            ("kill", f"app-{region}", 0.0),
            ("pause", f"app-{region}", 0.0),
            ("metadata-down", "metadata", 0.0),
            ("metadata-loses-answers", "metadata", 0.3),
        )
    )
    if random.random() < 0.2:
        return _move(random)
    return Fault(kind, target, random.randint(300, LASTS_MS), random.choice(_LASTS_MS), value)

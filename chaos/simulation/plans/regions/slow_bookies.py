"""The plan ``slow-bookies``: disks and links are slow for a long time, and writers leave them.

Several bookies are slow at once in some seeds, all of them in others, and links between regions are
slow as well, so that leaving would help nothing. Bookies also fail, and the writer changes.
"""

from random import Random

from .....core.bookie.config import KIB
from .....core.ledger.config import LedgerConfig
from .....core.log.policy import FlushPolicy, StreamPolicy
from .....core.protocol.quorum import Quorum
from ...cluster import Fault, SimClusterSettings, bookie_hosts
from ...seed_run import RunPlan
from ...workload.workload import WriterHabits
from ...world.sim_world import THREE_REGIONS

LASTS_MS = 30_000

_SHAPES = (
    # quorum, bookies by region
    (Quorum(3, 3, 2, 2), (2, 2, 2)),
    (Quorum(3, 3, 3, 3), (2, 2, 2)),
    (Quorum(3, 3, 3, 2), (3, 2, 1)),
    (Quorum(2, 2, 2, 2), (2, 1, 1)),
    (Quorum(3, 3, 3, 1), (6, 0, 0)),
    (Quorum(5, 3, 2, 2), (3, 3, 3)),  # striped
    (Quorum(4, 4, 3, 2), (1, 2, 2)),
)


def slow_bookies(seed: int) -> RunPlan:
    """Return a plan of 30 s in which disks of bookies are slow, and often other things fail."""
    random = Random(f"{seed} slow-bookies")
    quorum, bookies_by_region = random.choice(_SHAPES)
    regions = THREE_REGIONS.regions
    bookies = bookie_hosts(regions, bookies_by_region)
    apps = [f"app-{region}" for region in regions]
    faults = []
    for victim in random.sample(bookies, random.choice((1, 1, 2, 3, len(bookies)))):
        at_ms = random.randint(500, 6_000)
        lasts_ms = random.choice((500, 4_000, 12_000, 20_000))
        faults.append(Fault("slow-disk", victim, at_ms, lasts_ms, random.choice((10, 40, 200))))
    for _ in range(random.choice((0, 0, 1, 2))):
        path = "{}>{}".format(*random.sample(regions, 2))
        at_ms = random.randint(500, 10_000)
        faults.append(Fault("slow-link", path, at_ms, 12_000, random.choice((3, 10))))
    for _ in range(random.choice((0, 0, 1, 3))):
        kind = random.choice(("kill", "pause", "reset"))
        at_ms = random.randint(500, LASTS_MS)
        faults.append(Fault(kind, random.choice(bookies), at_ms, random.choice((300, 4_000)), 1.0))
    if random.random() < 0.2:
        at_ms, value = random.randint(500, 10_000), random.choice((20, 500))
        faults.append(Fault("metadata-slow", "metadata", at_ms, 6_000, value))
    writers = [(0, random.choice(apps))]
    if random.random() < 0.4:
        writers.append((random.randint(5_000, LASTS_MS - 5_000), random.choice(apps)))
    return RunPlan(
        seed=f"{seed} slow-bookies",
        topology=THREE_REGIONS,
        bookies_by_region=bookies_by_region,
        settings=SimClusterSettings(
            policy=StreamPolicy(
                quorum=quorum, flush=FlushPolicy(period_ms=random.choice((0, 0, 5)))
            ),
            ledger=LedgerConfig(
                request_timeout_ms=random.choice((1_000, 5_000)),
                slow_after_ms=random.choice((1_000, 3_000)),
                slow_hold_ms=random.choice((5_000, 15_000)),
            ),
            log_file_bytes=256 * KIB,
        ),
        habits=WriterHabits(pause_ms=random.choice((40, 100)), stops_when_replaced=True),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=tuple(writers),
        readers=(random.choice(apps),),
        lasts_ms=LASTS_MS,
        appends_max=3_000,
    )

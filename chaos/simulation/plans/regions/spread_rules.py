"""The plan ``spread-rules``: bookies and regions fail under policies that demand two regions (R=1).

Each stream's policy demands that the copies of an entry lie in two regions, which P does not need.
Bookies of one region fail together, so replacements in the other one would be at hand.
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

LASTS_MS = 20_000

_SHAPES = (
    # quorum, bookies by region
    (Quorum(2, 2, 1), (2, 2, 0)),
    (Quorum(3, 3, 2), (3, 2, 0)),
    (Quorum(3, 3, 2), (3, 2, 1)),
    (Quorum(4, 3, 2), (3, 3, 0)),  # striped
    (Quorum(4, 2, 1), (3, 3, 0)),  # striped
)


def spread_rules(seed: int) -> RunPlan:
    """Return a plan of 20 s with the rule ``region:2`` and failures of the bookies of a region."""
    random = Random(f"{seed} spread-rules")
    quorum, bookies_by_region = random.choice(_SHAPES)
    regions = THREE_REGIONS.regions
    bookies = {
        region: bookie_hosts([region], [count])
        for region, count in zip(regions, bookies_by_region, strict=True)
    }
    faults = []
    for _ in range(random.randint(2, 5)):
        region = random.choice([name for name in regions if bookies[name]])
        at_ms = random.randint(500, LASTS_MS - 2_000)
        for victim in bookies[region][: random.randint(1, len(bookies[region]))]:
            kind, lasts_ms = random.choice(("kill", "pause")), random.choice((300, 4_000, 6_000))
            faults.append(Fault(kind, victim, at_ms, lasts_ms, 1.0))
    apps = [f"app-{region}" for region in regions]
    writers = [(0, random.choice(apps))]
    if random.random() < 0.4:
        writers.append((random.randint(5_000, LASTS_MS - 5_000), random.choice(apps)))
    return RunPlan(
        seed=f"{seed} spread-rules",
        topology=THREE_REGIONS,
        bookies_by_region=bookies_by_region,
        settings=SimClusterSettings(
            policy=StreamPolicy(
                quorum=quorum,
                flush=FlushPolicy(period_ms=random.choice((0, 0, 5))),
                spread=("region:2",),
            ),
            ledger=LedgerConfig(request_timeout_ms=random.choice((1_000, 3_000))),
            log_file_bytes=256 * KIB,
        ),
        habits=WriterHabits(pause_ms=random.choice((40, 100)), stops_when_replaced=True),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=tuple(writers),
        readers=(random.choice(apps),),
        lasts_ms=LASTS_MS,
        appends_max=2_000,
    )

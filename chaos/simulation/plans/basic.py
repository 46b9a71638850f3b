"""The plans ``basic`` and ``steady``: two faults while one or two writers append.

The strings "first light" and "steady" seed the generators, so they are part of a seed's identity.
"""

from dataclasses import replace
from random import Random

from ....core.bookie.config import KIB
from ....core.ledger.config import LedgerConfig
from ....core.log.policy import FlushPolicy, StreamPolicy
from ....core.protocol.quorum import Quorum
from ..cluster import Fault, SimClusterSettings
from ..seed_run import RunPlan
from ..workload.workload import WriterHabits
from ..world.sim_world import THREE_REGIONS

BASIC_APPENDS = 240


def basic(seed: int) -> RunPlan:
    """Return a plan in which a bookie is killed while a region is cut off and adds are in progress.

    There are three regions of two bookies. Both faults end. In half of the runs a second writer
    takes the stream over meanwhile.
    """
    random = Random(f"{seed} first light")
    regions = THREE_REGIONS.regions
    apps = [f"app-{region}" for region in regions]
    writer = random.choice(apps)
    at_ms = random.randint(500, 1500)
    victim = f"bookie-{random.choice(regions)}-{random.randrange(2)}"
    faults = [
        Fault("cut-region", random.choice(regions), at_ms, random.randint(1500, 6000)),
        Fault("kill", victim, at_ms + random.randint(0, 800), random.randint(500, 3000)),
    ]
    writers = [(0, writer)]
    if random.random() < 0.5:
        successor = random.choice([app for app in apps if app != writer])
        writers.append((at_ms + random.randint(0, 3000), successor))
    return RunPlan(
        seed=f"{seed} first light",
        topology=THREE_REGIONS,
        bookies_by_region=(2, 2, 2),
        settings=SimClusterSettings(
            policy=StreamPolicy(
                quorum=Quorum(3, 3, 2, 2),
                flush=FlushPolicy(period_ms=random.choice((0, 0, 5))),
            ),
            ledger=LedgerConfig(request_timeout_ms=1000, underreplicated_ms_max=2000),
            log_file_bytes=256 * KIB,
        ),
        habits=WriterHabits(pause_ms=40, stops_when_replaced=random.random() < 0.3),
        faults=tuple(faults),
        writers=tuple(writers),
        readers=(random.choice(apps),),
        lasts_ms=8000,
        appends_max=BASIC_APPENDS * 3,
    )


def steady(seed: int) -> RunPlan:
    """Return a plan for measuring: one writer, 20 appends per second for a minute, two faults."""
    base = basic(seed)
    return replace(
        base,
        seed=f"{seed} steady",
        habits=WriterHabits(pause_ms=100, burst_max=1),
        writers=base.writers[:1],
        lasts_ms=60_000,
        appends_max=10_000,
    )

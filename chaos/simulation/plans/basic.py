"""From a seed to a plan."""

from dataclasses import replace
from random import Random

from ....core.bookie.config import KIB
from ....core.ledger.config import LedgerConfig
from ....core.log.config import ReaderConfig, WriterConfig
from ....core.log.policy import FlushPolicy, StreamPolicy
from ....core.protocol.quorum import Quorum
from ..cluster import Fault, SimClusterSettings
from ..seed_run import RunPlan
from ..workload.workload import WriterHabits
from ..world.sim_world import THREE_REGIONS

FIRST_LIGHT_APPENDS = 240


def first_light(seed: int) -> RunPlan:
    """Three regions of two bookies; a bookie is killed while a region is cut off and adds are under
    way; both come back; in half of the runs a second writer takes over meanwhile."""
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
        heir = random.choice([app for app in apps if app != writer])
        writers.append((at_ms + random.randint(0, 3000), heir))
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
            writer=WriterConfig(),
            reader=ReaderConfig(),
            log_file_bytes=256 * KIB,
        ),
        habits=WriterHabits(pause_ms=40, is_polite=random.random() < 0.3),
        faults=tuple(faults),
        writers=tuple(writers),
        readers=(random.choice(apps),),
        lasts_ms=8000,
        appends_max=FIRST_LIGHT_APPENDS * 3,
    )


def steady(seed: int) -> RunPlan:
    """A minute of 20 appends a second from one writer, with a kill and a cut, for measuring."""
    base = first_light(seed)
    return replace(
        base,
        seed=f"{seed} steady",
        habits=WriterHabits(pause_ms=100, burst_max=1),
        writers=base.writers[:1],
        lasts_ms=60_000,
        appends_max=10_000,
    )

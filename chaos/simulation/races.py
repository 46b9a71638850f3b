"""Short runs in close quarters: writers that take over from each other, recoveries that race with
living writers, ensemble changes, restarts and ambushes, all within a few seconds.

Where ``swarm`` looks for what nobody thought of, this plan presses on the rules of the ledger
protocol: delays differ between machines, time-outs are short, ensembles are small or striped.
"""

from random import Random

from ...core.bookie.config import KIB
from ...core.ledger.config import LedgerConfig
from ...core.log.config import ReaderConfig, WriterConfig
from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.protocol.quorum import Quorum
from .ambush import MOMENTS
from .cluster import ClusterSettings, Fault
from .faults import AMBUSH
from .scenario import Plan
from .workload import WriterHabits
from .world import Topology

REGIONS = ("east", "north", "west")
LASTS_MS = 6_000

_SHAPES = (
    # quorum, bookies by region
    (Quorum(3, 3, 2, 1), (2, 1, 1)),
    (Quorum(3, 3, 2, 2), (2, 2, 2)),
    (Quorum(3, 3, 2, 2), (2, 2, 1)),
    (Quorum(3, 2, 2, 1), (2, 2, 1)),  # striped
    (Quorum(3, 2, 2, 2), (2, 2, 2)),  # striped
    (Quorum(4, 3, 2, 2), (3, 2, 2)),  # striped
    (Quorum(5, 3, 2, 2), (3, 2, 2)),  # striped
    (Quorum(4, 4, 2, 2), (4, 3, 0)),  # two copies of four, and two regions
    (Quorum(4, 4, 3, 2), (3, 2, 2)),
    (Quorum(3, 3, 3, 2), (2, 2, 2)),
    (Quorum(3, 3, 2, 1), (6, 0, 0)),
)

# kind: (how many at most, how long in ms)
_ON_BOOKIES = {
    "isolate": (2, (50, 400, 2_000)),
    "deafen": (2, (50, 400, 2_000)),
    "mute": (2, (50, 400, 2_000)),
    "pause": (2, (50, 400, 2_000)),
    "kill": (2, (50, 400, 2_000)),
    "power": (2, (50, 400, 2_000)),
    "reset": (1, (0,)),
    "sync-error": (1, (0,)),
    "write-error": (1, (0,)),
    "read-error": (1, (0,)),
    "full-disk": (1, (300, 2_000)),
}
_ON_METADATA = {
    "metadata-slow": (2, (20, 200)),
    "metadata-loses-answers": (1, (0.3,)),
    "metadata-loses-requests": (1, (0.3,)),
}


def races(seed: int) -> Plan:
    """A run of its own kind."""
    random = Random(f"{seed} races")
    quorum, bookies_by_region = random.choice(_SHAPES)
    bookies = [
        f"bookie-{region}-{number}"
        for region, count in zip(REGIONS, bookies_by_region, strict=True)
        for number in range(count)
    ]
    apps = [f"app-{region}" for region in REGIONS]
    every_ms = random.choice((400, 900, 2_000))
    writers = [(0, random.choice(apps))]
    for at_ms in range(every_ms, LASTS_MS, every_ms):
        writers.append((at_ms + random.randrange(every_ms), random.choice(apps)))
    faults = _ambushes(random) + _faults(random, bookies, apps)
    return Plan(
        seed=f"{seed} races",
        topology=_topology(random),
        bookies_by_region=bookies_by_region,
        settings=_settings(random, quorum),
        habits=WriterHabits(
            pause_ms=random.choice((5, 30, 100)),
            burst_max=random.choice((1, 4)),
            padding_bytes_max=random.choice((20, 200)),
            is_polite=random.random() < 0.1,
        ),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=tuple(sorted(writers)),
        readers=tuple(app for app in apps if random.random() < 0.3),
        lasts_ms=LASTS_MS,
        appends_max=300,
    )


def _faults(random: Random, bookies: list[str], apps: list[str]) -> list[Fault]:
    faults: list[Fault] = []

    def add(kind: str, target: str, lasts_ms: int, value: float = 0.0) -> None:
        faults.append(Fault(kind, target, random.randint(100, LASTS_MS), lasts_ms, value))

    for _ in range(random.randint(0, 8)):
        ends = [random.choice(apps), random.choice(bookies)]
        random.shuffle(ends)
        add("lag", ">".join(ends), random.randint(100, 3_000), random.choice((5, 20, 100, 400)))
    for kind, (count_max, lasting) in _ON_BOOKIES.items():
        for _ in range(random.randint(0, count_max)):
            add(kind, random.choice(bookies), random.choice(lasting), kind == "reset")
    for kind, (count_max, values) in _ON_METADATA.items():
        for _ in range(random.randint(0, count_max)):
            add(kind, "metadata", random.randint(200, 2_000), random.choice(values))
    for _ in range(random.randint(0, 2)):
        add("pause", random.choice(apps), random.choice((200, 1_500)))
    if random.random() < 0.4:
        add("cut-region", random.choice(REGIONS), random.choice((300, 2_000)))
    if random.random() < 0.3:  # of one bookie only: AQ is 2 or more
        kind, victim = random.choice(("wipe", "rot")), random.choice(bookies)
        add(kind, victim, random.choice((50, 500)), random.randint(1, 5))
    return faults


def _ambushes(random: Random) -> list[Fault]:
    return [
        Fault(AMBUSH, moment, 0, LASTS_MS, random.choice((1, 10, 100)))
        for moment in MOMENTS
        if random.random() < 0.5
    ]


def _topology(random: Random) -> Topology:
    near, middle, far = random.choice(((0.3, 0.5, 0.7), (1, 3, 5), (5, 10, 20)))
    return Topology(
        regions=REGIONS,
        delays_ms=(("east", "north", near), ("north", "west", middle), ("east", "west", far)),
        metadata_regions=random.choice(((), (random.choice(REGIONS),))),
    )


def _settings(random: Random, quorum: Quorum) -> ClusterSettings:
    return ClusterSettings(
        policy=StreamPolicy(
            quorum=quorum,
            flush=FlushPolicy(period_ms=0, bytes_max=random.choice((100, 4_000))),
            roll_bytes=random.choice((2_000, 512 << 20, 512 << 20)),
        ),
        ledger=LedgerConfig(
            connect_timeout_ms=200,
            request_timeout_ms=random.choice((100, 300, 1_000)),
            underreplicated_ms_max=random.choice((200, 1_000, 30_000)),
            quorum_timeout_ms=random.choice((0, 0, 1_000)),
            change_mode=random.choice(("delayed", "eager")),
            on_bookie_failure=random.choice(("replace", "replace", "replace", "close")),
            replacement_wait_ms_max=random.choice((500, 5_000)),
            failure_memory_ms=random.choice((0, 200, 5_000)),
            recovery_window=random.choice((1, 8)),
            recovery_timeout_ms=10_000,
            backoff_ms_min=10,
            backoff_ms_max=500,
        ),
        writer=WriterConfig(
            entries_in_flight_max=random.choice((4, 64)),
            failover_ms_max=20_000,
        ),
        reader=ReaderConfig(poll_ms=500),
        log_file_bytes=random.choice((16 * KIB, 256 * KIB)),
    )

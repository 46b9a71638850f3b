"""The plans ``races`` and ``changes``: short runs with many concurrent ledger operations.

Within a few seconds writers take over from each other, recoveries race with running writers,
ensembles change and bookies restart, partly by faults that ledger events trigger. ``swarm``
searches for unexpected combinations; these plans stress the rules of the ledger protocol: delays
differ between hosts, timeouts are short, and ensembles are small or striped.
"""

from dataclasses import replace
from random import Random

from ....core.bookie.config import KIB
from ....core.ledger.config import LedgerConfig
from ....core.log.config import ReaderConfig, WriterConfig
from ....core.log.policy import FlushPolicy, StreamPolicy
from ....core.protocol.quorum import Quorum
from ..cluster import Fault, SimClusterSettings, bookie_hosts
from ..faults.faults import DAMAGING, TRIGGERED
from ..faults.triggered_faults import LEDGER_EVENTS
from ..seed_run import RunPlan
from ..workload.workload import WriterHabits
from ..world.sim_world import SimTopology

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

_TIGHT = (
    (Quorum(3, 3, 3, 2), (3, 3, 3)),
    (Quorum(3, 3, 3, 3), (3, 3, 3)),
    (Quorum(4, 3, 3, 2), (3, 3, 3)),
    (Quorum(4, 4, 2, 2), (4, 3, 0)),
)
"""Quorums that need every bookie of a write set, or both of two regions: a failed bookie that is
not replaced stops the writer."""

_TIGHT_SHARE = 0.4

# kind: (maximum number, durations in ms to choose from)
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


def races(seed: int) -> RunPlan:
    """Return a plan with several takeovers, triggered faults and random faults in six seconds."""
    random = Random(f"{seed} races")
    quorum, bookies_by_region = random.choice(_SHAPES)
    bookies = bookie_hosts(REGIONS, bookies_by_region)
    apps = [f"app-{region}" for region in REGIONS]
    every_ms = random.choice((400, 900, 2_000))
    writers = [(0, random.choice(apps))]
    for at_ms in range(every_ms, LASTS_MS, every_ms):
        writers.append((at_ms + random.randrange(every_ms), random.choice(apps)))
    faults = _triggered_faults(random) + _faults(random, bookies, apps)
    faults += _damage(random, bookies, quorum)
    return RunPlan(
        seed=f"{seed} races",
        topology=_topology(random),
        bookies_by_region=bookies_by_region,
        settings=_settings(random, quorum),
        habits=WriterHabits(
            pause_ms=random.choice((5, 30, 100)),
            burst_max=random.choice((1, 4)),
            padding_bytes_max=random.choice((20, 200)),
            awaits_each_burst=random.random() < 0.5,
            stops_when_replaced=random.random() < 0.1,
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
    for _ in range(random.choice((0, 0, 1, 2))):
        operations = random.choice((1, 3, 30)) * random.randint(1, 10)
        add("crash-in-disk", random.choice(bookies), 2_000, random.choice((1, -1)) * operations)
    if random.random() < 0.4:
        add("cut-region", random.choice(REGIONS), random.choice((300, 2_000)))
    return faults


def _damage(random: Random, bookies: list[str], quorum: Quorum) -> list[Fault]:
    """Return faults that destroy the data of one bookie (AQ >= 2), or of one region if R > 1."""
    at_ms = random.randint(200, LASTS_MS)
    lasts_ms = random.choice((20, 100, 500))
    victim = random.choice(bookies)
    kind = random.choice(("none", "none", "wipe", "wipe-region", "rot", "rot", "rot"))
    if kind == "wipe":
        return [Fault(kind, victim, at_ms, lasts_ms)]
    if kind == "wipe-region" and quorum.min_regions > 1:
        return [Fault(kind, random.choice(REGIONS), at_ms, lasts_ms)]
    if kind == "rot":  # detected by reads, or when the bookie restarts
        restart = Fault(random.choice(("kill", "power")), victim, at_ms + 1, lasts_ms)
        rot = Fault(kind, victim, at_ms, 0, random.choice((1, 5, 40)))
        return [rot, restart] if random.random() < 0.7 else [rot]
    return []


def changes(seed: int) -> RunPlan:
    """Return a plan with few writers and many entries in flight while bookies fail in sequence."""
    random = Random(f"{seed} changes")
    plan = races(seed)
    settings = plan.settings
    bookies = bookie_hosts(REGIONS, (3, 3, 3))
    faults = [fault for fault in plan.faults if fault.kind in ("lag", "metadata-slow", TRIGGERED)]
    for _ in range(random.randint(3, 20)):
        kind = random.choice(("reset", "isolate", "mute", "deafen", "kill", "pause"))
        value = 1.0 if kind == "reset" else 0.0
        lasts_ms = 0 if kind == "reset" else random.choice((50, 400, 1_500))
        at_ms = random.randint(100, LASTS_MS)
        faults.append(Fault(kind, random.choice(bookies), at_ms, lasts_ms, value))
    for _ in range(random.randint(0, 4)):
        value = random.choice((3, 10, 40))
        at_ms = random.randint(0, LASTS_MS)
        faults.append(Fault("metadata-slow", "metadata", at_ms, 1_500, value))
    if settings.policy.quorum.min_regions > 1 and random.random() < 0.5:
        at_ms = random.randint(100, LASTS_MS)
        faults.append(Fault("wipe-region", random.choice(REGIONS), at_ms, 500))
    else:
        at_ms = random.randint(100, LASTS_MS)
        count = settings.policy.quorum.ack_quorum - 1
        faults.append(Fault("wipe-members", "newest", at_ms, 500, count))
    is_eager = random.random() < 0.67
    writers = plan.writers[:: random.choice((2, 4, 100))]
    quorum, underreplicated_ms = settings.policy.quorum, settings.ledger.underreplicated_ms_max
    pause_ms, failover_ms = 15, settings.writer.failover_ms_max
    bookies_by_region = random.choice(((3, 3, 3), (1, 2, 3), (2, 3, 1)))
    if random.random() < _TIGHT_SHARE:
        pause_ms = 50  # appends go on to the end
        underreplicated_ms, failover_ms = 600_000, 120_000
        quorum, bookies_by_region = random.choice(_TIGHT)
        writers = plan.writers[:1]
        faults = [f for f in faults if f.at_ms < 3_000 and f.kind not in (TRIGGERED, *DAMAGING)]
        faults += _losses_at_the_end(random, quorum)
        # Eager changes would hide a writer that only counts failed bookies (bug B19).
        is_eager = is_eager and quorum.ack_quorum == quorum.write_quorum
    existing = bookie_hosts(REGIONS, bookies_by_region)
    faults = [f for f in faults if not f.target.startswith("bookie") or f.target in existing]
    faults.sort(key=lambda fault: fault.at_ms)
    return replace(
        plan,
        seed=f"{seed} changes",
        bookies_by_region=bookies_by_region,
        settings=replace(
            settings,
            ledger=replace(
                settings.ledger,
                change_mode="eager" if is_eager else "delayed",
                on_bookie_failure="replace",
                failure_memory_ms=0,
                underreplicated_ms_max=underreplicated_ms,
            ),
            policy=replace(
                settings.policy,
                quorum=quorum,
                flush=FlushPolicy(period_ms=0, bytes_max=100),
                roll_bytes=512 << 20,
            ),
            writer=replace(settings.writer, entries_in_flight_max=64, failover_ms_max=failover_ms),
        ),
        habits=replace(plan.habits, pause_ms=pause_ms, burst_max=4, awaits_each_burst=False),
        writers=writers,
        faults=tuple(faults),
        appends_max=1_000,
    )


def _losses_at_the_end(random: Random, quorum: Quorum) -> list[Fault]:
    """Return losses of data, nearly simultaneous, that P just survives; no fault follows them."""
    if quorum.ack_quorum == quorum.min_regions:
        return [Fault("wipe-region", random.choice(REGIONS[:2]), LASTS_MS, 1_500)]
    after_ms = random.choice((0, 1, 5, 30))
    return [
        Fault("metadata-slow", "metadata", LASTS_MS - 100, 1_000, random.choice((1, 20))),
        Fault("wipe-members", "newest", LASTS_MS, 1_500, 1),
        Fault("wipe-members", "newest again", LASTS_MS + after_ms, 1_500, 1),
    ]


def _triggered_faults(random: Random) -> list[Fault]:
    return [
        Fault(TRIGGERED, event, 0, LASTS_MS, random.choice((1, 10, 100)))
        for event in LEDGER_EVENTS
        if random.random() < 0.5
    ]


def _topology(random: Random) -> SimTopology:
    near, middle, far = random.choice(((0.3, 0.5, 0.7), (1, 3, 5), (5, 10, 20)))
    return SimTopology(
        regions=REGIONS,
        delays_ms=(("east", "north", near), ("north", "west", middle), ("east", "west", far)),
        metadata_regions=random.choice(((), (random.choice(REGIONS),))),
    )


def _settings(random: Random, quorum: Quorum) -> SimClusterSettings:
    return SimClusterSettings(
        policy=StreamPolicy(
            quorum=quorum,
            flush=FlushPolicy(period_ms=0, bytes_max=random.choice((100, 4_000))),
            roll_bytes=random.choice((2_000, 512 << 20, 512 << 20)),
        ),
        ledger=LedgerConfig(
            connect_timeout_ms=200,
            request_timeout_ms=random.choice((100, 300, 1_000)),
            underreplicated_ms_max=random.choice((200, 1_000, 600_000)),
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
        tail_cache_bytes=random.choice((0, 64 * KIB)),
    )

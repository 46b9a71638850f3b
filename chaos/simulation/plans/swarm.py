"""The plan ``swarm``: every seed enables a random subset of the faults, with random rates.

With all faults enabled a run would make no progress; with few of them it explores one combination
in depth (swarm testing). Permanent damage is bounded by what the quorum survives: the data of one
bookie if AQ is 2, of two bookies if it is 3.
"""

from collections.abc import Callable
from random import Random

from ....core.bookie.config import BookieConfig
from ....core.ledger.config import LedgerConfig
from ....core.log.config import ReaderConfig, WriterConfig
from ....core.log.policy import FlushPolicy, StreamPolicy
from ....core.protocol.quorum import Quorum
from ..cluster import Fault, SimClusterSettings, bookie_hosts
from ..drawn_settings import drawn
from ..repair import repair_host
from ..seed_run import RunPlan
from ..workload.workload import WriterHabits
from ..world.sim_world import SimTopology

REGIONS = ("east", "north", "west")

_QUORUMS = (
    Quorum(3, 3, 2, 2),
    Quorum(3, 3, 2, 2),
    Quorum(3, 3, 2, 1),
    Quorum(4, 4, 3, 2),
    Quorum(4, 3, 2, 2),  # striped
    Quorum(5, 3, 2, 2),
    Quorum(6, 5, 3, 3),
    Quorum(3, 3, 3, 3),
    Quorum(5, 5, 3, 2),
)

LASTS_MS = 20_000


class _Targets:
    """Possible targets of faults. ``breakable``: the bookies whose data may be damaged."""

    def __init__(self, random: Random, bookies_by_region: tuple[int, ...], quorum: Quorum) -> None:
        self.random = random
        self.bookies = bookie_hosts(REGIONS, bookies_by_region)
        self.apps = [f"app-{region}" for region in REGIONS]
        self.repairs = random.choice(((), ("east",), ("east", "west")))
        self.repairers = [repair_host(region) for region in self.repairs]
        self.breakable = random.sample(self.bookies, quorum.ack_quorum - 1)
        if quorum.min_regions > quorum.ack_quorum - 1:
            self.breakable = self.breakable[: quorum.min_regions - 1]

    def bookie(self) -> str:
        """Return a random bookie."""
        return self.random.choice(self.bookies)

    def host(self) -> str:
        """Return a random host."""
        return self.random.choice(self.bookies + self.apps + self.repairers)

    def region(self) -> str:
        """Return a random region."""
        return self.random.choice(REGIONS)

    def path(self) -> str:
        """Return a random path from one region to another, as ``from>to``."""
        source, target = self.random.sample(REGIONS, 2)
        return f"{source}>{target}"


Make = Callable[[_Targets, Random], tuple[str, int, float]]
"""Draws (target, duration in ms, value) of a new fault."""

_RATES: dict[str, tuple[float, Make]] = {
    # kind: (maximum number in a run that enables it, function that draws one)
    "kill": (6, lambda p, r: (p.host(), r.randint(100, 5000), 0)),
    "power": (4, lambda p, r: (p.bookie(), r.randint(300, 6000), 0)),
    "crash-in-disk": (
        4,
        lambda p, r: (p.bookie(), r.randint(500, 6000), r.choice((1, -1)) * r.randint(1, 300)),
    ),
    "power-region": (1, lambda p, r: (p.region(), r.randint(500, 6000), 0)),
    "pause": (5, lambda p, r: (p.host(), r.choice((200, 1500, 4000, 9000)), 0)),
    "wipe": (1, lambda p, r: (r.choice(p.breakable), r.randint(200, 4000), 0)),
    "skew": (2, lambda p, r: (p.host(), r.randint(1000, 9000), r.choice((-1e7, -5e3, 3e3, 1e8)))),
    "cut-region": (3, lambda p, r: (p.region(), r.randint(200, 8000), 0)),
    "cut-one-way": (3, lambda p, r: (p.path(), r.randint(200, 8000), 0)),
    "isolate": (4, lambda p, r: (p.host(), r.randint(200, 8000), 0)),
    "deafen": (3, lambda p, r: (p.host(), r.randint(200, 8000), 0)),
    "mute": (3, lambda p, r: (p.host(), r.randint(200, 8000), 0)),
    "swizzle": (2, lambda p, r: ("bookies", r.randint(1000, 9000), 0)),
    "reset": (8, lambda p, r: (r.choice([*p.bookies, "all"]), 0, r.choice((0.3, 1.0)))),
    "slow-link": (3, lambda p, r: (p.path(), r.randint(500, 9000), r.choice((3, 20)))),
    "slow-disk": (3, lambda p, r: (p.bookie(), r.randint(500, 9000), r.choice((10, 200, 2000)))),
    "sync-error": (2, lambda p, r: (p.bookie(), 0, 0)),
    "write-error": (2, lambda p, r: (p.bookie(), 0, 0)),
    "read-error": (3, lambda p, r: (p.bookie(), 0, 0)),
    "full-disk": (2, lambda p, r: (p.bookie(), r.randint(500, 9000), r.randint(0, 20_000))),
    "rot": (2, lambda p, r: (p.breakable[0], 0, r.randint(1, 5))),
    "metadata-down": (2, lambda p, r: ("metadata", r.randint(300, 8000), 0)),
    "metadata-slow": (2, lambda p, r: ("metadata", r.randint(500, 9000), r.choice((20, 500)))),
    "metadata-loses-answers": (
        2,
        lambda p, r: ("metadata", r.randint(1000, 9000), r.choice((0.1, 0.5))),
    ),
    "metadata-loses-requests": (
        2,
        lambda p, r: ("metadata", r.randint(1000, 9000), r.choice((0.1, 0.5))),
    ),
    "late-watches": (2, lambda p, r: ("metadata", r.randint(2000, 15_000), r.choice((500, 8000)))),
    "expire-sessions": (3, lambda p, r: (p.host(), 0, 0)),
}


def swarm(seed: int) -> RunPlan:
    """Return a plan of 20 s with a random subset of all faults."""
    random = Random(f"{seed} swarm")
    quorum = random.choice(_QUORUMS)
    bookies_by_region = random.choice(((2, 2, 2), (2, 2, 2), (3, 2, 2), (3, 3, 3), (2, 3, 2)))
    targets = _Targets(random, bookies_by_region, quorum)
    faults = _faults(targets, random)
    writers = [(0, random.choice(targets.apps))]
    for _ in range(random.choice((0, 1, 1, 2, 4, 8))):
        writers.append((random.randrange(LASTS_MS), random.choice(targets.apps)))
    return RunPlan(
        seed=f"{seed} swarm",
        topology=_topology(random),
        bookies_by_region=bookies_by_region,
        settings=_settings(random, quorum),
        habits=WriterHabits(
            pause_ms=random.choice((5, 50, 200)),
            burst_max=random.choice((1, 4, 12)),
            padding_bytes_max=random.choice((20, 200, 4000)),
            session_appends_max=random.choice((30, 200, 10_000)),
            stops_when_replaced=random.random() < 0.2,
        ),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=tuple(sorted(writers)),
        readers=tuple(app for app in targets.apps if random.random() < 0.5),
        lasts_ms=LASTS_MS,
        appends_max=random.choice((300, 600)),
        repairs=targets.repairs,
    )


def _faults(targets: _Targets, random: Random) -> list[Fault]:
    share = random.choice((0.1, 0.2, 0.4))
    faults: list[Fault] = []
    for kind, (count_max, make) in _RATES.items():
        if random.random() >= share:
            continue
        if kind in ("wipe", "rot") and not targets.breakable:
            continue
        for _ in range(random.randint(1, int(count_max))):
            target, lasts_ms, value = make(targets, random)
            faults.append(Fault(kind, target, random.randint(300, LASTS_MS), lasts_ms, value))
    return faults


def _topology(random: Random) -> SimTopology:
    near, middle, far = random.choice(((1, 2, 3), (5, 20, 40), (30, 60, 80), (0.5, 40, 40)))
    return SimTopology(
        regions=REGIONS,
        delays_ms=(
            ("east", "north", near),
            ("north", "west", middle),
            ("east", "west", far),
        ),
        metadata_regions=random.choice(((), (), (random.choice(REGIONS),))),
    )


def _settings(random: Random, quorum: Quorum) -> SimClusterSettings:
    flush = FlushPolicy(**drawn(FlushPolicy, random))
    return SimClusterSettings(
        policy=StreamPolicy(quorum=quorum, flush=flush, **drawn(StreamPolicy, random)),
        ledger=LedgerConfig(**drawn(LedgerConfig, random)),
        writer=WriterConfig(**drawn(WriterConfig, random)),
        reader=ReaderConfig(**drawn(ReaderConfig, random)),
        **drawn(BookieConfig, random),
    )

"""What a scenario says: topology, quorum, workload, schedule of faults, and what is expected.

One file for both worlds. Times are milliseconds from the moment at which the workload begins.
"""

from dataclasses import dataclass, field, replace
from itertools import combinations

from ...core.protocol.errors import ConfigurationError
from ...core.protocol.quorum import Quorum
from .fault_kinds import KINDS, targets_of
from .toml_tables import limited

SIM, WAN = "sim", "wan"
WORLDS = (SIM, WAN)
FILE, ETCD, ZOOKEEPER = "file", "etcd", "zookeeper"
EVERYWHERE = "*"

APPEND, DELIVER = "append", "deliver"

_MINUTES_MS = 600_000


@dataclass(frozen=True, slots=True)
class Way:
    """The way between two regions, the same in both directions."""

    between: tuple[str, ...]
    rtt_ms: float = limited(0, 2_000)
    jitter_ms: float = limited(0, 500, default=0.0)
    kib_per_s: int = limited(1, 10_000_000, default=100_000)


@dataclass(frozen=True, slots=True)
class ScenarioTopology:
    """Regions, what is in them, and the ways between them."""

    regions: tuple[str, ...]
    bookies: int = limited(1, 10, default=2)
    """In each region."""
    ways: tuple[Way, ...] = ()
    metadata: str = limited(words=(FILE, ETCD, ZOOKEEPER), default=FILE)
    """In the real world: a file of the host, which is neither delayed nor cut, or an ensemble."""
    metadata_regions: tuple[str, ...] = ()
    """Where the ensemble's members are; empty: one in each region."""

    @property
    def members(self) -> tuple[str, ...]:
        """The regions of the metadata store's members."""
        return self.metadata_regions or self.regions


@dataclass(frozen=True, slots=True)
class QuorumTable:
    """E, WQ, AQ and R."""

    ensemble: int = limited(1, 20, default=3)
    write: int = limited(1, 20, default=3)
    ack: int = limited(1, 20, default=2)
    regions: int = limited(1, 20, default=2)

    def quorum(self) -> Quorum:
        """As the product has it. Raises InvalidArgumentError."""
        return Quorum(self.ensemble, self.write, self.ack, self.regions)


@dataclass(frozen=True, slots=True)
class Turn:
    """From ``at_ms`` on the application of ``region`` is the one that is told to write."""

    region: str
    at_ms: int = limited(0, _MINUTES_MS, default=0)


@dataclass(frozen=True, slots=True)
class ScenarioWorkload:
    """What applications do."""

    writers: tuple[Turn, ...]
    lasts_ms: int = limited(500, _MINUTES_MS, default=10_000)
    appends_per_s: int = limited(1, 1_000, default=40)
    tails: tuple[str, ...] = ()
    """Regions whose application follows the stream; empty: all."""
    catch_up_every_ms: int = limited(0, _MINUTES_MS, default=0)
    """A reader begins at the start of the stream so often; 0: never."""
    truncate_every_ms: int = limited(0, _MINUTES_MS, default=0)
    """The older half of the stream is truncated so often; 0: never."""
    roll_ms: int = limited(500, _MINUTES_MS, default=60_000)
    archives: bool = False
    repairs: bool = False
    """Whether a repair process runs in each region."""
    queries: bool = False
    """Whether a Spark query reads archive and ledgers at the end; only in the real world."""
    through_proxies: bool = False
    """Whether applications are thin clients of write and read proxies; only in the real world."""


@dataclass(frozen=True, slots=True)
class FaultTable:
    """What happens to whom; ``times`` > 1: again ``every_ms``."""

    kind: str = limited(words=tuple(KINDS))
    target: str = EVERYWHERE
    at_ms: int = limited(0, _MINUTES_MS, default=0)
    lasts_ms: int = limited(0, _MINUTES_MS, default=0)
    value: float = limited(0, 1e12, default=0.0)
    times: int = limited(1, 1_000, default=1)
    every_ms: int = limited(0, _MINUTES_MS, default=0)

    @property
    def end_ms(self) -> int:
        """When it is over."""
        return self.at_ms + self.lasts_ms

    def __str__(self) -> str:
        """As a line of a schedule."""
        value = f" {self.value:g}" if self.value else ""
        return f"{self.kind} {self.target}{value}"

    def regions(self, region: str) -> tuple[str, ...]:
        """The regions that it concerns, empty: all. ``region``: the target's, resolved."""
        if ">" in self.target:
            return tuple(self.target.split(">"))
        if self.target.startswith(("bookie-", "app-")):
            return (region_of(self.target),)
        return () if self.target == EVERYWHERE else (region,)


@dataclass(frozen=True, slots=True)
class Limit:
    """An operation of a region may go without success for so long, at most."""

    operation: str = limited(words=(APPEND, DELIVER))
    ms_max: int = limited(1, _MINUTES_MS)
    region: str = EVERYWHERE
    """``*`` for appends: none of the regions acknowledges; for deliveries: each of the regions."""
    world: str = limited(words=("", *WORLDS), default="")
    """Holds in this world only; real processes take their time to start."""


@dataclass(frozen=True, slots=True)
class Expect:
    """What must come of it, besides that no promise of the product is broken."""

    lost: int = limited(0, 0, default=0)
    doubled: int = limited(0, 0, default=0)
    acked_min: int = limited(1, 1_000_000, default=50)
    resume_ms_max: int = limited(1, _MINUTES_MS, default=20_000)
    """After the last fault: until an append that was called after it is acknowledged."""
    whole_ms_max: int = limited(0, _MINUTES_MS, default=0)
    """After the last fault: until all copies are there, in ``whole_regions``; 0: isn't asked."""
    whole_regions: int = limited(0, 20, default=0)
    archived_min: int = limited(0, 10_000, default=0)
    """Archived segments, all of which equal what readers got."""
    unavailable: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. Raises ConfigurationError that names every fault at once."""

    title: str
    about: str
    topology: ScenarioTopology
    workload: ScenarioWorkload
    worlds: tuple[str, ...] = limited(words=WORLDS)
    quorum: QuorumTable = field(default_factory=QuorumTable)
    fault: tuple[FaultTable, ...] = ()
    expect: Expect = field(default_factory=Expect)
    name: str = ""

    def __post_init__(self) -> None:
        faults = list(_faults_of(self))
        if faults:
            raise ConfigurationError("\n".join(faults))

    def schedule(self) -> tuple[FaultTable, ...]:
        """Every single fault, in order of time."""
        single = [
            replace(one, times=1, every_ms=0, at_ms=one.at_ms + turn * one.every_ms)
            for one in self.fault
            for turn in range(one.times)
        ]
        return tuple(sorted(single, key=lambda one: one.at_ms))

    @property
    def calm_ms(self) -> int:
        """When the last fault is over."""
        return max((one.end_ms for one in self.schedule()), default=0)

    @property
    def ends_ms(self) -> int:
        """When workload and faults are over."""
        return max(self.workload.lasts_ms, self.calm_ms)

    @property
    def bookies(self) -> tuple[str, ...]:
        """The names of all bookies."""
        topology = self.topology
        return tuple(
            bookie_name(region, n) for region in topology.regions for n in range(topology.bookies)
        )

    def way(self, one: str, other: str) -> Way:
        """The way between two regions."""
        return next(way for way in self.topology.ways if set(way.between) == {one, other})


def bookie_name(region: str, number: int) -> str:
    """What a bookie is called in targets."""
    return f"bookie-{region}-{number}"


def app_name(region: str) -> str:
    """What the application of a region is called in targets."""
    return f"app-{region}"


def region_of(name: str) -> str:
    """The region in the name of a bookie or an application."""
    return name.split("-")[1]


def _faults_of(scenario: Scenario) -> "list[str]":
    topology, work = scenario.topology, scenario.workload
    regions = topology.regions
    faults = [
        f"region {region!r}: letters and digits only"
        for region in regions
        if not region.isalnum() or not region.isascii()
    ]
    if not 1 <= len(regions) <= 9 or len(set(regions)) != len(regions):
        faults.append("topology.regions: one to nine different regions")
    pairs = [frozenset(way.between) for way in topology.ways]
    wanted = [frozenset(pair) for pair in combinations(regions, 2)]
    if sorted(map(sorted, pairs)) != sorted(map(sorted, wanted)):
        faults.append("topology.ways: exactly one way between each two regions")
    named = [
        *(("workload.writers", turn.region) for turn in work.writers),
        *(("workload.tails", region) for region in work.tails),
        *(("topology.metadata_regions", region) for region in topology.metadata_regions),
        *(("expect.unavailable", one.region) for one in scenario.expect.unavailable),
    ]
    faults += [f"{where}: no region {n}" for where, n in named if n not in (*regions, EVERYWHERE)]
    if not work.writers or work.writers[0].at_ms != 0:
        faults.append("workload.writers: the first one writes from 0 ms on")
    if work.through_proxies and scenario.worlds != (WAN,):
        faults.append("workload.through_proxies: there are no proxies in the simulator")
    if work.queries and (scenario.worlds != (WAN,) or not work.archives):
        faults.append("workload.queries: needs archives, and there is no Spark in the simulator")
    for one in scenario.fault:
        if one.target not in targets_of(one.kind, regions, scenario.bookies):
            faults.append(f"fault {one.kind}: there is no target {one.target!r}")
        faults += [
            f"fault {one.kind} is not known in world {world}"
            for world in scenario.worlds
            if world not in KINDS[one.kind].worlds
        ]
        if one.kind.startswith("metadata") and WAN in scenario.worlds and topology.metadata == FILE:
            faults.append(f"fault {one.kind}: a metadata store in a file has no members")
    return faults

"""The contents of a scenario file: topology, quorum, workload, fault schedule, expectations.

The same file is played in the simulator and with real processes. Times are milliseconds since the
start of the workload. A scenario is written by a person and names its faults; the plan of a
simulated seed (``chaos.simulation.seed_run.RunPlan``) is drawn at random. In the simulator a
scenario is played by a subclass of ``SeedRun``.
"""

from dataclasses import dataclass, field, replace
from itertools import combinations

from ...core.protocol.errors import ConfigurationError
from ...core.protocol.quorum import Quorum
from ...core.runtime.settings import setting
from .fault_kinds import KINDS, targets_of

SIM, WAN = "sim", "wan"
WORLDS = (SIM, WAN)
FILE, ETCD, ZOOKEEPER, FDB = "file", "etcd", "zookeeper", "fdb"
ENSEMBLES = (ETCD, ZOOKEEPER, FDB)
EVERYWHERE = "*"

APPEND, DELIVER = "append", "deliver"

_MINUTES_MS = 600_000


@dataclass(frozen=True, slots=True)
class RegionLink:
    """The network link between two regions, with equal properties in both directions."""

    between: tuple[str, ...]
    rtt_ms: float = setting(low=0, high=2_000)
    jitter_ms: float = setting(0.0, low=0, high=500)
    kib_per_s: int = setting(100_000, low=1, high=10_000_000)


@dataclass(frozen=True, slots=True)
class ScenarioTopology:
    """The regions, the servers in each of them, and the links between them."""

    regions: tuple[str, ...]
    bookies: int = setting(2, "Number of bookies in each region.", low=1, high=10)
    links: tuple[RegionLink, ...] = ()
    metadata: str = setting(
        FILE,
        "The metadata store in world wan: an ensemble, or a local file that links do not affect.",
        words=(FILE, *ENSEMBLES),
    )
    metadata_regions: tuple[str, ...] = setting(
        (), "Regions of the ensemble's members; empty: one member in each region."
    )

    @property
    def members(self) -> tuple[str, ...]:
        """The regions of the metadata store's members."""
        return self.metadata_regions or self.regions


@dataclass(frozen=True, slots=True)
class QuorumTable:
    """The quorum: ensemble size E, write quorum WQ, ack quorum AQ and minimum regions R."""

    ensemble: int = setting(3, low=1, high=20)
    write: int = setting(3, low=1, high=20)
    ack: int = setting(2, low=1, high=20)
    regions: int = setting(2, low=1, high=20)

    def quorum(self) -> Quorum:
        """Return the quorum as a product value. Raises InvalidArgumentError."""
        return Quorum(self.ensemble, self.write, self.ack, self.regions)


@dataclass(frozen=True, slots=True)
class WriterTurn:
    """A takeover: the application in ``region`` becomes the active writer at ``at_ms``."""

    region: str
    at_ms: int = setting(0, low=0, high=_MINUTES_MS)


@dataclass(frozen=True, slots=True)
class ScenarioWorkload:
    """The workload of the applications, and the services that run alongside them."""

    writers: tuple[WriterTurn, ...]
    lasts_ms: int = setting(10_000, low=500, high=_MINUTES_MS)
    appends_per_s: int = setting(40, low=1, high=1_000)
    tails: tuple[str, ...] = setting(
        (), "Regions whose application tails the stream; empty: all regions."
    )
    catch_up_every_ms: int = setting(
        0,
        "Interval at which a catch-up reader starts at the beginning of the stream; 0: never.",
        low=0,
        high=_MINUTES_MS,
    )
    truncate_every_ms: int = setting(
        0,
        "Interval at which the older half of the stream is truncated; 0: never.",
        low=0,
        high=_MINUTES_MS,
    )
    roll_ms: int = setting(60_000, low=500, high=_MINUTES_MS)
    archives: bool = False
    repairs: bool = setting(False, "True if a repair process runs in each region.")
    queries: bool = setting(
        False, "True if a Spark query reads archive and ledgers at the end (world wan only)."
    )
    through_proxies: bool = setting(
        False, "True if applications use the write and read proxies (world wan only)."
    )


@dataclass(frozen=True, slots=True)
class FaultTable:
    """One fault: its kind, target and time; repeated every ``every_ms`` if ``times`` > 1."""

    kind: str = setting(words=tuple(KINDS))
    target: str = EVERYWHERE
    at_ms: int = setting(0, low=0, high=_MINUTES_MS)
    lasts_ms: int = setting(0, low=0, high=_MINUTES_MS)
    value: float = setting(0.0, low=0, high=1e12)
    times: int = setting(1, low=1, high=1_000)
    every_ms: int = setting(0, low=0, high=_MINUTES_MS)

    @property
    def end_ms(self) -> int:
        """The end of the fault."""
        return self.at_ms + self.lasts_ms

    def __str__(self) -> str:
        """Return the description of the fault in timelines and logs."""
        value = f" {self.value:g}" if self.value else ""
        return f"{self.kind} {self.target}{value}"

    def regions(self, region: str) -> tuple[str, ...]:
        """Return the affected regions; empty: all. ``region`` is the target's resolved region."""
        if ">" in self.target:
            return tuple(self.target.split(">"))
        if self.target.startswith(("bookie-", "app-")):
            return (region_of(self.target),)
        return () if self.target == EVERYWHERE else (region,)


@dataclass(frozen=True, slots=True)
class UnavailabilityLimit:
    """The longest time that an operation may go without a success."""

    operation: str = setting(words=(APPEND, DELIVER))
    ms_max: int = setting(low=1, high=_MINUTES_MS)
    region: str = setting(
        EVERYWHERE, "``*`` limits appends over all regions together, and deliveries in each region."
    )
    world: str = setting(
        "",
        "Restricts the limit to one world, because real processes are slower to start; empty: "
        "both.",
        words=("", *WORLDS),
    )


@dataclass(frozen=True, slots=True)
class Expect:
    """Expectations of the run, in addition to the invariants of the product."""

    lost: int = setting(0, low=0, high=0)
    doubled: int = setting(0, low=0, high=0)
    acked_min: int = setting(50, low=1, high=1_000_000)
    resume_ms_max: int = setting(
        20_000,
        "Time from the end of the last fault to the first acknowledgement of a later append.",
        low=1,
        high=_MINUTES_MS,
    )
    whole_ms_max: int = setting(
        0,
        "Time from the end of the last fault until all copies exist; 0: not checked.",
        low=0,
        high=_MINUTES_MS,
    )
    whole_regions: int = setting(
        0, "Number of regions that the copies of each fragment must then lie in.", low=0, high=20
    )
    archived_min: int = setting(
        0,
        "Minimum number of archived segments. All of them must equal what readers received.",
        low=0,
        high=10_000,
    )
    unavailable: tuple[UnavailabilityLimit, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. Construction raises ConfigurationError, which lists every error."""

    title: str
    about: str
    topology: ScenarioTopology
    workload: ScenarioWorkload
    worlds: tuple[str, ...] = setting(words=WORLDS)
    quorum: QuorumTable = field(default_factory=QuorumTable)
    fault: tuple[FaultTable, ...] = ()
    expect: Expect = field(default_factory=Expect)
    name: str = ""

    def __post_init__(self) -> None:
        errors = list(_errors_of(self))
        if errors:
            raise ConfigurationError("\n".join(errors))

    def with_ensemble(self, metadata: str) -> "Scenario":
        """Return the scenario with another ensemble, or itself if its metadata is in a file."""
        if self.topology.metadata == FILE:
            return self
        return replace(self, topology=replace(self.topology, metadata=metadata))

    def schedule(self) -> tuple[FaultTable, ...]:
        """Return every single fault in order of time, repetitions included."""
        single = [
            replace(fault, times=1, every_ms=0, at_ms=fault.at_ms + repeat * fault.every_ms)
            for fault in self.fault
            for repeat in range(fault.times)
        ]
        return tuple(sorted(single, key=lambda fault: fault.at_ms))

    @property
    def faults_end_ms(self) -> int:
        """The end of the last fault."""
        return max((fault.end_ms for fault in self.schedule()), default=0)

    @property
    def ends_ms(self) -> int:
        """The end of both the workload and the last fault."""
        return max(self.workload.lasts_ms, self.faults_end_ms)

    @property
    def bookies(self) -> tuple[str, ...]:
        """Names of all bookies."""
        topology = self.topology
        return tuple(
            bookie_name(region, n) for region in topology.regions for n in range(topology.bookies)
        )

    def link_between(self, region: str, other: str) -> RegionLink:
        """Return the link between two regions."""
        return next(link for link in self.topology.links if set(link.between) == {region, other})


def bookie_name(region: str, number: int) -> str:
    """Return the name of a bookie as fault targets use it."""
    return f"bookie-{region}-{number}"


def app_name(region: str) -> str:
    """Return the name of a region's application as fault targets use it."""
    return f"app-{region}"


def region_of(name: str) -> str:
    """Return the region in the name of a bookie or an application."""
    return name.split("-")[1]


def _errors_of(scenario: Scenario) -> "list[str]":
    topology, work = scenario.topology, scenario.workload
    regions = topology.regions
    errors = [
        f"region {region!r}: not ASCII letters and digits only"
        for region in regions
        if not region.isalnum() or not region.isascii()
    ]
    if not 1 <= len(regions) <= 9 or len(set(regions)) != len(regions):
        errors.append(f"topology.regions: {len(regions)} regions, not 1 to 9 distinct ones")
    pairs = [frozenset(link.between) for link in topology.links]
    wanted = [frozenset(pair) for pair in combinations(regions, 2)]
    if sorted(map(sorted, pairs)) != sorted(map(sorted, wanted)):
        errors.append("topology.links: not exactly one link between each two regions")
    named = [
        *(("workload.writers", turn.region) for turn in work.writers),
        *(("workload.tails", region) for region in work.tails),
        *(("topology.metadata_regions", region) for region in topology.metadata_regions),
        *(("expect.unavailable", limit.region) for limit in scenario.expect.unavailable),
    ]
    errors += [
        f"{where}: unknown region {name}"
        for where, name in named
        if name not in (*regions, EVERYWHERE)
    ]
    if not work.writers or work.writers[0].at_ms != 0:
        errors.append("workload.writers: the first writer must start at 0 ms")
    if work.through_proxies and scenario.worlds != (WAN,):
        errors.append("workload.through_proxies: the simulator has no proxies; set worlds to wan")
    if work.queries and (scenario.worlds != (WAN,) or not work.archives):
        errors.append("workload.queries: needs archives = true and worlds = [wan]")
    for fault in scenario.fault:
        kind = fault.kind
        if fault.target not in targets_of(kind, regions, scenario.bookies):
            errors.append(f"fault {kind}: unknown target {fault.target!r}")
        errors += [
            f"fault {kind}: not supported in world {world}"
            for world in scenario.worlds
            if world not in KINDS[kind].worlds
        ]
        if kind.startswith("metadata") and WAN in scenario.worlds and topology.metadata == FILE:
            errors.append(f"fault {kind}: a metadata store in a file has no members")
    return errors

"""The product in a simulated world: real bookies, ledger clients and streams on simulated hosts.

``SimCluster`` also keeps what only the simulation knows: the bookie id of each host, and which
records are durable on which disk. Host names, bookie names and the stream's name seed generators or
are part of metadata paths: they belong to a seed's identity.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...core.bookie.bookie import Bookie
from ...core.bookie.config import MIB, BookieConfig
from ...core.bookie.disks.attach_directories import attach_configured
from ...core.bookie.disks.lost_files import LostFiles
from ...core.bookie.identity import IDENTITY_FILE, format_storage
from ...core.ledger.client import LedgerClient
from ...core.ledger.config import LedgerConfig
from ...core.ledger.slow_departure import SlowDeparture
from ...core.log.config import ReaderConfig, WriterConfig
from ...core.log.namespace import Namespace, create_namespace
from ...core.log.policy import StreamPolicy
from ...core.metadata.bookie_directory import BookieDirectory
from ...core.metadata.cluster_layout import initialise_cluster
from ...core.metadata.feature_levels import KNOWN_LEVELS
from ...core.metadata.join_regional_store import join_regional_store
from ...core.metadata.ledger_ids import GLOBAL_STORE
from ...core.metadata.ledger_store import LedgerStore
from ...core.metadata.read_only_store import ReadOnlyStore
from ...core.metadata.regional_store import RegionalStore
from ...core.protocol.bookie_id import BookieId, check_region
from ...core.protocol.errors import (
    CorruptionError,
    ForeignDataError,
    InvariantBrokenError,
    RhumblineError,
)
from ...core.protocol.ledger_metadata import LedgerMetadata
from ...core.protocol.recovery import Evidence
from ...core.runtime.disk import Disk
from ...core.runtime.runtime import Runtime
from ...core.wire import ledger_metadata as ledger_codec
from ...placement.region_aware import RegionAwarePlacement
from ...regions.cached_states import CachedStates
from ...regions.drain_writers import WriterDrainer
from ...regions.follow_policies import PolicyFollower
from ...regions.ownerless.ownerless_ledgers import Takeover
from ...regions.ownerless.roll_requests import RollRequests
from ...regions.rebalance.order_store import OrderStore, RebalanceOrder, RebalanceStatus
from ...regions.region_reads import RegionReads
from ...regions.repair.task_store import TaskStore
from ...regions.repair.under_replication_reports import UnderReplicationReports
from ...regions.steered_directory import SteeredDirectory
from ...server.replica_reads import ReplicaReads
from ..checker.history import TOKEN
from ..checker.run_record import SealPeriod
from .world.disk import DiskBackup
from .world.metadata import ledger_id_of
from .world.process import ProcessState
from .world.sim_world import SimHost, SimWorld

if TYPE_CHECKING:
    from .operator import Operator
    from .proxies.proxy_controls import ProxyControls
    from .upgrade.upgrade_controls import UpgradeControls

NAMESPACE, STREAM = "sim", "stream"
PORT = 3181
STORAGE = "bookie"
"""The directory of a bookie's files on the disk of its host."""

_SESSION_MS = 2_000
_DIRECTORY_CHECK_MS = 300


@dataclass(frozen=True, slots=True)
class SimClusterSettings:
    """The configuration of the product in a run."""

    policy: StreamPolicy
    ledger: LedgerConfig
    writer: WriterConfig = field(default_factory=WriterConfig)
    reader: ReaderConfig = field(default_factory=ReaderConfig)
    log_file_bytes: int = 1 * MIB
    maintenance_reserve_bytes: int | None = None
    tail_cache_bytes: int = 64 * MIB
    maintenance_ms: int = 10_000
    collect_ms: int = 600_000
    tombstone_ms: int = 7 * 24 * 3_600_000
    metadata_copies_ms: int = 600_000
    sealed_logs_kept: int = 4
    surplus_ms: int = 3_600_000
    regional_store: str = ""
    """The region whose metadata store holds the stream, beside a global store that holds no stream;
    "" if there is one store only."""
    follows_rolls: bool = True
    """False if writers follow no roll requests, like programs of an older version."""
    bookies_per_machine: int = 1
    """Number of bookies of a region that run on one machine, and fail together with it."""
    data_directories: int = 0
    """Number of data directories of each bookie."""
    bookies_fetch: bool = True
    """True if bookies fetch lost entries from replicas; otherwise only repair restores them."""


def data_directory(number: int) -> str:
    """Return the root of a bookie's data directory on the disk of its host."""
    return f"data-{number}"


def bookie_host(region: str, number: int) -> str:
    """Return the name of a bookie's host. It is part of the identity of seeds."""
    return f"bookie-{region}-{number}"


def machine_name(region: str, number: int) -> str:
    """Return the name of a machine on which several bookies run. It is what they register."""
    return f"machine-{region}-{number}"


def bookie_hosts(regions: Sequence[str], bookies_by_region: Sequence[int]) -> list[str]:
    """Return the names of the hosts of all bookies, region by region."""
    return [
        bookie_host(region, number)
        for region, count in zip(regions, bookies_by_region, strict=True)
        for number in range(count)
    ]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a schedule: ``kind`` on ``target``, from ``at_ms`` for ``lasts_ms`` (0: once)."""

    kind: str
    target: str
    at_ms: int
    lasts_ms: int = 0
    value: float = 0.0

    def __str__(self) -> str:
        """Return the line of a schedule. It seeds the generators of some kinds of faults."""
        value = f" {self.value:g}" if self.value else ""
        lasts = f" for {self.lasts_ms}" if self.lasts_ms else ""
        return f"at {self.at_ms}{lasts} ms: {self.kind} {self.target}{value}"


class SimCluster:
    """The bookies and applications of a simulated world, and what is known about their data."""

    def __init__(
        self, world: SimWorld, settings: SimClusterSettings, bookies_by_region: Iterable[int]
    ) -> None:
        self.world = world
        self.settings = settings
        self.regions: dict[str, str] = {}
        """The region of each bookie id that was ever formatted."""
        self.durable: dict[bytes, dict[str, float]] = {}
        """See ``BookieObservations.durable``."""
        self.evidence: list[Evidence] = []
        self.slow_departures: list[SlowDeparture] = []
        self.stale_reads_ms: list[float] = []
        """When readers used old metadata."""
        self.faults_begun: list[tuple[float, Fault]] = []
        """(virtual ms, fault), in the order in which they began."""
        self.bookies: dict[str, Bookie] = {}
        """The running bookies by host, for inspection only."""
        self.machines: dict[str, str] = {}
        """The machine of each bookie id; empty if no bookies share one."""
        self.lost: dict[str, None] = {}
        """Bookie ids whose data a fault destroyed or damaged."""
        self.lying_bookies: dict[str, None] = {}
        """Bookie ids whose disk confirmed syncs that it did not do."""
        self.bookie_ids: dict[str, str] = {}
        """The current bookie id of each host."""
        self.backups: dict[str, tuple[DiskBackup, int]] = {}
        """The last back-up of each host's disk, and the number of starts until then."""
        self.starts: Counter[str] = Counter()
        """Number of times that the bookie of each host has begun to serve."""
        self.r_changers: list[Callable[[int], None]] = []
        """Functions that set the R of a ledger which is being written."""
        if settings.regional_store:
            world.add_global_metadata(world.topology.regions)
        self.takeovers: list[Takeover] = []
        """The decisions of repair to take a stream over from a writer that is gone."""
        self.sleepers_met = 0
        """Number of these decisions at which an application was paused."""
        self.seals: list[SealPeriod] = []
        """The periods in which the stream was sealed."""
        self.operator: Operator | None = None
        """Gives commands, in plans that have an operator."""
        self.proxies: ProxyControls | None = None
        """Gives commands to proxies, in plans that have proxies."""
        self.upgrades: UpgradeControls | None = None
        """Changes the programs of hosts, in plans that have two versions."""
        self.writers_are_idle = False
        """True if writers keep their sessions and append nothing."""
        self.bookie_hosts: list[SimHost] = []
        for region, count in zip(world.topology.regions, bookies_by_region, strict=True):
            for number in range(count):
                host = self._add_bookie_host(region, number)
                host.image.on_durable = self._listener(host)
                self.bookie_hosts.append(host)
        self.app_hosts = [world.host(f"app-{region}", region) for region in world.topology.regions]

    def _add_bookie_host(self, region: str, number: int) -> SimHost:
        """Bookies that share machines lie in one rack, or racks would keep their copies apart."""
        name, per_machine = bookie_host(region, number), self.settings.bookies_per_machine
        if per_machine == 1:
            return self.world.host(name, region, f"r{number}")
        host = self.world.host(name, region)
        host.machine = machine_name(region, number // per_machine)
        return host

    def _listener(self, host: SimHost) -> "_DurableListener":
        return _DurableListener(self, host)

    async def bootstrap(self) -> None:
        """Create the metadata of cluster and stream, and start the bookies, without faults."""
        host = self.app_hosts[0]
        host.start(_idle)
        await host.spawn(self._bootstrap(host), "found the cluster")
        host.kill("is done with founding")
        for bookie in self.bookie_hosts:
            bookie.start(self.run_bookie)
        async with asyncio.timeout(30):
            await until(lambda: len(self.bookies) == len(self.bookie_hosts))

    async def _bootstrap(self, host: SimHost) -> None:
        store, runtime = host.metadata(), host.runtime()
        region = self.settings.regional_store
        if region:
            global_store = host.global_metadata()
            await initialise_cluster(global_store, runtime.random)
            await join_regional_store(global_store, store, region, runtime)
        else:
            await initialise_cluster(store, runtime.random)
        await create_namespace(store, runtime, NAMESPACE, self.settings.policy)
        async with self.client(host) as client:
            await client.namespace.create_stream(STREAM)

    # --- bookies --------------------------------------------------------------------------------

    async def run_bookie(self, host: SimHost) -> None:
        """Run a bookie: format its storage if it is empty, then serve until it fails."""
        runtime, disk = host.runtime(), host.disk(STORAGE)
        region = self.settings.regional_store
        store = host.global_metadata() if region else host.metadata()
        known = KNOWN_LEVELS if self.upgrades is None else self.upgrades.levels_on(host)
        directory = BookieDirectory(store, known=known)
        config = BookieConfig(
            boot_id=f"{host.name}-{host.boots}",
            log_file_bytes=self.settings.log_file_bytes,
            maintenance_reserve_bytes=self.settings.maintenance_reserve_bytes,
            tail_cache_bytes=self.settings.tail_cache_bytes,
            session_ttl_ms=_SESSION_MS,
            maintenance_ms=self.settings.maintenance_ms,
            collect_ms=self.settings.collect_ms,
            tombstone_ms=self.settings.tombstone_ms,
            metadata_copies_ms=self.settings.metadata_copies_ms,
            sealed_logs_kept=self.settings.sealed_logs_kept,
            surplus_ms=self.settings.surplus_ms,
            host=host.machine,
        )
        try:
            if IDENTITY_FILE not in await disk.list(""):
                instance = await directory.instance_id()
                bookie_id = await format_storage(
                    disk, runtime, host.name, host.region, host.rack, instance, directory
                )
                self._name(host, bookie_id)
            regional = None
            if region and region == host.region:
                regional = await RegionalStore.open(host.metadata(), check_region(region))
            whole = await self._attach(host, disk, config, runtime)
            bookie = await Bookie.open(
                runtime,
                whole,
                config,
                LedgerStore(store),
                directory,
                holder=config.boot_id,
                regional=regional,
            )
        except (CorruptionError, ForeignDataError) as error:
            if self.bookie_ids.get(host.name) not in self.lost:
                raise InvariantBrokenError(f"{host.name} does not open its own storage") from error
            self.world.trace.note(host.name, f"an operator formats the disk: {error}")
            host.image.format()
            raise
        self._name(host, bookie.bookie_id)  # an earlier process may have died while formatting
        if self.settings.bookies_fetch:
            ledgers, bookies = LedgerStore(store), directory
            if regional is not None:
                ledgers, bookies = regional.ledgers, regional.directory
            replicas = ReplicaReads(runtime, ledgers, bookies, bookie.region)
            bookie.scrubber.fetch = replicas.fetch
        lost = LostFiles(whole, bookie, _DIRECTORY_CHECK_MS)
        if self.upgrades is not None:
            await self.upgrades.register_bookie(host, bookie)
        await bookie.serve(host.name, PORT)
        if self.settings.data_directories:
            host.spawn(lost.run(), "lost files")
        self.bookies[host.name] = bookie
        self.starts[host.name] += 1
        self.world.trace.note(host.name, f"serves as {bookie.bookie_id}")
        await until(lambda: bookie.service.failure is not None, every_s=1.0)
        failure = bookie.service.failure
        assert failure is not None
        raise failure

    async def _attach(
        self, host: SimHost, disk: Disk, config: BookieConfig, runtime: Runtime
    ) -> Disk:
        """Return the disk with its data directories; failed ones are declared lost."""
        paths = [data_directory(number) for number in range(self.settings.data_directories)]
        if not paths:
            return disk
        lost = host.image.lost_roots
        config = replace(
            config,
            data_dirs=tuple(path for path in paths if path not in lost),
            lost_data_dirs=tuple(path for path in paths if path in lost),
        )
        return await attach_configured(disk, config, host.disk, runtime.random)

    def _name(self, host: SimHost, bookie_id: BookieId) -> None:
        if self.bookie_ids.get(host.name) != bookie_id:
            self.regions[bookie_id] = host.region
            if host.machine is not None:
                self.machines[bookie_id] = host.machine
            self.bookie_ids[host.name] = bookie_id
            if host.image.health.is_lying:
                self.lying_bookies[bookie_id] = None

    def mark_damaged(self, host: SimHost) -> None:
        """Mark the data of the bookie on ``host`` as lost or damaged by a fault."""
        bookie_id = self.bookie_ids.get(host.name)
        if bookie_id is not None:
            self.lost[bookie_id] = None

    def ledgers_now(self) -> list[LedgerMetadata]:
        """Return the metadata of every ledger as it is stored now."""
        stored: dict[int, bytes | None] = {}
        for commit in self.world.metadata.tree.history:
            ledger_id = ledger_id_of(commit.path)
            if ledger_id is not None:
                stored[ledger_id] = commit.data
        return [ledger_codec.decode(ledger_id, data) for ledger_id, data in stored.items() if data]

    def holders(self, token: bytes) -> tuple[str, ...]:
        """Return the bookies on whose disks a record has ever been durable."""
        return tuple(self.durable.get(token, ()))

    # --- policies -------------------------------------------------------------------------------

    async def set_min_regions(self, host: SimHost, target: str, min_regions: int) -> None:
        """Set R in the policy of the ``namespace`` or the ``stream``, unless that fails."""
        policy = self.settings.policy
        policy = replace(policy, quorum=replace(policy.quorum, min_regions=min_regions))
        async with self.client(host) as client:
            try:
                if target == "namespace":
                    await client.namespace.set_policy(policy)
                else:
                    await client.namespace.set_stream_policy(STREAM, policy)
            except RhumblineError as error:
                self.world.trace.note(host.name, f"R of the {target} is unchanged: {error}")
            else:
                self.world.trace.note(host.name, f"R of the {target} is {min_regions}")

    # --- ends of segments -----------------------------------------------------------------------

    def add_takeover(self, takeover: Takeover) -> None:
        """Record a decision of repair to take a stream over."""
        self.takeovers.append(takeover)
        processes = [host.process for host in self.app_hosts]
        self.sleepers_met += any(
            process is not None and process.state is ProcessState.PAUSED for process in processes
        )

    # --- rebalancing ----------------------------------------------------------------------------

    async def rebalance(self, host: SimHost, bytes_per_second: int, *, is_paused: bool) -> None:
        """Give an order to rebalance, unless that fails."""
        status = RebalanceStatus.PAUSED if is_paused else RebalanceStatus.RUNNING
        order = RebalanceOrder(status, bytes_per_second, 1, host.runtime().clock.wall_ms())
        async with self.client(host) as client:
            try:
                await OrderStore(client.store).order(order)
            except RhumblineError as error:
                self.world.trace.note(host.name, f"no order to rebalance: {error}")

    # --- clients --------------------------------------------------------------------------------

    def record_stale_read(self) -> None:
        """Record that a reader used old metadata now."""
        self.stale_reads_ms.append(self.world.loop.now * 1000)

    def client(self, host: SimHost) -> "SimClient":
        """Return a client for the process that runs on ``host``."""
        return SimClient(self, host)


class _DurableListener:
    """Finds records, by their tokens, in data that becomes durable on a disk."""

    __slots__ = ("_cluster", "_host")

    def __init__(self, cluster: SimCluster, host: SimHost) -> None:
        self._cluster = cluster
        self._host = host

    def __call__(self, data: bytes) -> None:
        tokens = TOKEN.findall(data)
        if tokens:
            bookie_id = self._cluster.bookie_ids[self._host.name]
            now_ms = self._cluster.world.loop.now * 1000
            for token in tokens:
                self._cluster.durable.setdefault(token, {}).setdefault(bookie_id, now_ms)


class SimClient:
    """A client, assembled from the same parts as ``connect()`` uses in production."""

    def __init__(self, cluster: SimCluster, host: SimHost) -> None:
        settings = cluster.settings
        self.store = host.metadata()
        self.metadata_reads = ReadOnlyStore(self.store, on_stale_read=cluster.record_stale_read)
        self.directory = SteeredDirectory(self.store, reads=self.metadata_reads)
        self.cached_states = CachedStates(self.directory.states)
        runtime = host.runtime()
        region = check_region(host.region)
        self.reads = RegionReads(
            region,
            runtime.random,
            rack_of=self.directory.rack_of,
            is_offline=self.cached_states.is_offline,
        )
        self.under_replication = UnderReplicationReports(
            TaskStore(self.store), self.directory, runtime.clock
        )
        self.ledgers = LedgerClient(
            runtime,
            LedgerStore(
                self.store,
                number=1 if settings.regional_store else GLOBAL_STORE,
                reads=self.metadata_reads,
            ),
            self.directory,
            RegionAwarePlacement(),
            settings.ledger,
            region,
            reads=self.reads,
            on_evidence=cluster.evidence.append,
            on_missing_range=self.under_replication,
            on_slow_departure=cluster.slow_departures.append,
        )
        self.drain_writers = None
        if settings.follows_rolls:
            self.drain_writers = WriterDrainer(
                self.directory.states, RollRequests(self.store), self.ledgers
            )
        self.follow_policies = PolicyFollower(self.store, self.ledgers)
        self.namespace = Namespace(
            runtime,
            self.store,
            self.ledgers,
            NAMESPACE,
            writer_config=settings.writer,
            reader_config=settings.reader,
            reads=self.metadata_reads,
        )

    async def __aenter__(self) -> "SimClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.follow_policies.aclose()
        if self.drain_writers is not None:
            await self.drain_writers.aclose()
        await self.under_replication.aclose()
        await self.ledgers.aclose()
        await self.cached_states.aclose()
        await self.metadata_reads.aclose()
        await self.store.close()


async def until(is_true: Callable[[], bool], *, every_s: float = 0.1) -> None:
    """Wait until a condition holds, by polling it in virtual time."""
    while not is_true():  # noqa: ASYNC110 - no event signals what is observed from outside
        await asyncio.sleep(every_s)


async def _idle(host: SimHost) -> None:
    await asyncio.Event().wait()

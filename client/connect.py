"""``connect()`` and ``Client``: the entry point of an application that writes and reads streams.

A client combines, for one process and one metadata store, the store, the bookie directory, the
ledger client with its placement, and the namespaces. Nothing is opened before ``async with``.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, overload

from ..backends.open_store import open_store
from ..core.ledger.client import LedgerClient
from ..core.ledger.config import LedgerConfig
from ..core.log.close_at_exit import ClosesAtExit
from ..core.log.config import ReaderConfig, WriterConfig
from ..core.log.log_context import LogContext
from ..core.log.namespace import Namespace
from ..core.log.read.segment_opener import Archives
from ..core.log.read.stream_reader import StreamReader
from ..core.log.write.stream_writer import StreamWriter
from ..core.metadata.cluster_layout import instance_id
from ..core.metadata.ledger_store import LedgerStore
from ..core.protocol.bookie_id import Region, check_region
from ..core.protocol.errors import ClosedError, ConfigurationError, WrongClusterError
from ..core.protocol.extras import needs_extra
from ..core.protocol.start import EARLIEST, Start
from ..core.runtime.cold_store import ColdStore
from ..core.runtime.home_loop import HomeLoop
from ..core.runtime.metadata_store import MetadataStore
from ..core.runtime.runtime import Runtime
from ..core.runtime.tracing import Tracer
from ..placement.region_aware import RegionAwarePlacement
from ..regions.cached_states import CachedStates
from ..regions.drain_writers import WriterDrainer
from ..regions.follow_policies import PolicyFollower
from ..regions.region_reads import ReadSettings, RegionReads
from ..regions.repair.task_store import TaskStore
from ..regions.repair.under_replication_reports import UnderReplicationReports
from ..regions.steered_directory import SteeredDirectory
from .system_runtime import system_runtime

if TYPE_CHECKING:
    from ..proxies.client.proxy_client import ProxyClient

METADATA_TIMEOUT_MS = 10_000


class Client(ClosesAtExit):
    """The connection of a process to a cluster. Use it with ``async with``, in one event loop."""

    def __init__(
        self,
        uri: str,
        *,
        namespace: str = "default",
        region: str | None = None,
        ledger: LedgerConfig | None = None,
        writer: WriterConfig | None = None,
        reader: ReaderConfig | None = None,
        reads: ReadSettings | None = None,
        cold: str | None = None,
        moves_data: bool = True,
        metadata_timeout_ms: int = METADATA_TIMEOUT_MS,
        store: MetadataStore | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        """Set ``moves_data`` to False for a client that only uses metadata.

        Such a client needs no region.
        """
        self.uri = uri
        self.region: Region | None = check_region(region) if region else None
        self.instance_id = ""
        """Id of the cluster; "" before the client is open."""
        self.runtime = runtime or system_runtime()
        self._namespace_name = namespace
        self._ledger_config = ledger or LedgerConfig()
        self._writer_config = writer or WriterConfig()
        self._reader_config = reader or ReaderConfig()
        self._read_settings = reads or ReadSettings()
        self.placement = RegionAwarePlacement()
        """The choice of bookies, with the counters of its searches."""
        self._moves_data = moves_data
        self._timeout_ms = metadata_timeout_ms
        self._cold_uri = cold
        self._cold: ColdStore | None = None
        self._given_store = store
        self._store: MetadataStore | None = None
        self._home: HomeLoop | None = None
        self._directory: SteeredDirectory | None = None
        self.reads: RegionReads | None = None
        """The read policy with its counters; set while the client is open."""
        self._ledgers: LedgerClient | None = None
        self._ledger_store: LedgerStore | None = None
        self._shared = LogContext()
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the metadata store and read the cluster's identity and bookies.

        Raises ConfigurationError (invalid URI, or no region although the cluster has several),
        MetadataUnavailableError, WrongClusterError when no cluster was initialised there.
        """
        async with AsyncExitStack() as opening:
            store = self._given_store
            if store is None:
                store = await open_store(self.uri, timeout_ms=self._timeout_ms)
                opening.push_async_callback(store.close)
            self.instance_id = await _instance_id(store)
            if self._cold_uri is not None:
                self._cold = _open_cold(self._cold_uri)
                opening.push_async_callback(self._cold.close)
            self._directory = SteeredDirectory(store)
            opening.callback(self._directory.close)
            cached_states = CachedStates(self._directory.states)
            opening.push_async_callback(cached_states.aclose)
            self.reads = RegionReads(
                self.region,
                self.runtime.random,
                self._read_settings,
                rack_of=self._directory.rack_of,
                is_offline=cached_states.is_offline,
            )
            if self._moves_data:
                await self.check_region()
            self._ledger_store = LedgerStore(store)
            reports = UnderReplicationReports(TaskStore(store), self._directory, self.runtime.clock)
            self._ledgers = LedgerClient(
                self.runtime,
                self._ledger_store,
                self._directory,
                self.placement,
                self._ledger_config,
                self.region,
                reads=self.reads,
                on_missing_range=reports,
            )
            opening.push_async_callback(self._ledgers.aclose)
            opening.push_async_callback(reports.aclose)
            drainer = WriterDrainer(self._directory.states, self._ledgers)
            opening.push_async_callback(drainer.aclose)
            follower = PolicyFollower(store, self._ledgers)
            opening.push_async_callback(follower.aclose)
            self._store = store
            self._home = HomeLoop()
            self._closing = opening.pop_all()
        return self

    async def _close_at_exit(self) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, and the store unless it was given. Safe to repeat."""
        self._store = None
        await self._closing.aclose()

    @property
    def store(self) -> MetadataStore:
        """The metadata store.

        Raises ClosedError before ``async with`` and after it, and InvalidArgumentError in another
        event loop than that of ``async with``.
        """
        if self._store is None or self._home is None:
            raise ClosedError("the client is not open: use it with `async with connect(...)`")
        self._home.check("the client")
        return self._store

    @property
    def directory(self) -> SteeredDirectory:
        """The bookies of the cluster."""
        assert self.store
        assert self._directory is not None
        return self._directory

    @property
    def ledgers(self) -> LedgerClient:
        """The ledger client that all streams use."""
        assert self.store
        assert self._ledgers is not None
        return self._ledgers

    @property
    def ledger_store(self) -> LedgerStore:
        """The store of ledger metadata."""
        assert self.store
        assert self._ledger_store is not None
        return self._ledger_store

    def statistics(self) -> dict[str, Any]:
        """Return the counters and latencies of this client, by layer and name.

        They remain available after the client was closed.
        """
        assert self.reads is not None
        assert self._ledgers is not None
        return {
            "streams": self._shared.statistics(),
            "ledgers": self._ledgers.statistics(),
            "reads": self.reads.statistics(),
            "placement": self.placement.statistics(),
        }

    def namespace(self, name: str | None = None, *, archives: Archives | None = None) -> Namespace:
        """Return a namespace, by default the client's own; it need not exist yet.

        ``archives`` replaces the client's cold store as the source of archived segments.
        """
        return Namespace(
            self.runtime,
            self.store,
            self.ledgers,
            name or self._namespace_name,
            writer_config=self._writer_config,
            reader_config=self._reader_config,
            context=self._shared,
            archives=archives or self._archives(name or self._namespace_name),
        )

    def _archives(self, namespace: str) -> Archives | None:
        if self._cold is None:
            return None
        from ..coldstore.archive.cold_archives import ColdArchives

        return ColdArchives(self._cold, namespace)

    @asynccontextmanager
    async def writer(self, stream: str) -> AsyncIterator[StreamWriter]:
        """Open a writer of ``stream``; the previous writer is fenced.

        Raises NoSuchStreamError, EndOfStreamError, NotEnoughBookiesError, MetadataUnavailableError.
        The end of the block closes the writer and raises what that raises. An error of the block,
        cancellation included, is never replaced: the error of closing is a note on it.
        """
        writer = await self.namespace().open_writer(stream)
        async with writer:
            yield writer

    @asynccontextmanager
    async def reader(self, stream: str, start: Start = EARLIEST) -> AsyncIterator[StreamReader]:
        """Open a reader of ``stream`` at ``start``; see ``Namespace.open_reader``."""
        reader = await self.namespace().open_reader(stream, start)
        async with reader:
            yield reader

    async def check_region(self) -> None:
        """Raise ConfigurationError if the client has no region and the cluster has several.

        A region without bookies is legal: applications and proxies may run where none are.
        """
        assert self._directory is not None
        if self.region is not None:
            return
        found = {info.region for info in await self._directory.everything() if info.region}
        if len(found) > 1:
            raise ConfigurationError(
                f"the cluster has bookies in {len(found)} regions ({', '.join(sorted(found))}): "
                "set the region of this process (region=, --region, or [cluster] region)"
            )


def connect_proxies(
    uri: str,
    *,
    namespace: str = "default",
    reader: ReaderConfig | None = None,
    tracer: Tracer | None = None,
) -> "ProxyClient":
    """Return a thin client of the proxies at ``grpc://host:port,host:port``.

    Raises ConfigurationError.
    """
    with needs_extra("a client of proxies", "grpc"):
        from ..proxies.client.proxy_client import ProxyClient
        from ..proxies.rpc.grpc_calls import GrpcTransport
    runtime = system_runtime(tracer)
    return ProxyClient(uri, runtime, GrpcTransport(), namespace=namespace, reader=reader)


@overload
def connect(
    uri: str,
    *,
    namespace: str = ...,
    region: str,
    ledger: LedgerConfig | None = ...,
    writer: WriterConfig | None = ...,
    reader: ReaderConfig | None = ...,
    cold: str | None = ...,
    tracer: Tracer | None = ...,
) -> Client: ...


@overload
def connect(
    uri: str,
    *,
    namespace: str = ...,
    region: None = None,
    ledger: LedgerConfig | None = ...,
    writer: WriterConfig | None = ...,
    reader: ReaderConfig | None = ...,
    cold: str | None = ...,
    tracer: Tracer | None = ...,
) -> "Client | ProxyClient": ...


def connect(
    uri: str,
    *,
    namespace: str = "default",
    region: str | None = None,
    ledger: LedgerConfig | None = None,
    writer: WriterConfig | None = None,
    reader: ReaderConfig | None = None,
    cold: str | None = None,
    tracer: Tracer | None = None,
) -> "Client | ProxyClient":
    """Return a client of the cluster whose metadata is at ``uri``: ``async with connect(...)``.

    With ``grpc://host:port,host:port`` the client uses the proxies at these addresses. They have
    their own region and settings, so only ``namespace``, ``reader`` and ``tracer`` may be given.
    Raises ConfigurationError.

    ``region`` is the region of this process; it may be omitted if the cluster has only one.
    ``cold`` is the URI of the cold store, from which segments that only the archive still contains
    are read. ``tracer`` creates spans for sampled record sets, e.g. an ``OtelTracer`` of
    ``rhumbline.telemetry``.
    """
    if uri.startswith("grpc://"):
        if any(given is not None for given in (region, ledger, writer, cold)):
            raise ConfigurationError(
                f"{uri}: region, ledger, writer and cold are settings of the proxies"
            )
        return connect_proxies(uri, namespace=namespace, reader=reader, tracer=tracer)
    return Client(
        uri,
        namespace=namespace,
        region=region,
        ledger=ledger,
        writer=writer,
        reader=reader,
        cold=cold,
        runtime=system_runtime(tracer),
    )


def _open_cold(uri: str) -> ColdStore:
    with needs_extra("an archive", "arrow"):
        from ..coldstore.archive import cold_archives  # noqa: F401 - fails early if pyarrow is missing
        from ..coldstore.stores.open_store import open_cold_store
    return open_cold_store(uri)


async def _instance_id(store: MetadataStore) -> str:
    try:
        return await instance_id(store)
    except WrongClusterError as error:
        raise WrongClusterError(f"{error}; `rhumbline cluster init` initialises one") from error

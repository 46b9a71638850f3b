"""``connect()`` and ``Client``: the entry point of an application that writes and reads streams.

A client combines, for one process, the namespaces of a cluster and, for each metadata store, the
store, the bookie directory and the ledger client. Nothing is opened before ``async with``.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from ..access.ledger_secrets import LedgerSecrets
from ..access.token_source import TokenSource, token_source
from ..coldstore.stores.measured_cold_store import MeasuredColdStore
from ..core.ledger.client import LedgerClient
from ..core.ledger.config import LedgerConfig
from ..core.log.api.log_client import LogClient as LogClient  # also for the Spark data source
from ..core.log.close_at_exit import ClosesAtExit
from ..core.log.config import ReaderConfig, WriterConfig
from ..core.log.ledger_interface import LedgerProvider
from ..core.log.log_context import LogContext
from ..core.log.namespace import Namespace
from ..core.log.read.segment_opener import Archives
from ..core.log.read.stream_reader import StreamReader
from ..core.log.write.stream_writer import StreamWriter
from ..core.metadata.declared_regions import check_declared, read_declared_regions
from ..core.metadata.ledger_store import LedgerStore
from ..core.metadata.read_only_store import WAIT_MS
from ..core.protocol.bookie_id import Region, check_region
from ..core.protocol.errors import ClosedError, ConfigurationError, MetadataUnavailableError
from ..core.protocol.installation import needs_extra
from ..core.protocol.start import EARLIEST, Start
from ..core.runtime.event_log import EventLog
from ..core.runtime.home_loop import HomeLoop
from ..core.runtime.metadata_store import MetadataReads, MetadataStore
from ..core.runtime.metrics import REGIONAL
from ..core.runtime.runtime import Runtime
from ..core.runtime.tracing import Tracer
from ..placement.region_aware import RegionAwarePlacement
from ..proxies.client.discovery.config import DiscoveryConfig
from ..proxies.proxy_uri import SRV_SCHEME, is_proxy_uri
from ..regions.region_reads import ReadSettings, RegionReads
from ..regions.steered_directory import SteeredDirectory
from ..security.settings import TlsSettings
from ..tls.credentials import TlsCredentials, credentials_of
from ..tls.protection import Protection, is_loopback
from .bound_namespace import BoundLedgers, BoundReads, BoundStore, NamespaceBinding
from .cluster_stores import ClusterStores
from .direct_topics import DirectTopics
from .namespaces import Namespaces
from .settings import TelemetrySettings
from .store_client import StoreClient, StoreClientSettings
from .system_runtime import system_runtime

if TYPE_CHECKING:
    from ..proxies.client.proxy_client import ProxyClient

_LOG = EventLog(__name__)

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
        metadata_stale_after_ms: int = WAIT_MS,
        store: MetadataStore | None = None,
        runtime: Runtime | None = None,
        regional_metadata: Mapping[str, str] | None = None,
        telemetry: TelemetrySettings | None = None,
        ledger_secrets: str = "",
    ) -> None:
        """Set ``moves_data`` to False for a client that only uses metadata.

        Such a client needs no region. ``regional_metadata`` has the URIs of regional metadata
        stores by region. ``ledger_secrets`` is a file with the secrets of
        namespaces, from which the passwords of new ledgers follow. Raises ConfigurationError.
        """
        self.uri = uri
        self._secrets = LedgerSecrets(ledger_secrets)
        self.region: Region | None = check_region(region) if region else None
        self.runtime = runtime or system_runtime()
        self._namespace_name = namespace
        self._ledger_config = ledger or LedgerConfig()
        self._writer_config = writer or WriterConfig()
        self._reader_config = reader or ReaderConfig()
        self._read_settings = reads or ReadSettings()
        self.placement = RegionAwarePlacement()
        """The choice of bookies, with the counters of its searches."""
        self._moves_data = moves_data
        self._stale_after_ms = metadata_stale_after_ms
        self._cold_uri = cold
        self._cold: MeasuredColdStore | None = None
        self._given_store = store
        regional = {check_region(name): uri for name, uri in (regional_metadata or {}).items()}
        self._stores = ClusterStores(uri, regional, timeout_ms=metadata_timeout_ms)
        self._home: HomeLoop | None = None
        telemetry = telemetry or TelemetrySettings()
        self._shared = LogContext(series_by=telemetry.series_by, series_max=telemetry.series_max)
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the metadata store and read the cluster's identity and bookies.

        With a regional store for its own region the client opens although the global store cannot
        be reached, and uses that as soon as it can. Raises ConfigurationError (invalid URI, or no
        region although the cluster has several), MetadataUnavailableError, WrongClusterError when
        no cluster was initialised there.
        """
        async with AsyncExitStack() as opening:
            settings = StoreClientSettings(
                self.runtime,
                self.placement,
                self.region,
                self._ledger_config,
                self._read_settings,
                self._stale_after_ms,
                self._secrets.password_of,
            )
            if self._cold_uri is not None:
                self._cold = _open_cold(self._cold_uri)
                opening.push_async_callback(self._cold.close)
            opening.push_async_callback(self._stores.aclose)
            await self._stores.open(settings, self._given_store)
            if self._moves_data and self._stores.is_global_open:
                await self.check_region()
            self._home = HomeLoop()
            self._closing = opening.pop_all()
        return self

    async def _close_at_exit(self) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, and the store unless it was given. Safe to repeat."""
        self._home = None
        await self._closing.aclose()

    @property
    def instance_id(self) -> str:
        """Id of the cluster; "" before the client is open."""
        return self._stores.instance_id

    @property
    def global_store(self) -> StoreClient:
        """The global metadata store, with its bookies and ledgers.

        Raises ClosedError before ``async with`` and after it, InvalidArgumentError in another event
        loop than that of ``async with``, and MetadataUnavailableError if the global store could not
        be reached yet.
        """
        self._check_open()
        return self._stores.global_store

    def _check_open(self) -> None:
        if self._home is None:
            raise ClosedError("the client is not open: use it with `async with connect(...)`")
        self._home.check("the client")

    @property
    def store(self) -> MetadataStore:
        """The global metadata store. Raises as ``global_store``."""
        return self.global_store.store

    @property
    def directory(self) -> SteeredDirectory:
        """The bookies of the cluster. Raises as ``global_store``."""
        return self.global_store.directory

    @property
    def ledgers(self) -> LedgerClient:
        """The ledger client of the streams in the global store. Raises as ``global_store``."""
        return self.global_store.ledgers

    @property
    def ledger_store(self) -> LedgerStore:
        """The ledger metadata in the global store. Raises as ``global_store``."""
        return self.global_store.ledger_store

    @property
    def reads(self) -> RegionReads | None:
        """The read policy with its counters; None before the client is open."""
        opened = self._stores.opened
        return opened[0].reads if opened else None

    @property
    def namespaces(self) -> Namespaces:
        """All namespaces of the cluster, in all of its metadata stores."""
        return Namespaces(
            self.runtime,
            self.region,
            lambda: self.global_store,
            self._wait_global,
            self._stores.regional,
        )

    async def _wait_global(self) -> StoreClient:
        self._check_open()
        return await self._stores.wait_global()

    @property
    def regional_regions(self) -> Sequence[Region]:
        """The regions whose metadata stores are in the settings."""
        return tuple(self._stores.regional)

    def late_global_store(self) -> MetadataStore:
        """Return the global metadata store as one that is unavailable until it can be opened."""

        async def find(_: str) -> StoreClient:
            return self.global_store

        async def has_moved(_name: str, _store: StoreClient, *, stale_ok: bool) -> bool:
            return False

        return BoundStore(NamespaceBinding("", self.uri, find, has_moved))

    async def own_regional_store(self) -> StoreClient | None:
        """Return the store of this process's region; None if the settings have none.

        Raises MetadataUnavailableError.
        """
        opening = None if self.region is None else self._stores.regional.get(self.region)
        return None if opening is None else await opening.get()

    def statistics(self) -> dict[str, Any]:
        """Return the counters and latencies of this client, by layer and name.

        They remain available after the client was closed. ``ledgers`` and ``reads`` are those of
        the global store, and ``regional`` holds the same by region if there are regional stores.
        """
        first, *others = self._stores.opened
        found = {
            "streams": self._shared.statistics(),
            "by_stream": self._shared.series.statistics(),
            **first.statistics(),
            "placement": self.placement.statistics(),
        }
        if self._cold is not None:
            found["cold"] = self._cold.statistics()
        if others:
            found[REGIONAL] = {str(other.store_region): other.statistics() for other in others}
        return found

    def namespace(self, name: str | None = None, *, archives: Archives | None = None) -> Namespace:
        """Return a namespace, by default the client's own; it need not exist yet.

        ``archives`` replaces the client's cold store as the source of archived segments.
        """
        name = name or self._namespace_name
        if not self._stores.regional:
            found = self.global_store
            return self._namespace_in(
                found.store, found.ledgers, name, archives, reads=found.metadata_reads
            )
        self._check_open()
        namespaces = self.namespaces
        binding = NamespaceBinding(name, self.uri, namespaces.find, namespaces.has_moved)
        return self._namespace_in(
            BoundStore(binding),
            BoundLedgers(binding),
            name,
            archives,
            reads=BoundReads(binding),
        )

    def namespace_of(self, store: StoreClient, name: str) -> Namespace:
        """Return the namespace of this name in one metadata store, e.g. for its retention."""
        return self._namespace_in(
            store.store, store.ledgers, name, None, reads=store.metadata_reads
        )

    def _namespace_in(
        self,
        store: MetadataStore,
        ledgers: LedgerProvider,
        name: str,
        archives: Archives | None,
        *,
        reads: MetadataReads,
    ) -> Namespace:
        return Namespace(
            self.runtime,
            store,
            ledgers,
            name,
            writer_config=self._writer_config,
            reader_config=self._reader_config,
            context=self._shared,
            archives=archives or self._archives(name),
            reads=reads,
        )

    def _archives(self, namespace: str) -> Archives | None:
        if self._cold is None:
            return None
        from ..coldstore.archive.cold_archives import ColdArchives

        return ColdArchives(self._cold, namespace)

    def topic_calls(self, namespace: str | None = None) -> DirectTopics:
        """Return the metadata of the topics of a namespace, for ``rhumbline.topics.Topics``."""
        return DirectTopics(self.namespace(namespace))

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
        """Raise ConfigurationError if the cluster does not have the client's region (PLC-31), or if
        the client has none and the cluster has several.

        A declared region without bookies is legal: applications and proxies may run where none are.
        While the store is unavailable, the region is not checked, so that readers can start.
        """
        if self.region is not None:
            try:
                reads = self._stores.global_store.metadata_reads
                declared = await read_declared_regions(reads, stale_ok=True)
            except MetadataUnavailableError as error:
                _LOG.warning("region not checked", region=self.region, error=error)
            else:
                check_declared(self.region, declared, "this process")
            return
        directory = self._stores.global_store.directory
        found = {info.region for info in await directory.everything() if info.region}
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
    region: str | None = None,
    discovery: DiscoveryConfig | None = None,
    credentials: TlsCredentials | None = None,
    token: TokenSource | None = None,
) -> "ProxyClient":
    """Return a thin client of the proxies at ``grpc://host:port,host:port``.

    Raises ConfigurationError. The addresses are those with which the client begins; it reads the
    list of all proxies from them. With ``credentials`` it uses TLS, and
    with ``token`` it identifies itself by that.
    """
    with needs_extra("a client of proxies", "grpc"):
        from ..proxies.client.discovery.dns_names import DnsNames
        from ..proxies.client.proxy_client import ProxyClient
        from ..proxies.rpc.grpc_calls import GrpcTransport
    if token is not None and credentials is None and not _is_local(uri):
        raise ConfigurationError(f"{uri}: the token is not sent without TLS: set ca of [tls]")
    runtime = system_runtime(tracer)
    discovery = discovery or DiscoveryConfig()
    return ProxyClient(
        uri,
        runtime,
        GrpcTransport(credentials, token),
        namespace=namespace,
        reader=reader,
        discovery=discovery,
        region=region or "",
        resolver=DnsNames(
            runtime.random, discovery.dns_server, finds_services=uri.startswith(SRV_SCHEME)
        ),
    )


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
    regional_metadata: Mapping[str, str] | None = None,
    discovery: DiscoveryConfig | None = None,
    tls: TlsSettings | None = None,
    token: str | None = None,
    ledger_secrets: str | None = None,
) -> LogClient:
    """Return a client of the cluster whose metadata is at ``uri``: ``async with connect(...)``.

    Code that is written for ``LogClient`` works with every kind of URI.

    With ``grpc://host:port,host:port`` or ``grpc+srv://name`` the client uses the proxies that it
    finds from there, as ``discovery`` says. They have their own settings, so apart from that only
    ``namespace``, ``region``, ``reader``, ``tracer``, ``tls`` and ``token`` may be given. Raises
    ConfigurationError.

    ``region`` is the region of this process; it may be omitted if the cluster has only one.
    ``cold`` is the URI of the cold store, from which segments that only the archive still contains
    are read. ``tracer`` creates spans for sampled record sets, e.g. an ``OtelTracer`` of
    ``rhumbline.telemetry``. ``regional_metadata`` has the URIs of regional metadata stores by
    region; the namespaces in them are found by their names.

    ``tls`` names the certificate of this process and the authorities that it trusts; without it
    connections are not encrypted. ``token`` identifies this process to proxies, instead of a
    certificate; it is sent with TLS only, or to this machine. ``ledger_secrets`` is the file of the
    setting ``security.ledger_secrets``; every process that writes a namespace needs it.
    """
    protection = Protection(credentials_of(tls))
    if is_proxy_uri(uri):
        own = (ledger, writer, cold, regional_metadata, ledger_secrets)
        if any(given is not None for given in own):
            raise ConfigurationError(
                f"{uri}: ledger, writer, cold, regional_metadata and ledger_secrets are settings "
                "of the proxies"
            )
        return connect_proxies(
            uri,
            namespace=namespace,
            reader=reader,
            tracer=tracer,
            region=region,
            discovery=discovery,
            credentials=protection.connecting,
            token=token_source(token),
        )
    if token is not None:
        raise ConfigurationError(f"{uri}: tokens are for proxies; bookies need a certificate")
    if discovery is not None:
        raise ConfigurationError(f"{uri}: discovery is a setting of clients of proxies")
    return Client(
        uri,
        namespace=namespace,
        region=region,
        ledger=ledger,
        writer=writer,
        reader=reader,
        cold=cold,
        runtime=system_runtime(tracer, protection.connecting),
        regional_metadata=regional_metadata,
        ledger_secrets=ledger_secrets or "",
    )


def _is_local(uri: str) -> bool:
    addresses = uri.removeprefix("grpc://").split(",")
    return all(is_loopback(address.rpartition(":")[0]) for address in addresses)


def _open_cold(uri: str) -> MeasuredColdStore:
    with needs_extra("an archive", "arrow"):
        from ..coldstore.archive import cold_archives  # noqa: F401 - fails early if pyarrow is missing
        from ..coldstore.stores.open_store import open_cold_store
    return MeasuredColdStore(open_cold_store(uri))

"""The settings of a process by section, as read from file, environment and options."""

from dataclasses import dataclass, field

from ..coldstore.config import ArchiveConfig
from ..core.bookie.config import BookieConfig
from ..core.ledger.config import LedgerConfig
from ..core.log.config import ReaderConfig, WriterConfig
from ..core.log.stream_series import BY_NAMESPACE, BY_NOTHING, BY_STREAM
from ..core.metadata.read_only_store import WAIT_MS
from ..core.protocol.bookie_id import check_region
from ..core.protocol.errors import InvalidArgumentError
from ..core.runtime.settings import check_settings, setting
from ..proxies.client.discovery.config import DiscoveryConfig
from ..proxies.config import ProxyConfig
from ..regions.region_reads import ReadSettings
from ..regions.repair.config import RepairConfig
from ..security.audit_settings import AuditSettings
from ..security.settings import SecuritySettings, TlsSettings


def _check_region(name: str) -> None:
    if name:
        check_region(name)


def _check_regional_stores(stores: tuple[tuple[str, str], ...]) -> None:
    for region, uri in stores:
        check_region(region)
        if ":" not in uri:
            raise InvalidArgumentError(f"{region}: {uri!r} is not the URI of a metadata store")


def _check_endpoint(uri: str) -> None:
    if uri and not uri.startswith(("http://", "https://")):
        raise InvalidArgumentError(f"{uri!r} is not an http:// address")


def _check_status_host(host: str) -> None:
    if host in ("0.0.0.0", "::", "[::]"):
        raise InvalidArgumentError(
            f"{host} stands for all addresses: the status server publishes its address, so it "
            "needs one that operators can reach"
        )


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The cluster that the process belongs to, and the region of the process."""

    metadata: str = setting(
        "",
        "URI of the metadata store, e.g. sqlite:///var/lib/rhumbline/metadata.db or "
        "zk://host:2181/.",
    )
    regional_metadata: tuple[tuple[str, str], ...] = setting(
        (),
        'URIs of regional metadata stores by region, e.g. eu = "etcd://host:2379/". A process of '
        "such a region finds its regional namespaces there when the region is cut off.",
        check=_check_regional_stores,
    )
    namespace: str = setting("default", "Default namespace of commands.")
    region: str = setting(
        "",
        "Region of this process. Required once the cluster has bookies in more than one region.",
        check=_check_region,
    )
    cold: str = setting(
        "",
        "URI of the cold store with the archives: file:///path, s3://bucket/prefix or "
        "webhdfs://host:port/root. Required to read segments that only the archive still "
        "contains.",
    )
    metadata_timeout_ms: int = setting(
        10_000, "Timeout of one request to the metadata store.", low=1
    )
    metadata_stale_after_ms: int = setting(
        WAIT_MS,
        "Time without a response of the metadata store after which readers are served from old "
        "metadata.",
        low=1,
    )

    def __post_init__(self) -> None:
        check_settings(self, "cluster")


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The address that a server of any kind listens on, and a bookie's data directory."""

    directory: str = setting("", "Directory with the bookie's data.")
    host: str = setting(
        "127.0.0.1",
        "Address to listen on; also the address for clients unless [bookie] or [proxy] sets "
        "another one.",
    )
    port: int | None = setting(
        None,
        "Port to listen on; 0 selects a free one. none: bookie 3281, write-proxy and read-proxy "
        "4281, console 8290.",
        low=0,
        high=65535,
    )
    status_host: str = setting(
        "",
        "Address of the status server, such as one of a network for operators. Empty: that of "
        "`host`; if `host` stands for all addresses, the advertised one is published, or else the "
        "name of the machine.",
        check=_check_status_host,
    )
    status_port: int | None = setting(
        None,
        "Port of the status server of a server of any kind; 0 selects a free one. none: bookie "
        "8281, write-proxy 8282, read-proxy 8283, repair 8284, archive 8285.",
        low=0,
        high=65535,
    )

    def __post_init__(self) -> None:
        check_settings(self, "serve")


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Metrics and traces. Their export through OpenTelemetry requires rhumbline[otel]."""

    otlp_endpoint: str = setting(
        "",
        "Collector with OTLP over HTTP, e.g. http://127.0.0.1:4318. Empty: nothing is exported.",
        check=_check_endpoint,
    )
    sample_ratio: float = setting(
        0.0,
        "Share of record sets that are traced, from 0 to 1; the process that creates a set "
        "decides.",
        low=0,
        high=1,
        needs="otlp_endpoint",
    )
    export_ms: int = setting(15_000, "Interval between exports of the metrics.", low=1)
    series_by: str = setting(
        BY_NOTHING,
        "Whether clients and proxies also count by namespace or by stream, and repair processes "
        "measure the lag of subscriptions so.",
        words=(BY_NOTHING, BY_NAMESPACE, BY_STREAM),
    )
    series_max: int = setting(
        1_000,
        "Maximum number of namespaces, streams or subscriptions that are counted by themselves; "
        "the others are counted together as `other`.",
        low=1,
    )

    def __post_init__(self) -> None:
        check_settings(self, "telemetry")


LOG_LEVELS = ("debug", "info", "warning", "error")


def _check_levels(levels: tuple[tuple[str, str], ...]) -> None:
    for name, level in levels:
        if level not in LOG_LEVELS:
            raise InvalidArgumentError(f"{name}: {level!r} is not one of {', '.join(LOG_LEVELS)}")


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log of a server process, which goes to stderr.

    A running server reads this section again on the signal SIGUSR1.
    """

    level: str = setting(
        "info", "Lowest level of the lines that a server writes.", words=LOG_LEVELS
    )
    format: str = setting(
        "text", "Format of a line: text, or a JSON object.", words=("text", "json")
    )
    levels: tuple[tuple[str, str], ...] = setting(
        (),
        'Levels of single loggers by name without "rhumbline.", e.g. "core.ledger" = "debug".',
        check=_check_levels,
    )

    def __post_init__(self) -> None:
        check_settings(self, "log")


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections of the settings."""

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    bookie: BookieConfig = field(default_factory=BookieConfig)
    ledger: LedgerConfig = field(default_factory=LedgerConfig)
    writer: WriterConfig = field(default_factory=WriterConfig)
    reader: ReaderConfig = field(default_factory=ReaderConfig)
    proxy: ProxyConfig = field(default_factory=ProxyConfig)
    discovery: DiscoveryConfig = field(default_factory=DiscoveryConfig)
    reads: ReadSettings = field(default_factory=ReadSettings)
    repair: RepairConfig = field(default_factory=RepairConfig)
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    log: LogSettings = field(default_factory=LogSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    audit: AuditSettings = field(default_factory=AuditSettings)

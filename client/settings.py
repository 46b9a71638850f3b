"""The settings of a process by section, as read from file, environment and options."""

from dataclasses import dataclass, field

from ..core.bookie.config import BookieConfig
from ..core.ledger.config import LedgerConfig
from ..core.log.config import ReaderConfig, WriterConfig
from ..core.protocol.bookie_id import check_region
from ..core.protocol.errors import ConfigurationError, InvalidArgumentError
from ..proxies.config import ProxyConfig
from ..regions.region_reads import ReadSettings
from ..regions.repair.config import RepairConfig


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The cluster that the process belongs to, and the region of the process."""

    metadata: str = ""
    """URI of the metadata store, e.g. sqlite:///var/lib/rhumbline/metadata.db or zk://host:2181/."""
    namespace: str = "default"
    """Default namespace of commands."""
    region: str = ""
    """Region of this process. Required once the cluster has bookies in more than one region."""
    cold: str = ""
    """URI of the cold store with the archives: file:///path, s3://bucket/prefix or
    webhdfs://host:port/root. Required to read segments that only the archive still contains."""
    metadata_timeout_ms: int = 10_000
    """Timeout of one request to the metadata store."""

    def __post_init__(self) -> None:
        if self.region:
            try:
                check_region(self.region)
            except InvalidArgumentError as error:
                raise ConfigurationError(f"region: {error}") from error
        if self.metadata_timeout_ms < 1:
            raise ConfigurationError(
                f"metadata_timeout_ms={self.metadata_timeout_ms} is below 1 ms"
            )


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """A bookie process: its data directory and the address that it listens on."""

    directory: str = ""
    """Directory with the bookie's data."""
    host: str = "127.0.0.1"
    """Address to listen on; also the advertised address unless [bookie] sets another one."""
    port: int = 3281
    """Port to listen on; 0 selects a free port."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"port={self.port} is not between 0 and 65535")


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Export of metrics and traces by OpenTelemetry. Requires rhumbline[otel]."""

    otlp_endpoint: str = ""
    """Collector with OTLP over HTTP, e.g. http://127.0.0.1:4318. Empty: nothing is exported."""
    sample_ratio: float = 0.0
    """Share of record sets that are traced, from 0 to 1; the process that creates a set decides."""
    export_ms: int = 15_000
    """Interval between exports of the metrics."""

    def __post_init__(self) -> None:
        if self.otlp_endpoint and not self.otlp_endpoint.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"otlp_endpoint={self.otlp_endpoint!r} is not an http:// address"
            )
        if not 0 <= self.sample_ratio <= 1:
            raise ConfigurationError(f"sample_ratio={self.sample_ratio} is not between 0 and 1")
        if self.sample_ratio and not self.otlp_endpoint:
            raise ConfigurationError("sample_ratio needs an otlp_endpoint")
        if self.export_ms < 1:
            raise ConfigurationError(f"export_ms={self.export_ms} is below 1 ms")


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
    reads: ReadSettings = field(default_factory=ReadSettings)
    repair: RepairConfig = field(default_factory=RepairConfig)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)

"""The settings of one process, by section; what files, environment and options fill in."""

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
    """Which cluster this process belongs to, and where in it."""

    metadata: str = ""
    """URI of the metadata store, e.g. sqlite:///var/lib/rhumbline/metadata.db or zk://host:2181/."""
    namespace: str = "default"
    """The namespace that commands work on when none is named."""
    region: str = ""
    """The region of this process. Needed as soon as the cluster has bookies in more than one."""
    cold: str = ""
    """URI of the cold store with the archives: file:///path, s3://bucket/prefix or
    webhdfs://host:port/root. Needed to read segments that only the archive still has."""
    metadata_timeout_ms: int = 10_000
    """Longest wait for one answer of the metadata store."""

    def __post_init__(self) -> None:
        if self.region:
            try:
                check_region(self.region)
            except InvalidArgumentError as error:
                raise ConfigurationError(f"region: {error}") from error
        if self.metadata_timeout_ms < 1:
            raise ConfigurationError(f"metadata_timeout_ms={self.metadata_timeout_ms} is below 1")


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """A bookie process: where it listens and what it says of itself."""

    directory: str = ""
    """Directory of the bookie's data."""
    host: str = "127.0.0.1"
    """Address to listen on; clients are told this one unless [bookie] says otherwise."""
    port: int = 3281
    """Port to listen on; 0 takes a free one."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"port={self.port} is outside of 0..65535")


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """OpenTelemetry: metrics and traces, sent to a collector. Needs rhumbline[otel]."""

    otlp_endpoint: str = ""
    """Where to: a collector that speaks OTLP over HTTP, e.g. http://127.0.0.1:4318. Empty: none."""
    sample_ratio: float = 0.0
    """Share of record sets that are traced, from 0 to 1; decided by the process that makes them."""
    export_ms: int = 15_000
    """How often metrics are sent."""

    def __post_init__(self) -> None:
        if self.otlp_endpoint and not self.otlp_endpoint.startswith(("http://", "https://")):
            raise ConfigurationError(f"otlp_endpoint={self.otlp_endpoint!r} is no http:// address")
        if not 0 <= self.sample_ratio <= 1:
            raise ConfigurationError(f"sample_ratio={self.sample_ratio} is outside of 0..1")
        if self.sample_ratio and not self.otlp_endpoint:
            raise ConfigurationError("sample_ratio needs an otlp_endpoint")
        if self.export_ms < 1:
            raise ConfigurationError(f"export_ms={self.export_ms} is below 1")


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections."""

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

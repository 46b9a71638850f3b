"""The settings of a process, by section. Files, the environment and options fill them in."""

from .client.settings import ClusterSettings, ServeSettings, Settings, TelemetrySettings
from .coldstore.config import ArchiveConfig
from .core.bookie.config import BookieConfig
from .core.ledger.config import LedgerConfig
from .core.log.config import ReaderConfig, WriterConfig
from .proxies.client.discovery.config import DiscoveryConfig
from .proxies.config import ProxyConfig
from .regions.region_reads import ReadSettings
from .regions.repair.config import RepairConfig
from .security.audit_settings import AuditSettings
from .security.settings import SecuritySettings, TlsSettings

__all__ = [
    "Settings",
    "ClusterSettings",
    "ServeSettings",
    "BookieConfig",
    "LedgerConfig",
    "WriterConfig",
    "ReaderConfig",
    "ProxyConfig",
    "DiscoveryConfig",
    "ReadSettings",
    "RepairConfig",
    "ArchiveConfig",
    "TelemetrySettings",
    "TlsSettings",
    "SecuritySettings",
    "AuditSettings",
]

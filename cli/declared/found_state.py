"""The state of a cluster as it is, as far as ``apply``, ``diff`` and ``export`` compare it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...core.log.policy import StreamPolicy
from ...core.protocol.bookie_id import Region
from ...core.protocol.quorum import Quorum
from ...security.grant_table import GrantTable
from ...security.quotas import NO_QUOTAS, QuotaTable


@dataclass(frozen=True, slots=True)
class FoundStream:
    """A stream that exists."""

    identity: str
    policy: StreamPolicy | None
    """None: it follows its namespace."""
    subscriptions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FoundNamespace:
    """A namespace that exists."""

    store: Region | None
    """The region in whose metadata store it is; None: the global one."""
    policy: StreamPolicy
    streams: Mapping[str, FoundStream] = field(default_factory=dict)
    """Those that were looked for."""
    topics: Mapping[str, int] = field(default_factory=dict)
    """Number of partitions of each topic."""


@dataclass(frozen=True, slots=True)
class FoundCluster:
    """The parts of a cluster that were looked at."""

    regions: tuple[Region, ...] | None = None
    """The declared regions; None: the cluster declares none."""
    namespaces: Mapping[str, FoundNamespace] = field(default_factory=dict)
    grants: GrantTable = field(default_factory=GrantTable)
    quotas: QuotaTable = field(default_factory=lambda: NO_QUOTAS)
    default_quorums: Mapping[str, Quorum] = field(default_factory=dict)
    """The quorum of each namespace that does not exist, if the files state none."""

"""The size of a modelled cluster, and the times and rates of its machines and links."""

from dataclasses import dataclass, field
from itertools import combinations

from ....core.ledger.config import LedgerConfig
from ....core.protocol.bookie_id import BookieId, Region
from ....core.protocol.placement import BookieInfo
from ....core.protocol.quorum import Quorum
from ....regions.ledger_scan import AT_ONCE
from ....regions.repair.config import RepairConfig

REGIONS = ("bonn", "oslo", "rome", "york", "kiev")
_ROUND_TRIPS_MS = (24, 28, 22, 26, 52, 30, 38, 34, 32, 48)


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """A cluster of equal bookies in regions with racks; each bookie has a host of its own."""

    bookies: int = 1_000
    racks: int = 10
    """Racks in each region."""
    streams: int = 1_000_000
    """Each has one ledger; the bytes of a ledger are what its stream keeps on bookies."""
    mean_ledger_bytes: int = 1_000_000_000
    disk_bytes: int = 10_000_000_000_000
    quorum: Quorum = Quorum(3, 3, 2, 2)
    repair_processes: int = 20
    """Divided evenly among the regions."""
    nic_bytes_per_second: int = 1_250_000_000
    local_round_trip_ms: float = 0.5
    metadata_read_ms: float = 2.0
    """The time of one read of ledger metadata by the auditor."""
    free_space_step: float = 0.1
    """A bookie registers its free space again after a change of this share of its disk (PLC-27)."""
    repair: RepairConfig = field(default_factory=RepairConfig)
    ledger: LedgerConfig = field(default_factory=LedgerConfig)

    def known_bookies(self, count: int, first: int = 0) -> list[BookieInfo]:
        """Return ``count`` bookies from a number on, evenly divided over regions and racks."""
        return [
            BookieInfo(
                BookieId(f"bookie-{number:05}@00000001"),
                Region(REGIONS[number % len(REGIONS)]),
                f"rack-{number // len(REGIONS) % self.racks}",
                self.disk_bytes,
                None,
                f"host-{number}",
            )
            for number in range(first, first + count)
        ]

    def audit_s(self) -> float:
        """Return the duration of an audit, which reads all ledgers, several at once, in seconds."""
        return self.streams / AT_ONCE * self.metadata_read_ms / 1000

    def round_trip_s(self, a: str, b: str) -> float:
        """Return the round trip between two regions, in seconds."""
        if a == b:
            return self.local_round_trip_ms / 1000
        pair = tuple(sorted((REGIONS.index(a), REGIONS.index(b))))
        pairs = list(combinations(range(len(REGIONS)), 2))
        return _ROUND_TRIPS_MS[pairs.index((pair[0], pair[1]))] / 1000

"""What an operator may set about the ledger client."""

from dataclasses import dataclass, fields
from typing import Literal

from ..protocol.ensemble_change import FRAGMENTS_MAX, METADATA_BYTES_MAX
from ..protocol.errors import ConfigurationError

_MIB = 1024 * 1024
_LIMITS = {
    "connect_timeout_ms": (1, 600_000),
    "request_timeout_ms": (1, 600_000),
    "backoff_ms_min": (1, 60_000),
    "backoff_ms_max": (1, 600_000),
    "in_flight_bytes_max": (_MIB, 4096 * _MIB),
    "in_flight_requests_max": (1, 1_000_000),
    "entry_bytes_max": (64, 5 * _MIB - 256),
    "pending_bytes_max": (1, 4096 * _MIB),
    "pending_entries_max": (1, 1_000_000),
    "replica_backlog_bytes_max": (1, 4096 * _MIB),
    "underreplicated_ms_max": (1, 86_400_000),
    "quorum_timeout_ms": (0, 86_400_000),
    "replacement_wait_ms_max": (0, 86_400_000),
    "fragments_max": (1, 10_000),
    "metadata_bytes_max": (1024, 90 * 1024),
    "failure_memory_ms": (0, 3_600_000),
    "metadata_timeout_ms": (1, 3_600_000),
    "read_batch_bytes_max": (1, 64 * _MIB),
    "read_batch_entries_max": (1, 100_000),
    "speculative_read_ms": (0, 600_000),
    "poll_speculative_ms": (1, 600_000),
    "recovery_timeout_ms": (1, 3_600_000),
    "recovery_window": (1, 1000),
    "recovery_window_bytes": (1, 1024 * _MIB),
}


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """Settings of a ``LedgerClient``. Raises ConfigurationError that names every fault at once."""

    connect_timeout_ms: int = 3_000
    """Longest wait for a connection and its handshake."""
    request_timeout_ms: int = 5_000
    """After this long without an answer an add or a read counts as failed at that bookie."""
    backoff_ms_min: int = 50
    """First pause after a failed connection or metadata call; doubles up to ``backoff_ms_max``."""
    backoff_ms_max: int = 2_000
    in_flight_bytes_max: int = 256 * _MIB
    """Unanswered request bytes by connection, over all ledgers; more are refused."""
    in_flight_requests_max: int = 200_000
    """Unanswered requests by connection; more are refused."""
    entry_bytes_max: int = 3_670_016
    """Largest entry as stored, header and digest included (3.5 MiB)."""
    pending_bytes_max: int = 32 * _MIB
    """Entries pushed but not yet confirmed, by ledger; a writer then has no room."""
    pending_entries_max: int = 16_384
    """As ``pending_bytes_max``, in entries."""
    replica_backlog_bytes_max: int = 16 * _MIB
    """Confirmed entries that one bookie has not taken yet; beyond that it counts as failed."""
    underreplicated_ms_max: int = 30_000
    """A bookie that has failed for this long is replaced even if acknowledging works without it."""
    quorum_timeout_ms: int = 0
    """An entry that waits longer for its quorum fails the ledger; 0: never."""
    change_mode: Literal["delayed", "eager"] = "delayed"
    """Change the ensemble when acknowledging needs it, or after any failure."""
    on_bookie_failure: Literal["replace", "close"] = "replace"
    """Change the ensemble, or fail the ledger at once so that the stream rolls to a new one."""
    replacement_wait_ms_max: int = 10_000
    """How long failed bookies are retried if no legal replacement exists; then the ledger fails."""
    fragments_max: int = FRAGMENTS_MAX
    """Ensemble changes after which the ledger fails, so that the stream rolls."""
    metadata_bytes_max: int = METADATA_BYTES_MAX
    """As ``fragments_max``, in bytes of metadata."""
    failure_memory_ms: int = 30_000
    """How long a bookie that failed is passed over when others will do."""
    metadata_timeout_ms: int = 30_000
    """How long create, close, open and recover retry an unavailable metadata store."""
    read_batch_bytes_max: int = 2 * _MIB
    """Largest answer that one batch read asks for."""
    read_batch_entries_max: int = 1_000
    """Most entries that one ``read`` returns."""
    speculative_read_ms: int = 500
    """After this long without an answer the next replica is asked too; 0: never."""
    poll_speculative_ms: int = 1_000
    """A long poll that stays silent this long is also sent to the next replica."""
    recovery_timeout_ms: int = 30_000
    """How long ``recover`` retries when too few bookies answer."""
    recovery_window: int = 128
    """Entries that a recovery reads ahead and re-adds side by side; 1: one after the other."""
    recovery_window_bytes: int = 16 * _MIB
    """As ``recovery_window``, in bytes, judged by the last entry read; at least one entry."""

    def __post_init__(self) -> None:
        faults = [
            f"{name}={getattr(self, name)} is outside of {low}..{high}"
            for name, (low, high) in _LIMITS.items()
            if not low <= getattr(self, name) <= high
        ]
        unknown = (
            {f.name for f in fields(self)} - set(_LIMITS) - {"change_mode", "on_bookie_failure"}
        )
        assert not unknown, "every number has limits"
        if self.change_mode not in ("delayed", "eager"):
            faults.append(f"change_mode={self.change_mode!r} is neither 'delayed' nor 'eager'")
        if self.on_bookie_failure not in ("replace", "close"):
            faults.append(
                f"on_bookie_failure={self.on_bookie_failure!r} is neither 'replace' nor 'close'"
            )
        if self.backoff_ms_min > self.backoff_ms_max:
            faults.append("backoff_ms_min is above backoff_ms_max")
        if faults:
            raise ConfigurationError("ledger client: " + "; ".join(faults))

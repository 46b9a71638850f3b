"""Settings of the ledger client."""

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
    """Settings of a ``LedgerClient``. Raises one ConfigurationError that names every fault."""

    connect_timeout_ms: int = 3_000
    """Longest wait for a connection and its handshake, in milliseconds."""
    request_timeout_ms: int = 5_000
    """Time-out of an add or a read at one bookie, in milliseconds."""
    backoff_ms_min: int = 50
    """First pause after a failed connection or metadata call, in milliseconds; it doubles."""
    backoff_ms_max: int = 2_000
    """Longest pause after a failed connection or metadata call, in milliseconds."""
    in_flight_bytes_max: int = 256 * _MIB
    """Maximum bytes of pending requests per connection; further requests are refused."""
    in_flight_requests_max: int = 200_000
    """Maximum number of pending requests per connection; further requests are refused."""
    entry_bytes_max: int = 3_670_016
    """Largest entry as stored, including header and digest, in bytes."""
    pending_bytes_max: int = 32 * _MIB
    """Maximum bytes of unconfirmed entries per ledger; further adds are refused."""
    pending_entries_max: int = 16_384
    """Maximum number of unconfirmed entries per ledger; further adds are refused."""
    replica_backlog_bytes_max: int = 16 * _MIB
    """Confirmed bytes not yet stored by a bookie, above which the bookie counts as failed."""
    underreplicated_ms_max: int = 30_000
    """Time until a failed bookie is replaced even if P holds without it, in milliseconds."""
    quorum_timeout_ms: int = 0
    """Longest wait of an entry for its quorum until the ledger fails; 0: unlimited."""
    change_mode: Literal["delayed", "eager"] = "delayed"
    """Change the ensemble only if P cannot hold otherwise, or eagerly after any failure."""
    on_bookie_failure: Literal["replace", "close"] = "replace"
    """Replace a failed bookie, or fail the ledger so that the stream rolls to a new one."""
    replacement_wait_ms_max: int = 10_000
    """Time until the ledger fails if a needed replacement cannot be found, in milliseconds."""
    fragments_max: int = FRAGMENTS_MAX
    """Maximum number of fragments; above it the ledger fails and the stream rolls."""
    metadata_bytes_max: int = METADATA_BYTES_MAX
    """Maximum bytes of a ledger's metadata; above it the ledger fails and the stream rolls."""
    failure_memory_ms: int = 30_000
    """Time for which a failed bookie is avoided if others are available, in milliseconds."""
    metadata_timeout_ms: int = 30_000
    """Time for which create, open and close retry if the metadata store is unavailable."""
    read_batch_bytes_max: int = 2 * _MIB
    """Maximum bytes of the response to one batch read."""
    read_batch_entries_max: int = 1_000
    """Maximum number of entries that one ``read`` returns."""
    speculative_read_ms: int = 500
    """Time until an unanswered read is also sent to the next replica; 0: never."""
    poll_speculative_ms: int = 1_000
    """Time until an unanswered long poll is also sent to the next replica."""
    recovery_timeout_ms: int = 30_000
    """Time for which ``recover`` retries if too few bookies respond, in milliseconds."""
    recovery_window: int = 128
    """Maximum number of entries that a recovery reads ahead and re-adds concurrently."""
    recovery_window_bytes: int = 16 * _MIB
    """Maximum bytes of such entries, estimated from the last entry read; at least one entry."""

    def __post_init__(self) -> None:
        faults = [
            f"{name}={getattr(self, name)} is not between {low} and {high}"
            for name, (low, high) in _LIMITS.items()
            if not low <= getattr(self, name) <= high
        ]
        unknown = (
            {f.name for f in fields(self)} - set(_LIMITS) - {"change_mode", "on_bookie_failure"}
        )
        assert not unknown, "every numeric setting has limits"
        if self.change_mode not in ("delayed", "eager"):
            faults.append(f"change_mode={self.change_mode!r} is not 'delayed' or 'eager'")
        if self.on_bookie_failure not in ("replace", "close"):
            faults.append(
                f"on_bookie_failure={self.on_bookie_failure!r} is not 'replace' or 'close'"
            )
        if self.backoff_ms_min > self.backoff_ms_max:
            faults.append(
                f"backoff_ms_min={self.backoff_ms_min} is above "
                f"backoff_ms_max={self.backoff_ms_max}"
            )
        if faults:
            raise ConfigurationError("ledger client: " + "; ".join(faults))

"""Settings of the ledger client."""

from dataclasses import dataclass
from typing import Literal

from ..protocol.ensemble_change import FRAGMENTS_MAX, METADATA_BYTES_MAX
from ..runtime.settings import check_settings, setting

_MIB = 1024 * 1024
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """Settings of a ``LedgerClient``. Raises one ConfigurationError that names every fault."""

    connect_timeout_ms: int = setting(
        3_000,
        "Longest wait for a connection and its handshake.",
        low=1,
        high=10 * _MINUTE_MS,
        draws=(500, 3000),
    )
    request_timeout_ms: int = setting(
        5_000,
        "Timeout of an add or a read at one bookie.",
        low=1,
        high=10 * _MINUTE_MS,
        draws=(300, 1000, 5000),
    )
    backoff_ms_min: int = setting(
        50,
        "First pause after a failed connection or metadata call; each further one doubles.",
        low=1,
        high=_MINUTE_MS,
        not_above="backoff_ms_max",
    )
    backoff_ms_max: int = setting(
        2_000,
        "Longest pause after a failed connection or metadata call.",
        low=1,
        high=10 * _MINUTE_MS,
    )
    in_flight_bytes_max: int = setting(
        256 * _MIB,
        "Maximum bytes of pending requests per connection; further requests are refused.",
        low=_MIB,
        high=4096 * _MIB,
    )
    in_flight_requests_max: int = setting(
        200_000,
        "Maximum number of pending requests per connection; further requests are refused.",
        low=1,
        high=1_000_000,
    )
    replica_backlog_bytes_max: int = setting(
        16 * _MIB,
        "Confirmed bytes not yet stored by a bookie, above which the bookie counts as failed.",
        low=1,
        high=4096 * _MIB,
    )
    underreplicated_ms_max: int = setting(
        30_000,
        "Time until a failed bookie is replaced even if P holds without it.",
        low=1,
        high=_DAY_MS,
        draws=(500, 3000, 30_000),
    )
    quorum_timeout_ms: int = setting(
        0,
        "Longest wait of an entry for its quorum until the ledger fails; 0: unlimited.",
        low=0,
        high=_DAY_MS,
        draws=(0, 0, 3000),
    )
    change_mode: Literal["delayed", "eager"] = setting(
        "delayed",
        "Change the ensemble only if P cannot hold otherwise, or eagerly after any failure.",
        draws=("delayed", "delayed", "eager"),
    )
    on_bookie_failure: Literal["replace", "close"] = setting(
        "replace",
        "Replace a failed bookie, or fail the ledger so that the stream rolls to a new one.",
        draws=("replace", "replace", "close"),
    )
    replacement_wait_ms_max: int = setting(
        10_000,
        "Time until the ledger fails if a needed replacement cannot be found.",
        low=0,
        high=_DAY_MS,
        draws=(500, 10_000),
    )
    fragments_max: int = setting(
        FRAGMENTS_MAX,
        "Maximum number of fragments; above it the ledger fails and the stream rolls.",
        low=1,
        high=10_000,
        draws=(2, 8, 64),
    )
    metadata_bytes_max: int = setting(
        METADATA_BYTES_MAX,
        "Maximum bytes of a ledger's metadata; above it the ledger fails and the stream rolls.",
        low=1024,
        high=90 * 1024,
    )
    failure_memory_ms: int = setting(
        30_000,
        "Time for which a failed bookie is avoided if others are available; 0: not at all.",
        low=0,
        high=_HOUR_MS,
    )
    probe_timeout_ms: int = setting(
        1_000,
        "Time that a new segment waits for responses of bookies that may be unreachable, before it "
        "is placed; 0: they are not asked. Nobody is asked while no bookie has failed.",
        low=0,
        high=_MINUTE_MS,
        draws=(0, 200, 1_000),
    )
    slow_after_ms: int = setting(
        10_000,
        "Time for which a bookie must be slower than its peers until a writer leaves it; 0: never.",
        low=0,
        high=_HOUR_MS,
    )
    slow_factor: int = setting(
        4,
        "How many times longer than the median of its ensemble a slow bookie takes to store an "
        "entry, not counting the round trip to its region.",
        low=2,
        high=1000,
    )
    slow_excess_ms_min: int = setting(
        10,
        "Minimum time by which a slow bookie exceeds the median of its ensemble.",
        low=1,
        high=_MINUTE_MS,
    )
    slow_hold_ms: int = setting(
        60_000,
        "Shortest time after a ledger writer left a slow bookie until it leaves another one; it "
        "doubles each time.",
        low=1,
        high=_HOUR_MS,
    )
    slow_memory_ms: int = setting(
        600_000,
        "Time for which a bookie that was left because it was slow is avoided.",
        low=0,
        high=_DAY_MS,
    )
    metadata_timeout_ms: int = setting(
        30_000,
        "Time for which create, open and close retry if the metadata store is unavailable.",
        low=1,
        high=_HOUR_MS,
    )
    recovery_window: int = setting(
        128,
        "Maximum number of entries that a recovery reads ahead and re-adds concurrently.",
        low=1,
        high=1000,
        draws=(1, 3, 8),
    )
    recovery_window_bytes: int = setting(
        16 * _MIB,
        "Maximum bytes of the entries that a recovery reads ahead, estimated from the last entry "
        "read. At least one entry is read ahead.",
        low=1,
        high=1024 * _MIB,
    )
    recovery_timeout_ms: int = setting(
        30_000,
        "Time for which ``recover`` retries if too few bookies respond.",
        low=1,
        high=_HOUR_MS,
        draws=(5_000, 30_000),
    )
    entry_bytes_max: int = setting(
        3_670_016,
        "Largest entry as stored, including header and digest.",
        low=64,
        high=5 * _MIB - 256,
    )
    pending_bytes_max: int = setting(
        32 * _MIB,
        "Maximum bytes of unconfirmed entries per ledger; further adds are refused.",
        low=1,
        high=4096 * _MIB,
    )
    pending_entries_max: int = setting(
        16_384,
        "Maximum number of unconfirmed entries per ledger; further adds are refused.",
        low=1,
        high=1_000_000,
        draws=(4, 64, 16_384),
    )
    read_batch_bytes_max: int = setting(
        2 * _MIB, "Maximum bytes of the response to one batch read.", low=1, high=64 * _MIB
    )
    read_batch_entries_max: int = setting(
        1_000, "Maximum number of entries that one ``read`` returns.", low=1, high=100_000
    )
    speculative_read_ms: int = setting(
        500,
        "Time until an unanswered read is also sent to the next replica; 0: never.",
        low=0,
        high=10 * _MINUTE_MS,
        draws=(0, 50, 500),
    )
    poll_speculative_ms: int = setting(
        1_000,
        "Time until an unanswered long poll is also sent to the next replica.",
        low=1,
        high=10 * _MINUTE_MS,
    )

    def __post_init__(self) -> None:
        check_settings(self, "ledger client")

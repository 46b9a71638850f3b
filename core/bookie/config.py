"""Settings of one bookie: sizes, limits and intervals, which may differ between bookies."""

from dataclasses import dataclass, fields

from ..protocol.errors import ConfigurationError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class BookieConfig:
    """Settings of a bookie. Sizes are in bytes, times in milliseconds."""

    boot_id: str = ""
    """Identifier of the current boot of the operating system. If empty, a crash of the operating
    system cannot be distinguished from a crash of the process, and an unreadable end of the log is
    assumed to be an unacknowledged write."""

    advertised_host: str | None = None
    """Host name or address that is registered for clients. Default: the listening address."""

    advertised_addresses: tuple[tuple[str, str], ...] = ()
    """Pairs (region, host:port): the address under which clients of that region connect."""

    log_file_bytes: int = 256 * MIB
    """Size at which a log file is sealed and a new one is started, in bytes."""

    group_bytes_max: int = 4 * MIB
    """Maximum size of a commit group, which one sync makes durable, in bytes. One more entry may
    be added to it."""

    group_count_max: int = 16_384
    """Maximum number of records in a commit group."""

    pending_bytes_max: int = 64 * MIB
    """Bytes of adds on all connections that may wait for the disk. Above this limit, the bookie
    stops reading from connections that have adds in flight."""

    connection_inflight_bytes_max: int = 8 * MIB
    """Bytes of adds in flight on one connection above which the bookie stops reading from it."""

    connection_write_bytes_max: int = 8 * MIB
    """Bytes of unsent responses on one connection above which the bookie stops reading from it."""

    partial_frame_bytes_max: int = 256 * MIB
    """Bytes of partial frames that are buffered over all connections. A connection that would
    exceed it is closed."""

    partial_frame_ms_max: int = 30_000
    """Time in which a frame must arrive completely, in milliseconds. A connection that exceeds it
    is closed."""

    connection_count_max: int = 10_000
    """Maximum number of client connections. Further ones are closed immediately."""

    connection_reads_max: int = 1_024
    """Number of queued file reads of one connection above which the bookie stops reading requests
    from it."""

    connection_polls_max: int = 20_000
    """Maximum number of waiting long polls of one connection. Further ones are refused with "too
    many requests"."""

    tail_cache_bytes: int = 64 * MIB
    """Bytes of the newest part of the log that are kept in memory for tail reads."""

    read_cache_bytes: int = 32 * MIB
    """Bytes of file chunks that are cached for catch-up reads."""

    index_cache_bytes: int = 32 * MIB
    """Bytes of index blocks that are cached for reads of older entries."""

    learning_count_max: int = 10_000
    """Maximum number of requests that wait for a read of their ledger's metadata. Further ones are
    refused with "too many requests"."""

    ledger_count_max: int = 2_000_000
    """Maximum number of ledgers on this bookie. Adds to further ledgers are refused."""

    long_poll_ms_max: int = 60_000
    """Maximum wait of a long poll, in milliseconds. Longer timeouts are shortened to it."""

    session_ttl_ms: int = 10_000
    """Time after which the registration expires if the metadata store does not hear from the
    bookie, in milliseconds."""

    registration_retry_ms: int = 1_000
    """Delay between attempts to restore a lost registration, in milliseconds."""

    space_check_ms: int = 5_000
    """Interval between checks of the free disk space, in milliseconds."""

    read_only_below_bytes: int = 1 * GIB
    """Free disk space below which plain adds are refused, in bytes."""

    reserve_below_bytes: int = 256 * MIB
    """Free disk space below which recovery adds are refused too, in bytes."""

    index_rows_max: int = 250_000
    """Number of entries at which a log file is sealed even if it is smaller than
    `log_file_bytes`, so that their index rows move from memory to an index file. A file is at least
    16 times as long as the state of all ledgers at its beginning."""

    maintenance_ms: int = 10_000
    """Interval between maintenance checks (compaction, garbage collection, limbo recovery), in
    milliseconds."""

    sealed_logs_kept: int = 4
    """Number of newest sealed logs that are not compacted yet, so that short-lived ledgers are
    deleted before they are copied."""

    compaction_backlog_logs: int = 16
    """Number of logs waiting for compaction at which it runs without pauses. With fewer, and while
    clients add entries, it gets a proportional share of the time."""

    compact_below_percent: int = 50
    """Percentage of live bytes below which a sorted file is rewritten."""

    collect_ms: int = 600_000
    """Interval between garbage collections, which compare the bookie's ledgers with the metadata,
    in milliseconds."""

    tombstone_ms: int = 7 * 24 * 3_600_000
    """Time for which the tombstone of a deleted ledger is kept, in milliseconds."""

    scrub_ms: int = 24 * 3_600_000
    """Pause between two scrubs of all files, in milliseconds."""

    scrub_bytes_per_s: int = 16 * MIB
    """Read rate of a scrub, in bytes per second."""

    def __post_init__(self) -> None:
        faults = []
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int) and value < 0:
                faults.append(f"{item.name} {value} is negative")
        if self.log_file_bytes < 4 * KIB or self.log_file_bytes > 32 * GIB:
            faults.append(f"log_file_bytes {self.log_file_bytes} is not between 4 KiB and 32 GiB")
        if self.group_bytes_max > 64 * MIB or self.group_bytes_max < 1:
            faults.append(f"group_bytes_max {self.group_bytes_max} is not between 1 B and 64 MiB")
        if self.scrub_bytes_per_s < 1:
            faults.append(f"scrub_bytes_per_s {self.scrub_bytes_per_s} is below 1")
        if self.group_count_max < 1:
            faults.append(f"group_count_max {self.group_count_max} is below 1")
        if self.reserve_below_bytes > self.read_only_below_bytes:
            faults.append(
                f"reserve_below_bytes {self.reserve_below_bytes} is above "
                f"read_only_below_bytes {self.read_only_below_bytes}"
            )
        if faults:
            raise ConfigurationError("bookie: " + "; ".join(faults))

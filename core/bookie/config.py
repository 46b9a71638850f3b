"""How one bookie runs: sizes and limits, none of which have to agree between bookies."""

from dataclasses import dataclass, fields

from ..protocol.errors import ConfigurationError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class BookieConfig:
    """Limits of a bookie. Sizes in bytes, times in milliseconds."""

    boot_id: str = ""
    """Names this run of the operating system; "": unknown, then its crashes cannot be told from
    those of the process, and a torn end of the log is taken for what it is on an honest disk."""

    advertised_host: str | None = None
    """Host that clients are told; None: the one that it listens on."""

    advertised_addresses: tuple[tuple[str, str], ...] = ()
    """(viewer's region, host:port) where clients of that region reach it by another address."""

    log_file_bytes: int = 256 * MIB
    """A log file is sealed when it has grown to this."""

    group_bytes_max: int = 4 * MIB
    """Bytes that one sync makes durable, at most (plus one entry)."""

    group_count_max: int = 16_384
    """Records in one group, at most."""

    pending_bytes_max: int = 64 * MIB
    """Adds that wait for the disk, over all connections; above it sockets are not read."""

    connection_inflight_bytes_max: int = 8 * MIB
    """Unanswered adds of one connection; above it its socket is not read."""

    connection_write_bytes_max: int = 8 * MIB
    """Unsent answers of one connection; above it its socket is not read."""

    half_frame_bytes_max: int = 256 * MIB
    """Beginnings of frames, over all connections; who would go above it is hung up on."""

    half_frame_ms_max: int = 30_000
    """A frame that has begun is complete within this time, or its connection is closed."""

    connection_count_max: int = 10_000
    """Further connections are closed at once."""

    connection_reads_max: int = 1_024
    """Reads of one connection that wait for files; above it its socket is not read."""

    connection_polls_max: int = 20_000
    """Parked long polls of one connection; further ones are refused as too many requests."""

    tail_cache_bytes: int = 64 * MIB
    """The newest part of the log that is kept in memory."""

    read_cache_bytes: int = 32 * MIB
    """Chunks of files that catch-up reads keep in memory."""

    learning_count_max: int = 10_000
    """Requests that wait for a look at a ledger's metadata."""

    ledger_count_max: int = 2_000_000
    """Ledgers that this bookie holds state of; adds to further ones are refused."""

    long_poll_ms_max: int = 60_000
    """Longest wait that a long poll may ask for; longer ones are cut to it."""

    session_ttl_ms: int = 10_000
    """How long the registration outlives silence."""

    registration_retry_ms: int = 1_000
    """Pause before a lost registration is made again."""

    space_check_ms: int = 5_000
    """How often free space is looked at."""

    read_only_below_bytes: int = 1 * GIB
    """Less free space than this: no more plain adds."""

    reserve_below_bytes: int = 256 * MIB
    """Less free space than this: no recovery adds either."""

    index_rows_max: int = 250_000
    """Entries that the index keeps in memory before it is checkpointed."""

    maintenance_ms: int = 10_000
    """How often it is looked whether there is something to sort, compact or let out of limbo."""

    sealed_logs_kept: int = 4
    """Sealed logs that are not sorted yet: what is deleted soon is never copied."""

    sort_backlog_logs: int = 16
    """With so many logs waiting to be sorted, sorting takes all the time that it needs; with
    fewer, and while clients add, a part of it in proportion."""

    compact_below_percent: int = 50
    """A sorted file is rewritten when less than this share of it is live."""

    collect_ms: int = 600_000
    """How often ledgers are compared with the metadata."""

    tombstone_ms: int = 7 * 24 * 3_600_000
    """How long a deleted ledger is remembered."""

    scrub_ms: int = 24 * 3_600_000
    """Pause between two walks over all files."""

    scrub_bytes_per_s: int = 16 * MIB
    """How fast a walk reads."""

    def __post_init__(self) -> None:
        faults = []
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int) and value < 0:
                faults.append(f"{item.name} is negative: {value}")
        if self.log_file_bytes < 4 * KIB or self.log_file_bytes > 32 * GIB:
            faults.append("log_file_bytes is outside of 4 KiB to 32 GiB")
        if self.group_bytes_max > 64 * MIB or self.group_bytes_max < 1:
            faults.append("group_bytes_max is outside of 1 to 64 MiB")
        if self.scrub_bytes_per_s < 1:
            faults.append("scrub_bytes_per_s is below 1")
        if self.group_count_max < 1:
            faults.append("group_count_max is below 1")
        if self.reserve_below_bytes > self.read_only_below_bytes:
            faults.append("reserve_below_bytes is above read_only_below_bytes")
        if faults:
            raise ConfigurationError("bookie: " + "; ".join(faults))

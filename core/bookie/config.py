"""Settings of one bookie: sizes, limits and intervals, which may differ between bookies."""

from dataclasses import dataclass

from ..protocol.bookie_id import check_region
from ..runtime.settings import check_settings, setting

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class BookieConfig:
    """Settings of a bookie. Raises ConfigurationError that names every fault."""

    boot_id: str = setting(
        "",
        "Identifier of the current boot of the operating system. If empty, a crash of the "
        "operating system cannot be distinguished from a crash of the process, and an unreadable "
        "end of the log is assumed to be an unacknowledged write.",
    )

    advertised_host: str | None = setting(
        None,
        "Host name or address that is registered for clients. Default: the listening address.",
        low=0,
    )

    advertised_addresses: tuple[tuple[str, str], ...] = setting(
        (), "Pairs (region, host:port): the address under which clients of that region connect."
    )

    zone: str | None = setting(
        None,
        "Zone of the bookie in its region, such as a data centre: copies of an entry are placed in "
        "different zones if possible.",
        check=check_region,
    )

    rack: str | None = setting(
        None,
        "Rack of the bookie. Default: the rack that was given when it was formatted.",
        check=check_region,
    )

    host: str | None = setting(
        None,
        "Name of the machine; bookies with the same name fail together. Default: the registered "
        "host name or address.",
    )

    data_dirs: tuple[str, ...] = setting(
        (),
        "Absolute paths of directories on other disks for sorted files. The write log and the "
        "index stay in the bookie's own directory. A new one must be empty.",
    )

    lost_data_dirs: tuple[str, ...] = setting(
        (),
        "Former data directories whose disks are lost for good: the bookie starts without them, "
        "and fetches their entries from replicas.",
    )

    data_dir_check_ms: int = setting(
        5_000, "Interval between checks that each data directory is there and writable.", low=100
    )

    log_file_bytes: int = setting(
        256 * MIB,
        "Size at which a new log file is prepared. The old one may grow by an eighth until then.",
        low=4 * KIB,
        high=32 * GIB,
        draws=(64 * KIB, 256 * KIB, 4096 * KIB),
    )

    group_bytes_max: int = setting(
        4 * MIB,
        "Maximum size of a commit group, which one sync makes durable. One more entry "
        "may be added to it.",
        low=1,
        high=64 * MIB,
    )

    group_count_max: int = setting(16_384, "Maximum number of records in a commit group.", low=1)

    pending_bytes_max: int = setting(
        64 * MIB,
        "Bytes of adds on all connections that may wait for the disk. Above this limit, the "
        "bookie stops reading from connections that have adds in flight.",
        low=0,
    )

    connection_inflight_bytes_max: int = setting(
        8 * MIB,
        "Bytes of adds in flight on one connection above which the bookie stops reading from it.",
        low=0,
    )

    connection_write_bytes_max: int = setting(
        8 * MIB,
        "Bytes of unsent responses on one connection above which the bookie stops reading from it.",
        low=0,
    )

    unsent_bytes_max: int = setting(
        512 * MIB,
        "Bytes of unsent responses over all connections. Above half of it, each connection gets an "
        "equal share of that half. Above the limit, connections of the address with the most "
        "unsent bytes are closed, those first whose peers have read nothing for the longest time.",
        low=0,
    )

    partial_frame_bytes_max: int = setting(
        256 * MIB,
        "Bytes of partial frames that are buffered over all connections. A connection that would "
        "exceed it is closed.",
        low=0,
    )

    partial_frame_ms_max: int = setting(
        30_000,
        "Time in which a frame must arrive completely. A connection that exceeds it is closed.",
        low=0,
    )

    connection_count_max: int = setting(
        10_000,
        "Maximum number of client connections. At this number, a new one takes the place of an "
        "idle one of the address with the most connections, or else is closed immediately.",
        low=0,
    )

    connection_idle_ms: int = setting(
        600_000,
        "Time without a request after which a client connection is closed; clients connect again "
        "when they need it. 0: never. A waiting long poll is a request.",
        low=0,
    )

    connection_reads_max: int = setting(
        1_024,
        "Number of queued file reads of one connection above which the bookie stops reading "
        "requests from it.",
        low=0,
    )

    file_reads_max: int = setting(
        4,
        "Number of file reads that run at the same time in the bookie's directory, and in each "
        "data directory, over all connections. Each holds at most one response, of up to 5 MiB. "
        "Further reads wait.",
        low=1,
    )

    connection_polls_max: int = setting(
        20_000,
        "Maximum number of waiting long polls of one connection. Further ones are refused with "
        '"too many requests".',
        low=0,
    )

    tail_cache_bytes: int = setting(
        64 * MIB,
        "Bytes of the newest part of the log that are kept in memory for tail reads.",
        low=0,
    )

    read_cache_bytes: int = setting(
        32 * MIB, "Bytes of file chunks that are cached for catch-up reads.", low=0
    )

    index_cache_bytes: int = setting(
        32 * MIB, "Bytes of index blocks that are cached for reads of older entries.", low=0
    )

    metadata_waits_max: int = setting(
        10_000,
        "Maximum number of requests that wait for a read of their ledger's metadata, of which one "
        "application that connects directly takes at most half. Further ones are refused with "
        '"too many requests".',
        low=0,
    )

    ledger_count_max: int = setting(
        2_000_000,
        "Maximum number of ledgers on this bookie. Adds to further ledgers are refused.",
        low=0,
    )

    long_poll_ms_max: int = setting(
        60_000, "Maximum wait of a long poll. Longer timeouts are shortened to it.", low=0
    )

    session_ttl_ms: int = setting(
        10_000,
        "Time after which the registration expires if the metadata store does not hear from the "
        "bookie.",
        low=0,
    )

    registration_retry_ms: int = setting(
        1_000, "Delay between attempts to restore a lost registration.", low=0
    )

    space_check_ms: int = setting(5_000, "Interval between checks of the free disk space.", low=0)

    read_only_below_bytes: int = setting(
        1 * GIB, "Free disk space below which plain adds are refused.", low=0
    )

    reserve_below_bytes: int = setting(
        256 * MIB,
        "Free disk space below which recovery adds are refused too.",
        low=0,
        not_above="read_only_below_bytes",
    )

    maintenance_reserve_bytes: int | None = setting(
        None,
        "Disk space that only maintenance (index files, compaction) may use, so that a full bookie "
        "can free space. It is reserved on the disk while nothing needs it. Default: five quarters "
        "of `log_file_bytes`, which is enough to rewrite any log file.",
        low=0,
        draws=(None, 0, 16 * KIB, 1024 * KIB),
    )

    index_rows_max: int = setting(
        250_000,
        "Number of entries at which a log file is sealed even if it is smaller than "
        "`log_file_bytes`, so that their index rows move from memory to an index file. A file is "
        "at least 16 times as long as the state of all ledgers at its beginning.",
        low=0,
    )

    maintenance_ms: int = setting(
        10_000,
        "Interval between maintenance checks (compaction, garbage collection, limbo recovery), in "
        "milliseconds.",
        low=0,
    )

    sealed_logs_kept: int = setting(
        4,
        "Number of newest sealed logs that are not compacted yet, so that short-lived ledgers are "
        "deleted before they are copied.",
        low=0,
    )

    compaction_backlog_logs: int = setting(
        16,
        "Number of logs waiting for compaction at which it runs without pauses. With fewer, and "
        "while clients add entries, it gets a proportional share of the time. While it makes "
        "commits late, it gets less, until four times as many logs wait.",
        low=0,
    )

    compact_below_percent: int = setting(
        50, "Percentage of live bytes below which a sorted file is rewritten.", low=0
    )

    metadata_copies_ms: int = setting(
        60_000,
        "Interval at which the copies of ledger metadata are refreshed, from which a lost metadata "
        "store is rebuilt.",
        low=0,
    )

    collect_ms: int = setting(
        600_000,
        "Interval between garbage collections, which compare the bookie's ledgers with the "
        "metadata.",
        low=0,
    )

    collect_percent_max: int = setting(
        10,
        "Percentage of the bookie's ledgers that one garbage collection may delete; it may always "
        "delete one. The limit protects against metadata that was lost or restored from an old "
        "backup. Raise it for a bookie that must free its space sooner.",
        low=0,
        high=100,
    )

    surplus_ms: int = setting(
        3_600_000,
        "Time for which the metadata of a closed ledger must not have named this bookie until its "
        "copies are deleted here: repair or rebalancing has moved them to other bookies.",
        low=0,
    )

    surplus_checks_max: int = setting(
        1_000,
        "Maximum number of ledgers whose metadata is read in one garbage collection to find "
        "surplus copies.",
        low=1,
    )

    tombstone_ms: int = setting(
        7 * 24 * 3_600_000, "Time for which the tombstone of a deleted ledger is kept.", low=0
    )

    scrub_ms: int = setting(24 * 3_600_000, "Pause between two scrubs of all files.", low=0)

    scrub_bytes_per_s: int = setting(16 * MIB, "Read rate of a scrub per second.", low=1)

    def __post_init__(self) -> None:
        check_settings(self, "bookie")

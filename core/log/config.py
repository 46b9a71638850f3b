"""The settings of a process for its stream writers and readers, in ``[writer]`` and ``[reader]``.

Settings that belong to a stream itself are in its policy (``policy``).
"""

from dataclasses import dataclass

from ..runtime.settings import check_settings, setting


@dataclass(frozen=True, slots=True)
class WriterConfig:
    """Settings for all stream writers of a process (``[writer]``). Raises ConfigurationError."""

    outstanding_bytes_max: int = setting(
        32 << 20,
        "Maximum bytes of appended but unacknowledged records, per stream. Further appends raise "
        "TooManyRequestsError; await ``room()`` first.",
        low=1,
    )
    entries_in_flight_max: int = setting(
        256,
        "Maximum number of entries in flight, per stream. At the limit, records wait in the "
        "buffer.",
        low=1,
        draws=(2, 16, 256),
    )
    producers_snapshot_bytes: int = setting(
        8 << 20,
        "Entry bytes between two snapshots of the deduplication table, in streams with numbered "
        "producers. The next owner of the stream reads at most this much to rebuild the table.",
        low=1,
    )
    failover_ms_max: int = setting(
        60_000,
        "Time after a ledger failure within which the writer must continue in a new segment. "
        "After it the writer fails.",
        low=1,
        draws=(5_000, 60_000),
    )
    close_ms_max: int = setting(
        120_000,
        "Longest time that ``close`` waits for acknowledgements. Appends that are still "
        "unacknowledged then fail with an unknown outcome.",
        low=1,
    )
    backoff_ms_min: int = setting(
        50,
        "First pause before a failed step of a segment roll is retried. Each further pause "
        "doubles.",
        low=1,
    )
    backoff_ms_max: int = setting(
        2_000, "Longest pause between two retries of a segment roll.", low=1
    )

    def __post_init__(self) -> None:
        check_settings(self, "writer")


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """Settings for all stream readers of a process (``[reader]``). Raises ConfigurationError.

    They control how a reader follows a stream: how much it fetches ahead, how it waits at the tail
    and how long it retries. The separate ``ReadSettings`` (``[reads]``) work one level below, on
    single reads of entries from bookies: they decide when a second replica is tried.
    """

    read_ahead_bytes_max: int = setting(
        16 << 20,
        "Maximum bytes of entries that a reader fetches ahead of its application, per reader. Near "
        "the end of a segment, the reader also holds the first entries of the next segments: about "
        "as many bytes again at most.",
        low=1,
    )
    poll_ms: int = setting(
        10_000,
        "Longest single wait at the tail. After it the reader reads metadata again, which bounds "
        "the delay of a lost watch event.",
        low=1,
        draws=(500, 3000, 10_000),
    )
    retry_ms: int = setting(200, "Pause before a read is retried after a transient error.", low=1)
    unavailable_ms_max: int = setting(
        60_000,
        "Time during which a reader retries after transient errors before it raises the last one. "
        "The application may then iterate again from the same position.",
        low=1,
    )
    idle_ms_max: int | None = setting(
        None,
        "Longest time without any entry, keepalives included, before a reader raises "
        "StreamIdleError (a quorum of bookies has no further entry) or ReaderStalledError (there "
        "are further entries, or it is unknown). None: no limit. The application may then iterate "
        "again from the same position.",
        low=1,
    )

    def __post_init__(self) -> None:
        check_settings(self, "reader")

"""The settings of a process for its stream writers and readers, in ``[writer]`` and ``[reader]``.

Settings that belong to a stream itself are in its policy (``policy``).
"""

from dataclasses import dataclass

from ..protocol.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class WriterConfig:
    """Settings for all stream writers of a process (``[writer]``). Raises ConfigurationError."""

    outstanding_bytes_max: int = 32 << 20
    """Maximum bytes of appended but unacknowledged records, per stream. Further appends raise
    TooManyRequestsError; await ``room()`` first."""
    entries_in_flight_max: int = 256
    """Maximum number of entries in flight, per stream. At the limit, records wait in the buffer."""
    producers_snapshot_bytes: int = 8 << 20
    """Entry bytes between two snapshots of the deduplication table, in streams with numbered
    producers. The next owner of the stream reads at most this much to rebuild the table."""
    failover_ms_max: int = 60_000
    """Time after a ledger failure within which the writer must continue in a new segment. After it
    the writer fails."""
    close_ms_max: int = 120_000
    """Longest time that ``close`` waits for acknowledgements. Appends that are still unacknowledged
    then fail with an unknown outcome."""
    backoff_ms_min: int = 50
    """First pause before a failed step of a segment roll is retried. Each further pause doubles."""
    backoff_ms_max: int = 2_000
    """Longest pause between two retries of a segment roll."""

    def __post_init__(self) -> None:
        _check_positive(self)


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """Settings for all stream readers of a process (``[reader]``). Raises ConfigurationError.

    They control how a reader follows a stream: how much it fetches ahead, how it waits at the tail
    and how long it retries. The separate ``ReadSettings`` (``[reads]``) work one level below, on
    single reads of entries from bookies: they decide when a second replica is tried.
    """

    read_ahead_bytes_max: int = 8 << 20
    """Maximum bytes of entries that a reader fetches ahead of its application, per reader."""
    poll_ms: int = 10_000
    """Longest single wait at the tail. After it the reader reads metadata again, which bounds the
    delay of a lost watch event."""
    retry_ms: int = 200
    """Pause before a read is retried after a transient error."""
    unavailable_ms_max: int = 60_000
    """Time during which a reader retries after transient errors before it raises the last one. The
    application may then iterate again from the same position."""
    idle_ms_max: int | None = None
    """Longest time without any entry, keepalives included, before a reader raises StreamIdleError
    (a quorum of bookies has no further entry) or ReaderStalledError (there are further entries, or
    it is unknown). None: no limit. The application may then iterate again from the same
    position."""

    def __post_init__(self) -> None:
        _check_positive(self)


_MAY_BE_NONE = ("idle_ms_max",)


def _check_positive(config: WriterConfig | ReaderConfig) -> None:
    faults = [
        f"{name}={getattr(config, name)!r}"
        for name in config.__slots__
        if (value := getattr(config, name)) is not None or name not in _MAY_BE_NONE
        if type(value) is not int or value < 1
    ]
    if faults:
        raise ConfigurationError(f"must be integers above 0: {', '.join(faults)}")

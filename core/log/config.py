"""What a process may set about its writers and readers (a stream's own settings are its policy)."""

from dataclasses import dataclass

from ..protocol.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class WriterConfig:
    """Settings of the writers of one process. Raises ConfigurationError."""

    outstanding_bytes_max: int = 32 << 20
    """Records appended and not yet acknowledged, by stream; more are refused (await ``room``)."""
    entries_in_flight_max: int = 256
    """Entries sent and not yet acknowledged, by stream; meanwhile the buffer grows."""
    producers_snapshot_bytes: int = 8 << 20
    """With numbered producers: a snapshot of them follows after this many bytes; the next owner
    reads no more than that to know them."""
    failover_ms_max: int = 60_000
    """After a ledger failed: how long the next segment is tried before the writer gives up."""
    close_ms_max: int = 120_000
    """How long ``close`` waits for acknowledgements before it leaves them as unknown."""
    backoff_ms_min: int = 50
    """First pause after a failed step towards the next segment; doubles up to the maximum."""
    backoff_ms_max: int = 2_000

    def __post_init__(self) -> None:
        _check_positive(self)


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """Settings of the readers of one process. Raises ConfigurationError."""

    read_ahead_bytes_max: int = 8 << 20
    """Entries fetched before they are asked for, by reader."""
    poll_ms: int = 10_000
    """Longest single wait at the tail; then metadata is read again, whatever watches said."""
    retry_ms: int = 200
    """Pause after an error that may pass."""
    unavailable_ms_max: int = 60_000
    """How long such errors are tried again before they are raised; a repeat then goes on."""
    idle_ms_max: int | None = None
    """How long a reader waits without hearing anything, keepalives included, before it raises
    StreamIdleError or ReaderStalledError; None: for ever. A repeat goes on waiting."""

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
        raise ConfigurationError(f"must be whole numbers above 0: {', '.join(faults)}")

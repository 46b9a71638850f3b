"""Settings of a proxy process."""

from dataclasses import dataclass

from ..core.protocol.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """Settings of the write and the read proxy of one process. Raises ConfigurationError."""

    session_ttl_ms: int = 1_000
    """After so long without contact the proxy's streams may be taken by others."""
    acquire_ms_max: int = 5_000
    """How long a client's sets wait for a stream to be taken over before they are refused."""
    acquires_max: int = 16
    """Streams that are taken over at the same time; others wait, so that each is quick."""
    balance_ms: int = 5_000
    """How often streams are looked at that another proxy should serve; 0: they stay."""
    handover_ms_max: int = 10_000
    """At a graceful stop: how long closing all streams may take."""
    streams_max: int = 10_000
    """Streams that this proxy owns at most; more are refused, other proxies take them."""
    waiting_bytes_max: int = 8 << 20
    """Sets that wait while their stream is being taken over, by stream."""
    session_bytes_max: int = 32 << 20
    """Sets of one append call that are not yet answered; then nothing more is read from it."""
    stream_records_per_s: int = 0
    """Limit of each stream; 0: none."""
    stream_bytes_per_s: int = 0
    """Limit of each stream; 0: none."""
    records_per_s: int = 0
    """Limit of the whole proxy; 0: none."""
    bytes_per_s: int = 0
    """Limit of the whole proxy; 0: none."""
    cache_bytes_max: int = 256 << 20
    """Entries that the read proxy keeps, of all streams."""
    readers_max: int = 10_000
    """Read calls at the same time."""

    def __post_init__(self) -> None:
        faults = []
        for name in self.__slots__:
            value = getattr(self, name)
            least = 0 if name.endswith("_per_s") or name == "balance_ms" else 1
            if type(value) is not int or value < least:
                faults.append(f"{name}={value!r}")
        if faults:
            raise ConfigurationError(f"must be whole numbers, not negative: {', '.join(faults)}")

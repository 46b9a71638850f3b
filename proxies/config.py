"""Settings of a proxy process (rule PRX-16)."""

from dataclasses import dataclass

from ..core.protocol.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """Settings of the write proxy and the read proxy of one process.

    Raises ConfigurationError.
    """

    session_ttl_ms: int = 1_000
    """TTL of the proxy's session in the metadata store. When the proxy has been out of contact for
    this long, other proxies may take over its streams."""
    acquire_ms_max: int = 5_000
    """Maximum time to take over a stream. Record sets that arrive meanwhile wait; when it expires,
    they are refused with a retryable error."""
    acquires_max: int = 16
    """Maximum number of streams taken over concurrently; further takeovers are queued."""
    balance_ms: int = 5_000
    """Interval between checks for streams that another proxy should serve. A stream that fails two
    checks in a row is handed over. 0 disables rebalancing."""
    handover_ms_max: int = 10_000
    """Maximum time to close a stream when it is released or the proxy stops gracefully. After it,
    the next owner finds the end of the stream by recovery."""
    streams_max: int = 10_000
    """Maximum number of streams that the proxy owns; takeovers beyond it are refused."""
    waiting_bytes_max: int = 8 << 20
    """Maximum size of the record sets that wait for the takeover of one stream; more are refused.
    """
    session_bytes_max: int = 32 << 20
    """Maximum size of the record sets of one append call that have no result yet. When it is
    exceeded, the proxy stops reading the call."""
    stream_records_per_s: int = 0
    """Append rate limit of each stream in records per second; 0 means no limit."""
    stream_bytes_per_s: int = 0
    """Append rate limit of each stream in bytes per second; 0 means no limit."""
    records_per_s: int = 0
    """Append rate limit of the whole proxy in records per second; 0 means no limit."""
    bytes_per_s: int = 0
    """Append rate limit of the whole proxy in bytes per second; 0 means no limit."""
    cache_bytes_max: int = 256 << 20
    """Maximum size of the read proxy's cache of recent entries, over all streams."""
    readers_max: int = 10_000
    """Maximum number of concurrent read calls; more are refused."""

    def __post_init__(self) -> None:
        faults = []
        for name in self.__slots__:
            value = getattr(self, name)
            least = 0 if name.endswith("_per_s") or name == "balance_ms" else 1
            if type(value) is not int or value < least:
                faults.append(f"{name}={value!r} is not a whole number of at least {least}")
        if faults:
            raise ConfigurationError("; ".join(faults))

"""Append rate limits of streams and proxies (rule PRX-16). Pure: the caller passes the time."""

from ...core.runtime.primitives.rate_limiter import RateLimiter


class RecordLimits:
    """The limits of a stream or a proxy in records and bytes per second; 0 means no limit.

    Both have a burst of one second of the rate.
    """

    __slots__ = ("_bytes", "_records", "is_on")

    def __init__(self, records_per_s: int, bytes_per_s: int) -> None:
        self.is_on = bool(records_per_s or bytes_per_s)
        """True if there is any limit; otherwise callers may skip ``wait_ms``."""
        self._records = RateLimiter(records_per_s or None, burst=records_per_s)
        self._bytes = RateLimiter(bytes_per_s or None, burst=bytes_per_s)

    def wait_ms(self, record_count: int, size_bytes: int, now: float) -> int:
        """Return the time in ms until the records may pass; if it is 0, count them as passed."""
        wait_s = max(self._records.wait_s(record_count, now), self._bytes.wait_s(size_bytes, now))
        if wait_s > 0:
            return max(1, round(wait_s * 1000))
        self._records.take(record_count, now)
        self._bytes.take(size_bytes, now)
        return 0

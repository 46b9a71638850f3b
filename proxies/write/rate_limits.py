"""Append rate limits of streams and proxies (rule PRX-16). Pure: the caller passes the time."""


class RateLimit:
    """A token bucket with a capacity of one second.

    ``per_second`` 0 means no limit. An amount that is larger than the bucket passes when the bucket
    is full, so nothing is refused for ever.
    """

    __slots__ = ("_full_at", "per_second")

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self._full_at = 0.0  # time in seconds at which the bucket is full again

    def wait_ms(self, amount: int, now: float) -> int:
        """Return the time in ms until ``amount`` may pass; 0 if it may pass now."""
        missing = self._full_at - now  # of the bucket, in seconds of the rate
        if not self.per_second or missing <= 0:
            return 0
        lacking = min(missing, missing + amount / self.per_second - 1)
        return 0 if lacking <= 0 else max(1, round(lacking * 1000))

    def take(self, amount: int, now: float) -> None:
        """Count ``amount`` as passed."""
        if self.per_second:
            self._full_at = max(self._full_at, now) + amount / self.per_second


class RecordLimits:
    """The limits of a stream or a proxy in records and bytes per second."""

    __slots__ = ("_bytes", "_records", "is_on")

    def __init__(self, records_per_s: int, bytes_per_s: int) -> None:
        self.is_on = bool(records_per_s or bytes_per_s)
        """True if there is any limit; otherwise callers may skip ``wait_ms``."""
        self._records = RateLimit(records_per_s)
        self._bytes = RateLimit(bytes_per_s)

    def wait_ms(self, record_count: int, size_bytes: int, now: float) -> int:
        """Return the time in ms until the records may pass; if it is 0, count them as passed."""
        wait_ms = max(
            self._records.wait_ms(record_count, now), self._bytes.wait_ms(size_bytes, now)
        )
        if wait_ms == 0:
            self._records.take(record_count, now)
            self._bytes.take(size_bytes, now)
        return wait_ms

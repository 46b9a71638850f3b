"""Rates: how much of something may pass in a second. Pure; time is given."""


class RateLimit:
    """At most ``per_second`` in the long run, and a second's worth at once after a quiet time.

    0 is no limit. What is larger than a second's worth passes when the bucket is full, so nothing
    is refused for ever.
    """

    __slots__ = ("_full_at", "per_second")

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self._full_at = 0.0  # when the bucket is full again, in seconds

    def wait_ms(self, amount: int, now: float) -> int:
        """How long until ``amount`` may pass; 0: now."""
        missing = self._full_at - now  # seconds' worth that is not in the bucket
        if not self.per_second or missing <= 0:
            return 0
        lacking = min(missing, missing + amount / self.per_second - 1)
        return 0 if lacking <= 0 else max(1, round(lacking * 1000))

    def take(self, amount: int, now: float) -> None:
        """``amount`` passes."""
        if self.per_second:
            self._full_at = max(self._full_at, now) + amount / self.per_second


class RecordLimits:
    """Limits of records and of bytes, of a stream or of a proxy."""

    __slots__ = ("_bytes", "_records", "is_on")

    def __init__(self, records_per_s: int, bytes_per_s: int) -> None:
        self.is_on = bool(records_per_s or bytes_per_s)
        """Whether there is any limit; otherwise ``wait_ms`` need not be asked."""
        self._records = RateLimit(records_per_s)
        self._bytes = RateLimit(bytes_per_s)

    def wait_ms(self, record_count: int, size_bytes: int, now: float) -> int:
        """How long until so much may pass; 0: now, and it counts as passed."""
        wait_ms = max(
            self._records.wait_ms(record_count, now), self._bytes.wait_ms(size_bytes, now)
        )
        if wait_ms == 0:
            self._records.take(record_count, now)
            self._bytes.take(size_bytes, now)
        return wait_ms

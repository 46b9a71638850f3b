"""Quantiles of latencies in constant space, weighted towards recent values (rule PLC-21)."""

from math import floor, log2

_PER_OCTAVE = 4  # buckets are a factor of 2^(1/4) wide: results are at most 19 % too large
_OFFSET = 10 * _PER_OCTAVE  # the first bucket ends at 2^-10 ms, about a microsecond
_BUCKETS = _OFFSET + 17 * _PER_OCTAVE  # the last one is above two minutes
_HALVED_AT = 1024


class LatencyQuantiles:
    """A histogram with logarithmic buckets; at ``_HALVED_AT`` values all counts are halved.

    A change of latency shows within some hundred values, and no clock is needed.
    """

    __slots__ = ("_counts", "count")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.count = 0

    def record(self, value_ms: float) -> None:
        """Count one value in ms."""
        index = 0
        if value_ms > 0:
            index = min(max(floor(log2(value_ms) * _PER_OCTAVE) + _OFFSET, 0), _BUCKETS - 1)
        self._counts[index] += 1
        self.count += 1
        if self.count >= _HALVED_AT:
            self._counts = [count >> 1 for count in self._counts]
            self.count = sum(self._counts)

    def quantile(self, share: float) -> float | None:
        """Return the upper bound in ms of the bucket with the quantile; None without values."""
        assert 0 < share <= 1
        if not self.count:
            return None
        left = share * self.count
        for index, count in enumerate(self._counts):
            left -= count
            if left <= 0:
                return float(2 ** ((index + 1 - _OFFSET) / _PER_OCTAVE))
        raise AssertionError("the counts do not add up to count")

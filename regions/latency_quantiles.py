"""Quantiles of a stream of latencies in constant space, of which the recent ones count most."""

from math import floor, log2

_PER_OCTAVE = 4  # buckets a factor of 2^(1/4) wide: an answer is at most 19 % too large
_OFFSET = 10 * _PER_OCTAVE  # the first bucket ends at 2^-10 ms, about a microsecond
_BUCKETS = _OFFSET + 17 * _PER_OCTAVE  # the last one is above two minutes
_HALVED_AT = 1024


class Quantiles:
    """A histogram with logarithmic buckets; at ``_HALVED_AT`` values all counts are halved.

    So a change shows within some hundred answers, and no clock is needed to forget.
    """

    __slots__ = ("_counts", "count")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.count = 0

    def record(self, value_ms: float) -> None:
        """Counts one value."""
        place = 0
        if value_ms > 0:
            place = min(max(floor(log2(value_ms) * _PER_OCTAVE) + _OFFSET, 0), _BUCKETS - 1)
        self._counts[place] += 1
        self.count += 1
        if self.count >= _HALVED_AT:
            self._counts = [count >> 1 for count in self._counts]
            self.count = sum(self._counts)

    def quantile(self, share: float) -> float | None:
        """The upper end of the bucket that the quantile lies in; None without values."""
        assert 0 < share <= 1
        if not self.count:
            return None
        left = share * self.count
        for place, count in enumerate(self._counts):
            left -= count
            if left <= 0:
                return float(2 ** ((place + 1 - _OFFSET) / _PER_OCTAVE))
        raise AssertionError("the counts add up")

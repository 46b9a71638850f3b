"""A latency histogram of fixed size: logarithmic buckets, quantiles within 3 %."""

import math
from collections.abc import Iterable

_STEPS = 32  # buckets per factor of two: 2 ** (1/32) is 2.2 %
_FLOOR_SECONDS = 1e-6
_COUNT = _STEPS * 28  # 1 microsecond to 268 seconds
_SCALE = _STEPS / math.log(2)
_WHOLE_MS = 1024
_INDEX_OF_MS = [
    0 if ms == 0 else int(math.log(ms / 1000 / _FLOOR_SECONDS) * _SCALE) for ms in range(_WHOLE_MS)
]


class Histogram:
    """Counts of durations, by bucket."""

    __slots__ = ("_buckets", "_log", "count", "max_seconds")

    def __init__(self) -> None:
        self._log = math.log
        self.clear()

    def clear(self) -> None:
        """Remove all durations."""
        self._buckets = [0] * (_COUNT + 1)
        self.count = 0
        self.max_seconds = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """Record ``count`` equal durations."""
        self.count += count
        if seconds > self.max_seconds:
            self.max_seconds = seconds
        if seconds <= _FLOOR_SECONDS:
            self._buckets[0] += count
            return
        index = int(self._log(seconds / _FLOOR_SECONDS) * _SCALE)
        self._buckets[index if index < _COUNT else _COUNT] += count

    def add_ms(self, duration_ms: int, count: int = 1) -> None:
        """Record ``count`` durations in whole milliseconds; cheaper than ``add``."""
        if 0 <= duration_ms < _WHOLE_MS:
            self.count += count
            self._buckets[_INDEX_OF_MS[duration_ms]] += count
            if duration_ms > self.max_seconds * 1000:
                self.max_seconds = duration_ms / 1000
        else:
            self.add(max(0, duration_ms) / 1000, count)

    def counts(self) -> list[tuple[int, int]]:
        """Return (bucket, count) of every bucket in use, for ``merge`` in another process."""
        return [(index, count) for index, count in enumerate(self._buckets) if count]

    def merge(self, counts: Iterable[tuple[int, int]], max_seconds: float) -> None:
        """Add the counts of another histogram."""
        for index, count in counts:
            self._buckets[index] += count
            self.count += count
        self.max_seconds = max(self.max_seconds, max_seconds)

    def quantile_ms(self, share: float) -> float:
        """Return the quantile ``share`` of the durations, in milliseconds; 0 if there are none."""
        rank = share * self.count
        seen = 0
        for index, count in enumerate(self._buckets):
            seen += count
            if count and seen >= rank:
                return min(_middle_s(index), self.max_seconds) * 1000
        return 0.0

    def _mean_ms(self) -> float:
        total = sum(count * _middle_s(index) for index, count in self.counts())
        return min(total / max(1, self.count), self.max_seconds) * 1000

    def summary(self) -> dict[str, float]:
        """Return count, mean (within 2 %), quantiles and maximum, rounded for display."""
        p50, p99, p999 = self.quantiles_ms((0.5, 0.99, 0.999))
        return {
            "count": self.count,
            "mean_ms": round(self._mean_ms(), 3),
            "p50_ms": round(p50, 3),
            "p99_ms": round(p99, 3),
            "p999_ms": round(p999, 3),
            "max_ms": round(self.max_seconds * 1000, 3),
        }

    def quantiles_ms(self, shares: Iterable[float]) -> list[float]:
        """Return several quantiles, in milliseconds."""
        return [self.quantile_ms(share) for share in shares]


def _middle_s(index: int) -> float:
    return _FLOOR_SECONDS * math.exp((index + 0.5) / _SCALE)

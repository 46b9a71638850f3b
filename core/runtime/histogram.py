"""A latency histogram of fixed size, with logarithmic buckets."""

import math
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

_STEPS = 32
_FLOOR_SECONDS = 1e-6
_OCTAVES = 28  # 1 microsecond to 268 seconds
_WHOLE_MS = 1024
_NEVER = 1 << 62

_FIRST_OCTAVE, _LAST_OCTAVE = 7, 26
BOUNDS_S = tuple(_FLOOR_SECONDS * 2**octave for octave in range(_FIRST_OCTAVE, _LAST_OCTAVE + 1))
"""The upper bounds of the buckets that are exported, in seconds: 128 microseconds, doubled up to 67
seconds. Each is a border between two buckets of every histogram, so the exported counts are
exact."""


def _indices_of_ms(scale: float) -> list[int]:
    """Return the buckets of 0 to ``_WHOLE_MS`` - 1 milliseconds."""
    logs = [math.log(ms / 1000 / _FLOOR_SECONDS) for ms in range(1, _WHOLE_MS)]
    return [0] + [int(log * scale) for log in logs]


_INDICES_OF_MS: dict[int, list[int]] = {}  # by the number of steps


class Histogram:
    """Counts of durations, by bucket.

    ``steps``: buckets per factor of two. The default gives quantiles within 3 %; fewer buckets are
    read faster. ``decay``: all counts are halved whenever there are this many, so that recent
    durations weigh more; no clock is needed. None: every duration counts for ever. ``counters`` and
    the count and mean of ``summary`` cover all durations even then.
    """

    __slots__ = (
        "_bucket_count",
        "_buckets",
        "_faded",
        "_halved_at",
        "_indices",
        "_log",
        "_scale",
        "_steps",
        "count",
        "max_seconds",
    )

    def __init__(self, *, steps: int = _STEPS, decay: int | None = None) -> None:
        self._log = math.log
        self._steps = steps
        self._scale = steps / math.log(2)
        self._bucket_count = steps * _OCTAVES
        self._halved_at = _NEVER if decay is None else decay
        if steps not in _INDICES_OF_MS:
            _INDICES_OF_MS[steps] = _indices_of_ms(self._scale)
        self._indices = _INDICES_OF_MS[steps]
        self.clear()

    def clear(self) -> None:
        """Remove all durations."""
        self._buckets = [0] * (self._bucket_count + 1)
        self._faded: list[int] = []  # by bucket, what was halved away
        self.count = 0
        self.max_seconds = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """Record ``count`` equal durations."""
        self.count += count
        if seconds > self.max_seconds:
            self.max_seconds = seconds
        index = 0
        if seconds > _FLOOR_SECONDS:
            index = int(self._log(seconds / _FLOOR_SECONDS) * self._scale)
        self._buckets[index if index < self._bucket_count else self._bucket_count] += count
        if self.count >= self._halved_at:
            self._halve()

    def add_ms(self, duration_ms: int, count: int = 1) -> None:
        """Record ``count`` durations in whole milliseconds; cheaper than ``add``."""
        if 0 <= duration_ms < _WHOLE_MS:
            self.count += count
            self._buckets[self._indices[duration_ms]] += count
            if duration_ms > self.max_seconds * 1000:
                self.max_seconds = duration_ms / 1000
            if self.count >= self._halved_at:
                self._halve()
        else:
            self.add(max(0, duration_ms) / 1000, count)

    def _halve(self) -> None:
        faded = self._faded or [0] * len(self._buckets)
        kept = [count >> 1 for count in self._buckets]
        self._faded = [
            old + count - rest for old, count, rest in zip(faded, self._buckets, kept, strict=True)
        ]
        self._buckets = kept
        self.count = sum(kept)

    def _all_counts(self) -> list[int]:
        if not self._faded:
            return self._buckets
        return [now + faded for now, faded in zip(self._buckets, self._faded, strict=True)]

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
        index = self._index_of(share)
        return 0.0 if index < 0 else min(self._bound_s(index + 0.5), self.max_seconds) * 1000

    def upper_quantile_ms(self, share: float) -> float:
        """Return the end of the bucket that contains the quantile; 0 if there are no durations.

        Unlike ``quantile_ms`` it is never below the exact quantile.
        """
        index = self._index_of(share)
        return 0.0 if index < 0 else self._bound_s(index + 1) * 1000

    def _index_of(self, share: float) -> int:
        rank = share * self.count
        seen = 0
        for index, count in enumerate(self._buckets):
            seen += count
            if count and seen >= rank:
                return index
        return -1

    def _bound_s(self, index: float) -> float:
        return _FLOOR_SECONDS * math.exp(index / self._scale)

    def counters(self) -> tuple[list[int], int, float]:
        """Return the number of durations up to each of ``BOUNDS_S``, of all durations, and their
        sum in seconds (within 2 %).

        None of them ever decreases, unless ``clear`` is called.
        """
        counts = self._all_counts()
        cumulative = list(accumulate(counts))
        total_s = sum(n * self._bound_s(index + 0.5) for index, n in enumerate(counts) if n)
        below = [
            cumulative[octave * self._steps - 1]
            for octave in range(_FIRST_OCTAVE, _LAST_OCTAVE + 1)
        ]
        return below, cumulative[-1], total_s

    def summary(self) -> dict[str, Any]:
        """Return count, sum and mean (within 2 %), quantiles, maximum and ``buckets``.

        ``buckets`` has the number of durations up to each of ``BOUNDS_S``.
        """
        p50, p99, p999 = self.quantiles_ms((0.5, 0.99, 0.999))
        buckets, count, total_s = self.counters()
        return {
            "count": count,
            "sum_s": total_s,
            "mean_ms": round(min(total_s / max(1, count), self.max_seconds) * 1000, 3),
            "p50_ms": round(p50, 3),
            "p99_ms": round(p99, 3),
            "p999_ms": round(p999, 3),
            "max_ms": round(self.max_seconds * 1000, 3),
            "buckets": buckets,
        }

    def quantiles_ms(self, shares: Iterable[float]) -> list[float]:
        """Return several quantiles, in milliseconds."""
        return [self.quantile_ms(share) for share in shares]

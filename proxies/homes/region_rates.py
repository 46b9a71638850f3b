"""Counts the records of a stream by the region of the client, over a window (rule PRX-53). Pure."""

REGIONS_MAX = 16
"""Regions that are counted by themselves; records of further ones count as of unknown origin."""
UNKNOWN = ""
"""The name under which clients are counted that did not name their region."""

_BUCKETS = 10


class RegionRates:
    """The rates of one stream. Times are in seconds of the caller's clock."""

    __slots__ = ("_begun_at", "_bucket_s", "_buckets", "_newest", "_newest_counts")

    def __init__(self, window_ms: int, now: float) -> None:
        self._begun_at = now
        self._bucket_s = window_ms / 1000 / _BUCKETS
        self._newest = int(now / self._bucket_s)
        self._newest_counts: dict[str, int] = {}
        self._buckets: dict[int, dict[str, int]] = {self._newest: self._newest_counts}

    def add(self, region: str, record_count: int, now: float) -> None:
        """Count records of a client."""
        if now >= (self._newest + 1) * self._bucket_s:
            self._open_bucket(now)
        counts = self._newest_counts
        if region not in counts and len(counts) >= REGIONS_MAX:
            region = UNKNOWN
        counts[region] = counts.get(region, 0) + record_count

    def observed_ms(self, now: float) -> int:
        """Return the time for which records were counted, at most the window."""
        return int(1000 * min(now - self._begun_at, _BUCKETS * self._bucket_s))

    def per_second(self, now: float) -> dict[str, float]:
        """Return the records per second within the window, by region, the highest first."""
        self._drop_old(now)
        seconds = max(self.observed_ms(now) / 1000, 1.0)
        sums: dict[str, int] = {}
        for counts in self._buckets.values():
            for region, count in counts.items():
                sums[region] = sums.get(region, 0) + count
        ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
        return {region: count / seconds for region, count in ordered}

    def _open_bucket(self, now: float) -> None:
        self._newest = int(now / self._bucket_s)
        self._newest_counts = self._buckets[self._newest] = {}
        self._drop_old(now)

    def _drop_old(self, now: float) -> None:
        oldest = int(now / self._bucket_s) - _BUCKETS + 1
        for number in [number for number in self._buckets if number < oldest]:
            if number != self._newest:
                del self._buckets[number]
            else:
                self._newest_counts.clear()

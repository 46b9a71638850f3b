"""Counters for each stream or namespace, up to a maximum number of them.

Every value of a label is a time series in the store of metrics, so they are off by default, and
bounded: what exceeds the maximum is counted together.
"""

from typing import Any

from .read.reader_lag import ReaderLags

BY_NOTHING, BY_NAMESPACE, BY_STREAM = "none", "namespace", "stream"
OTHER = "other"
"""The namespace and stream under which everything above the maximum is counted."""


class StreamCounts:
    """Counts of what one stream or namespace acknowledged, and the lags of its readers."""

    __slots__ = ("bytes", "entries", "lags", "records")

    def __init__(self, lags: ReaderLags) -> None:
        self.entries = 0
        self.records = 0
        self.bytes = 0
        self.lags = ReaderLags(lags)

    def statistics(self) -> dict[str, Any]:
        """Return the counters by name."""
        return {
            "entries": self.entries,
            "records": self.records,
            "bytes": self.bytes,
            "readers": self.lags.statistics(),
        }


class StreamSeries:
    """The counters of one process. They are never removed, because counters must not decrease."""

    def __init__(
        self, lags: ReaderLags, *, by: str = BY_NOTHING, series_max: int | None = None
    ) -> None:
        self._lags = lags
        self._by = by
        self._series_max = series_max
        self._counts: dict[tuple[str, str], StreamCounts] = {}

    def of(self, namespace: str, stream: str) -> StreamCounts | None:
        """Return the counters that a stream shares, or None if none are kept."""
        if self._by == BY_NOTHING:
            return None
        key = (namespace, stream if self._by == BY_STREAM else "")
        found = self._counts.get(key)
        if found is None:
            if self._series_max is not None and len(self._counts) >= self._series_max:
                key = (OTHER, OTHER if self._by == BY_STREAM else "")
                found = self._counts.get(key)
            if found is None:
                found = self._counts[key] = StreamCounts(self._lags)
        return found

    def statistics(self) -> dict[str, Any]:
        """Return the counters by namespace and stream; the stream is "" if they are not by it."""
        found: dict[str, Any] = {}
        for (namespace, stream), counts in sorted(self._counts.items()):
            found.setdefault(namespace, {})[stream] = counts.statistics()
        return found

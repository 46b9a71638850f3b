"""The state that all streams of a process share: the timer of idle writers, and counters."""

from functools import cached_property
from typing import Any

from ..protocol.errors import RhumblineError
from ..runtime.histogram import Histogram
from .read.delivered_counts import DeliveredCounts
from .read.reader_lag import ReaderLags
from .shared_timer import SharedTimer
from .stream_series import BY_NOTHING, StreamSeries
from .write.batch import Batch


class LogContext:
    """The shared timer and the append counters of a process.

    Only acknowledged records count, unless a counter says something else.
    """

    def __init__(self, *, series_by: str = BY_NOTHING, series_max: int | None = None) -> None:
        """``series_by`` and ``series_max``: see ``StreamSeries``."""
        self.entries = 0
        self.records = 0
        self.bytes = 0
        """Payload bytes plus the per-record overhead."""
        self.control_entries = 0
        self.segments_failed = 0
        """Segments whose ledger failed while it was written."""
        self.acks = Histogram()
        """Time from the append of an entry's first record to the acknowledgement of the entry, in
        ms with a resolution of 1 ms."""

        self.acks_by_regions: dict[int, int] = {}
        """Number of entries by the number of regions that held them at the acknowledgement; 0: the
        regions are unknown."""

        self.failed_records: dict[str, int] = {}
        """Number of records that were not acknowledged, by the code of the error."""
        self.delivered = DeliveredCounts()
        self.reader_lags = ReaderLags()
        self.series = StreamSeries(self.reader_lags, by=series_by, series_max=series_max)

    @cached_property
    def timer(self) -> SharedTimer:
        """The timer of all idle writers.

        The first access must run in the event loop that uses it.
        """
        return SharedTimer()

    def add_acknowledged(self, batch: Batch, now_ms: int) -> None:
        """Count the records of an acknowledged batch, which is an entry or a part of one."""
        self.entries += 1
        self.records += batch.count
        self.bytes += batch.bytes
        region_count = len(batch.regions)
        self.acks_by_regions[region_count] = self.acks_by_regions.get(region_count, 0) + 1
        self.acks.add_ms(now_ms - batch.created_ms)

    def add_failed(self, error: RhumblineError, count: int) -> None:
        """Count records that were not acknowledged; they may be in the stream all the same."""
        self.failed_records[error.code] = self.failed_records.get(error.code, 0) + count

    def statistics(self) -> dict[str, Any]:
        """Return the counters and quantiles by name."""
        return {
            "entries": self.entries,
            "records": self.records,
            "bytes": self.bytes,
            "control_entries": self.control_entries,
            "segments_failed": self.segments_failed,
            "failed_records": dict(sorted(self.failed_records.items())),
            "delivered_records": self.delivered.records,
            "readers": self.reader_lags.statistics(),
            "acks": self.acks.summary(),
            "acks_by_regions": {
                str(n): self.acks_by_regions[n] for n in sorted(self.acks_by_regions)
            },
        }

"""The state of the demo; the views only read it."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...core.runtime.histogram import Histogram
from .source import Source

SERIES_LENGTH = 20_000
TICK_SECONDS = 0.25


@dataclass(slots=True)
class RegionState:
    """A region with its bookies; ``is_cut`` is true while it is cut off."""

    name: str
    role: str
    distances: str
    """Round trips to the other regions."""
    bookies: list["DemoBookie"]
    is_cut: bool = False
    acked_count: int = 0
    """Acknowledged records that had a copy in this region when they were acknowledged."""

    @property
    def entry_count(self) -> int:
        """Entries stored by the bookies of the region."""
        return sum(bookie.entry_count for bookie in self.bookies)


@dataclass(slots=True)
class DemoBookie:
    """A bookie of the demo."""

    bookie_id: str
    entry_count: int = 0


@dataclass(frozen=True, slots=True)
class SegmentState:
    """A log segment, as recorded in the metadata store."""

    lssn: int
    is_completed: bool
    record_count: int
    fragments: tuple[tuple[int, tuple[str, ...]], ...]
    """(first entry id, bookies) of each fragment."""


@dataclass(frozen=True, slots=True)
class DemoEvent:
    """A line of the timeline. ``tone`` is plain, bad or good."""

    at_seconds: float
    text: str
    tone: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Statistics of one interval of ``TICK_SECONDS``."""

    records_per_second: float
    read_per_second: float
    p50_ms: float
    p99_ms: float
    lag_records: int
    is_cut: bool


@dataclass(slots=True)
class DemoState:
    """The complete state. Counts are numbers of records."""

    source: Source
    regions: list[RegionState]
    quorum: str
    planned_ticks: int
    """Ticks that the writes take, if the machine is fast enough."""
    sent_count: int = 0
    acked_count: int = 0
    read_count: int = 0
    is_over: bool = False
    segments: list[SegmentState] = field(default_factory=list)
    events: list[DemoEvent] = field(default_factory=list)
    ticks: deque[Tick] = field(default_factory=lambda: deque(maxlen=SERIES_LENGTH))
    ack_latency: Histogram = field(default_factory=Histogram)
    delivery_latency: Histogram = field(default_factory=Histogram)
    _started: float = field(default_factory=time.monotonic)
    _interval: Histogram = field(default_factory=Histogram)
    _acked_before: int = 0
    _read_before: int = 0
    _ticked: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def cut_region(self) -> RegionState | None:
        """The region that is cut off now, if any."""
        return next((region for region in self.regions if region.is_cut), None)

    def add_event(self, text: str, tone: str = "plain") -> None:
        """Add a line to the timeline."""
        self.events.append(DemoEvent(self.seconds, text, tone))

    def add_acks(self, count: int, seconds: float, regions: Sequence[str]) -> None:
        """Count ``count`` records, stored in ``regions`` and acknowledged after ``seconds``."""
        self.acked_count += count
        self.ack_latency.add(seconds, count)
        self._interval.add(seconds, count)
        for region in self.regions:
            if region.name in regions:
                region.acked_count += count

    def tick(self) -> Tick:
        """End an interval and return its statistics."""
        now = self.seconds
        width = max(now - self._ticked, 0.001)
        p50, p99 = self._interval.quantiles_ms((0.5, 0.99))
        tick = Tick(
            records_per_second=(self.acked_count - self._acked_before) / width,
            read_per_second=(self.read_count - self._read_before) / width,
            p50_ms=p50,
            p99_ms=p99,
            lag_records=self.acked_count - self.read_count,
            is_cut=self.cut_region is not None,
        )
        self.ticks.append(tick)
        self._interval.clear()
        self._acked_before, self._read_before = self.acked_count, self.read_count
        self._ticked = now
        return tick

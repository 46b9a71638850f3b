"""What the demo knows at a moment; the views only read it."""

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
    """A region: its bookies, and whether it is cut off."""

    name: str
    role: str
    distances: str
    """Round trips to the other regions."""
    bookies: list["BookieState"]
    is_cut: bool = False
    acked_count: int = 0
    """Acknowledged records of which this region was known to hold a copy at that moment."""

    @property
    def entry_count(self) -> int:
        """Entries that its bookies hold on disk."""
        return sum(bookie.entry_count for bookie in self.bookies)


@dataclass(slots=True)
class BookieState:
    """A bookie of the demo."""

    bookie_id: str
    entry_count: int = 0


@dataclass(frozen=True, slots=True)
class SegmentState:
    """A log segment, as the metadata store knows it."""

    lssn: int
    is_completed: bool
    record_count: int
    fragments: tuple[tuple[int, tuple[str, ...]], ...]
    """(first entry id, bookies) of each fragment."""


@dataclass(frozen=True, slots=True)
class Happening:
    """A line of the timeline. ``mood``: plain, bad or good."""

    at_seconds: float
    text: str
    mood: str


@dataclass(frozen=True, slots=True)
class Tick:
    """One interval of ``TICK_SECONDS``."""

    records_per_second: float
    read_per_second: float
    p50_ms: float
    p99_ms: float
    lag_records: int
    is_cut: bool


@dataclass(slots=True)
class DemoState:
    """All of it. Counts are of records."""

    source: Source
    regions: list[RegionState]
    quorum: str
    planned_ticks: int
    """Ticks that the writing is going to take, if the machine keeps up."""
    sent_count: int = 0
    acked_count: int = 0
    read_count: int = 0
    is_over: bool = False
    segments: list[SegmentState] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
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
        """Since the start."""
        return time.monotonic() - self._started

    @property
    def cut_region(self) -> RegionState | None:
        """The region that is cut off now, if any."""
        return next((region for region in self.regions if region.is_cut), None)

    def happened(self, text: str, mood: str = "plain") -> None:
        """Adds to the timeline."""
        self.happenings.append(Happening(self.seconds, text, mood))

    def acked(self, count: int, seconds: float, regions: Sequence[str]) -> None:
        """``count`` records held by ``regions`` were acknowledged ``seconds`` after append."""
        self.acked_count += count
        self.ack_latency.add(seconds, count)
        self._interval.add(seconds, count)
        for region in self.regions:
            if region.name in regions:
                region.acked_count += count

    def tick(self) -> Tick:
        """Closes an interval and returns it."""
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

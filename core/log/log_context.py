"""What all streams of a process have in common: the alarms of their writers, and counters."""

from functools import cached_property
from typing import Any

from ..runtime.histogram import Histogram
from .shared_timer import SharedTimer


class LogContext:
    """One per process. Its counters are of records that were acknowledged."""

    def __init__(self) -> None:
        self.entries = 0
        self.records = 0
        self.bytes = 0
        """Payloads, and a few bytes for each record."""
        self.control_entries = 0
        self.segments_failed = 0
        """Ledgers that failed under their writers."""
        self.acks = Histogram()
        """From when the first record of an entry was appended to when the entry was acknowledged;
        to a millisecond."""

        self.acks_by_regions: dict[int, int] = {}
        """Entries by how many regions held them when they were acknowledged; 0: unknown."""

    @cached_property
    def alarms(self) -> SharedTimer:
        """Made in the event loop that first asks."""
        return SharedTimer()

    def statistics(self) -> dict[str, Any]:
        """Counters and quantiles, by name."""
        return {
            "entries": self.entries,
            "records": self.records,
            "bytes": self.bytes,
            "control_entries": self.control_entries,
            "segments_failed": self.segments_failed,
            "acks": self.acks.summary(),
            "acks_by_regions": {
                str(n): self.acks_by_regions[n] for n in sorted(self.acks_by_regions)
            },
        }

"""The trace of a run: lines for readers, and a fingerprint over all events.

There are two kinds of events. ``note`` records what a reader of a trace wants to see, such as
faults, workload calls, and starts and ends of processes; its lines are kept. ``beat`` records
events of the hot path (delivered bytes, disk and metadata operations) as numbers in the
fingerprint.

The fingerprint hashes integers, floats and CRCs only, whose hashes are equal in every process.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol
from zlib import crc32


class TraceClock(Protocol):
    """Anything with a time: the loop of a simulated run, or a counter of events."""

    now: float
    """Virtual seconds."""


class Trace:
    """The trace of one run. ``clock`` shows virtual time; ``on_line`` receives each line."""

    def __init__(self, clock: TraceClock, *, on_line: Callable[[str], None] | None = None) -> None:
        self.fingerprint = 0
        self.events = 0
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []
        self.is_detailed = on_line is not None
        self._clock = clock
        self._on_line = on_line

    def now_s(self) -> float:
        """Return the virtual time in seconds."""
        return self._clock.now

    def note(self, source: str, message: str) -> None:
        """Record an event for readers; the line is kept and part of the fingerprint."""
        line = f"{self._clock.now * 1000:12.3f} {source:<14} {message}"
        self.lines.append(line)
        self.beat(1, crc32(line.encode()), 0)
        if self._on_line is not None:
            self._on_line(line)

    def detail(self, source: str, message: str) -> None:
        """Pass a line to ``on_line`` (if ``is_detailed``), outside of the fingerprint."""
        if self._on_line is not None:
            self._on_line(f"{self._clock.now * 1000:12.3f} {source:<14} {message}")

    def count(self, kind: str, by: int = 1) -> None:
        """Add to a counter, such as the number of faults of a kind."""
        self.counts[kind] += by

    def beat(self, kind: int, first: int, second: int) -> None:
        """Record an event of the hot path: a kind (see the callers) and two numbers."""
        self.events += 1
        self.fingerprint = hash((self.fingerprint, self._clock.now, kind, first, second))

    def digest(self) -> str:
        """Return the fingerprint in hexadecimal with the number of events."""
        return f"{self.fingerprint & 0xFFFFFFFFFFFFFFFF:016x}/{self.events}"

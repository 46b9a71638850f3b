"""What happened in a run: one line an event, and a fingerprint over all of them.

Two kinds of events. ``note`` is for what a reader of a trace wants: faults, calls of the workload,
lives and deaths; its lines are kept. ``beat`` is for the hot path (bytes delivered, disk and
metadata operations): numbers that go into the fingerprint.

The fingerprint uses integers, floats and CRCs only, whose hashes are the same in every process.
"""

from collections import Counter
from collections.abc import Callable
from zlib import crc32


class Trace:
    """The record of one run. ``now`` gives virtual seconds; ``on_line`` sees each line at once."""

    def __init__(
        self, now: Callable[[], float], *, on_line: Callable[[str], None] | None = None
    ) -> None:
        self.fingerprint = 0
        self.events = 0
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []
        self.is_detailed = on_line is not None
        self._now = now
        self._on_line = on_line

    def note(self, who: str, what: str) -> None:
        """An event for readers; kept."""
        line = f"{self._now() * 1000:12.3f} {who:<14} {what}"
        self.lines.append(line)
        self.beat(1, crc32(line.encode()), 0)
        if self._on_line is not None:
            self._on_line(line)

    def detail(self, who: str, what: str) -> None:
        """A line for who reads along (``is_detailed``); not kept, not part of the fingerprint."""
        if self._on_line is not None:
            self._on_line(f"{self._now() * 1000:12.3f} {who:<14} {what}")

    def count(self, kind: str, by: int = 1) -> None:
        """Counts what has no line of its own (faults by kind, say)."""
        self.counts[kind] += by

    def beat(self, kind: int, first: int, second: int) -> None:
        """An event of the hot path: a kind (see callers) and two numbers."""
        self.events += 1
        self.fingerprint = hash((self.fingerprint, self._now(), kind, first, second))

    def digest(self) -> str:
        """The fingerprint as text, with the number of events."""
        return f"{self.fingerprint & 0xFFFFFFFFFFFFFFFF:016x}/{self.events}"

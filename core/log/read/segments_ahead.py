"""Opens the segments after the current one for a reader that catches up.

Without this, the reader would wait for three round trips at the end of each segment: for the
metadata of the next segment, for that of its ledger, and for its first entries.

Only completed segments are opened ahead. They never change again (rule STR-7), so it makes no
difference when they are read. An attempt that finds anything else, or fails, is dropped: the reader
opens that segment itself when it gets there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from ...protocol.errors import RhumblineError
from ...protocol.segments import Segment
from ...runtime.tasks import Tasks, wait_until_done
from ..ledger_interface import LedgerEntry, ReadableLedger

SEGMENTS_AHEAD_MAX = 8
_OPEN_BYTES = 1 << 20
"""Bytes within which segments are opened for a reader that reads no entries ahead."""


class OpenedSegment(NamedTuple):
    """A completed segment that is open for reading."""

    segment: Segment
    ledger: ReadableLedger
    entries: Sequence[LedgerEntry]
    """Its first entries; none if the reader reads no entries ahead."""


class SegmentsAhead:
    """The next segments that are open or being opened, ``SEGMENTS_AHEAD_MAX`` at most."""

    def __init__(
        self,
        read_segment: Callable[[int], Awaitable[Segment | None]],
        open_segment: Callable[[Segment], Awaitable[ReadableLedger]],
        name: str,
    ) -> None:
        """``read_segment`` returns None if there is no segment with that LSSN."""
        self._read_segment = read_segment
        self._open_segment = open_segment
        self._name = name
        self._last_begun = 0
        self._attempts: dict[int, asyncio.Task[None]] = {}
        self._opened: dict[int, OpenedSegment] = {}
        self._tasks = Tasks()

    def is_open(self, lssn: int) -> bool:
        """True if the segment is open, and ``take`` returns it without waiting."""
        return lssn in self._opened

    def begin_after(self, segment: Segment, entry_id: int, ahead_bytes: int) -> None:
        """Start to open as many segments after ``segment`` as ``segments_to_open`` returns.

        Each segment is started once; the call does not wait for it. If ``ahead_bytes`` is 0, no
        entries are read ahead, and the segments within ``_OPEN_BYTES`` are only opened.
        """
        first = max(segment.lssn, self._last_begun) + 1
        last = segment.lssn + segments_to_open(segment, entry_id, ahead_bytes or _OPEN_BYTES)
        for lssn in range(first, last + 1):
            opening = self._open(lssn, reads_entries=ahead_bytes > 0)
            self._attempts[lssn] = self._tasks.spawn(opening, f"open {self._name} ahead")
            self._last_begun = lssn

    async def take(self, lssn: int) -> OpenedSegment | None:
        """Wait until the segment is open and return it; the caller must close its ledger.

        Returns None if the segment was not started, or could not be opened.
        """
        attempt = self._attempts.get(lssn)
        if attempt is not None:
            await wait_until_done(attempt)
            self._attempts.pop(lssn)
        return self._opened.pop(lssn, None)

    async def aclose(self) -> None:
        """Close the segments that were not taken. Safe to repeat."""
        await self._tasks.aclose()
        while self._opened:
            _, opened = self._opened.popitem()
            await opened.ledger.aclose()

    async def _open(self, lssn: int, *, reads_entries: bool) -> None:
        try:
            segment = await self._read_segment(lssn)
            if segment is None or not segment.is_completed or segment.is_empty:
                return
            ledger = await self._open_segment(segment)
            try:
                if ledger.is_closed:  # it may be open in old metadata
                    last = ledger.last_add_confirmed
                    entries = await ledger.read(0, last) if reads_entries else ()
                    self._opened[lssn] = OpenedSegment(segment, ledger, entries)
            finally:
                if lssn not in self._opened:
                    await ledger.aclose()
        except RhumblineError:
            return  # the reader opens the segment itself, and raises the error if it persists


def segments_to_open(segment: Segment, entry_id: int, ahead_bytes: int) -> int:
    """Return how many segments should be open ahead when ``entry_id`` of ``segment`` is read next.

    It is 0 as long as more than ``ahead_bytes`` of this segment remain to be read. From then on it
    is the number that would fit into ``ahead_bytes`` if each were as large as this one, and at
    least 1.
    """
    if not segment.is_completed or segment.ends_stream:
        return 0
    entries = segment.last_entry_id + 1
    if segment.length_bytes * (entries - entry_id) > ahead_bytes * entries:
        return 0
    return min(max(1, ahead_bytes // max(1, segment.length_bytes)), SEGMENTS_AHEAD_MAX)

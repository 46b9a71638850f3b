"""The entries of a stream in order, from one position on, over all segments; waits at the tail.

Level-triggered: each turn looks at where the position is, what is confirmed and what metadata says,
and does the next thing. Watches and long polls only end a wait early, so a lost one costs time
(``poll_ms``) and never a record.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ...protocol.errors import (
    EndOfStreamError,
    GapError,
    NoSuchLedgerError,
    NoSuchStreamError,
    RhumblineError,
    TruncatedError,
)
from ...protocol.segments import FIRST_LSSN, Segment, merged
from ..config import ReaderConfig
from ..ledger_interface import LedgerEntry, ReadableLedger
from ..metadata.stream_store import StreamStore
from .segment_opener import SegmentOpener


class Chunk(NamedTuple):
    """Consecutive entries of one segment, in order, none missing.

    None at all: everything of the segments before this one was given.
    """

    lssn: int
    start_sequence_id: int | None
    entries: Sequence[LedgerEntry]


class Entries(Protocol):
    """Where a reader gets entries from: ``EntrySource``, or a read proxy."""

    @property
    def lssn(self) -> int:
        """Segment of the next entry."""
        ...

    @property
    def entry_id(self) -> int:
        """The next entry that will be given."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether the next ``fetch`` finds something without waiting for a writer."""
        ...

    async def fetch(self) -> Chunk:
        """The next entries, or news of the next segment; waits. Raises as ``EntrySource.fetch``."""
        ...

    async def aclose(self) -> None:
        """Releases what it holds. Safe to repeat."""
        ...


class EntrySource:
    """Gives entries from (``lssn``, ``entry_id``) on. One ``fetch`` at a time."""

    def __init__(
        self,
        streams: StreamStore,
        opener: SegmentOpener,
        stream: str,
        *,
        identity: str,
        lssn: int,
        entry_id: int,
        config: ReaderConfig,
    ) -> None:
        self.lssn = lssn
        self.entry_id = entry_id
        """The next entry that will be given."""
        self._told_lssn = lssn  # the segment that the last chunk was of
        self._streams = streams
        self._opener = opener
        self._stream = stream
        self._identity = identity
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._segment: Segment | None = None
        self._previous: Segment | None = None  # the completed segment before, if known
        self._handle: ReadableLedger | None = None
        self._failing_since: float | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the next ``fetch`` finds something without waiting for a writer."""
        return self._handle is not None and self.entry_id <= self._handle.last_add_confirmed

    async def fetch(self) -> Chunk:
        """The next entries, or none when it came to another segment; waits as long as it takes.

        Raises EndOfStreamError at the end of an ended stream, TruncatedError, GapError,
        NoSuchStreamError, CorruptionError, and errors that may pass once they have lasted
        ``unavailable_ms_max``. After any error a repeat goes on at the same position.
        """
        while True:
            if self.lssn != self._told_lssn:
                self._told_lssn = self.lssn
                return Chunk(self.lssn, None, ())
            try:
                chunk = await self._try_fetch()
            except NoSuchLedgerError as error:
                await self._explain_missing(error)
                await self._pause(error)
            except RhumblineError as error:
                if not error.retryable:
                    raise
                await self._pause(error)
            else:
                self._failing_since = None
                if chunk is not None:
                    return chunk

    async def aclose(self) -> None:
        """Releases the ledger. Safe to repeat."""
        handle, self._handle = self._handle, None
        if handle is not None:
            await handle.aclose()

    # --- one turn -------------------------------------------------------------------------------

    async def _try_fetch(self) -> Chunk | None:
        if self._handle is None and not await self._open_segment():
            return None
        handle, segment = self._handle, self._segment
        assert handle is not None
        assert segment is not None
        confirmed = handle.last_add_confirmed
        if self.entry_id <= confirmed:
            entries = await handle.read(self.entry_id, confirmed)
        elif handle.is_closed:
            await self._leave_segment()
            return None
        else:
            entries = await handle.wait(self.entry_id - 1, self._config.poll_ms)
            if not entries:
                return None
        self._check_contiguous(entries)
        self.entry_id += len(entries)
        return Chunk(self.lssn, self._start_sequence_id(), entries)

    def _check_contiguous(self, entries: Sequence[LedgerEntry]) -> None:
        for offset, entry in enumerate(entries):
            if entry.entry_id != self.entry_id + offset:
                raise GapError(
                    f"stream {self._stream}: entry {entry.entry_id} of segment {self.lssn} came "
                    f"where {self.entry_id + offset} should"
                )

    def _start_sequence_id(self) -> int | None:
        if self._segment is not None and self._segment.is_completed:
            return self._segment.start_sequence_id
        if self.lssn == FIRST_LSSN:
            return 0
        if self._previous is not None and self._previous.lssn == self.lssn - 1:
            return self._previous.end_sequence_id
        return None

    # --- segments -------------------------------------------------------------------------------

    async def _open_segment(self) -> bool:
        """Opens the ledger at the position; False when there was something else to do first."""
        segment = await self._look_up(self.lssn)
        if segment is None:
            await self._wait_for_segment()
            return False
        self._segment = segment
        if segment.is_empty:
            await self._leave_segment()
            return False
        if not segment.is_completed and self._previous is None and self.lssn > FIRST_LSSN:
            await self._learn_previous()
        self._handle = await self._opener.open(self._stream, segment)
        return True

    async def _look_up(self, lssn: int) -> Segment | None:
        """What is known of a segment now; None if it is not there. Raises NoSuchStreamError when it
        is that of another stream, which was made under the name after this one was deleted."""
        stored = await self._streams.segment(self._stream, lssn)
        if stored is None:
            return None
        known = self._segment if self._segment and self._segment.lssn == lssn else None
        if known is None or known.ledger_id != stored.segment.ledger_id:
            await self._streams.check(self._stream, self._identity)
        return merged(known, stored.segment)

    async def _learn_previous(self) -> None:
        """The segment before tells the sequence ids of this one, if it is completed."""
        segment = await self._look_up(self.lssn - 1)
        if segment is not None and segment.is_completed:
            self._previous = segment

    async def _leave_segment(self) -> None:
        """The position is behind the last entry of a closed ledger: on to the next segment."""
        await self.aclose()
        segment = await self._look_up(self.lssn)
        if segment is not None:
            self._previous = segment if segment.is_completed else None
            if segment.is_completed and self.entry_id <= segment.last_entry_id:
                raise GapError(
                    f"stream {self._stream}: the ledger of segment {self.lssn} ends before entry "
                    f"{self.entry_id}, metadata says {segment.last_entry_id}"
                )
            if segment.ends_stream:
                raise EndOfStreamError(f"stream {self._stream} ends at segment {self.lssn}")
        else:
            self._previous = None
        self.lssn += 1
        self.entry_id = 0
        self._segment = None

    async def _wait_for_segment(self) -> None:
        """Returns when the segment at the position may be there. Watches first, then looks."""
        hint: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not hint.done():
                hint.set_result(None)

        watch = self._streams.watch(self._stream, wake)
        timer = self._loop.call_later(self._config.poll_ms / 1000, wake)
        try:
            await self._check_still_there()
            head, _ = await self._streams.head(self._stream)
            if head.last_lssn < self.lssn:
                await hint
            elif await self._streams.segment(self._stream, self.lssn) is None:
                await self._check_still_there()
                raise GapError(f"stream {self._stream}: segment {self.lssn} is missing")
        finally:
            timer.cancel()
            watch.close()

    # --- trouble --------------------------------------------------------------------------------

    async def _check_still_there(self) -> None:
        """Raises NoSuchStreamError or TruncatedError if the position is gone."""
        record, _ = await self._streams.record(self._stream)
        if record.is_deleting or record.identity != self._identity:
            raise NoSuchStreamError(f"stream {self._stream} was deleted while it was read")
        if record.start.lssn > self.lssn:
            raise TruncatedError(
                f"stream {self._stream} was truncated up to {record.start} while it was read at "
                f"segment {self.lssn}",
                record.start,
            )

    async def _explain_missing(self, error: NoSuchLedgerError) -> None:
        """A ledger that is gone: archived, or truncated and purged, or the stream was deleted.

        The first is seen when the segment is opened again.
        """
        await self.aclose()
        await self._check_still_there()

    async def _pause(self, error: RhumblineError) -> None:
        """Waits a little after an error that may pass; raises it when it has lasted too long."""
        now = self._loop.time()
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since >= self._config.unavailable_ms_max / 1000:
            self._failing_since = None
            if isinstance(error, NoSuchLedgerError):
                raise GapError(
                    f"stream {self._stream}: the ledger of segment {self.lssn} is gone: {error}"
                ) from error
            raise error
        await asyncio.sleep(self._config.retry_ms / 1000)

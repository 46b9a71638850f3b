"""The entries of a stream in order, from a position on and across segments (rule STR-19).

The source is level-triggered: each step compares the position with the LAC and the metadata, and
does what follows from them. Watches and long polls only end a wait early, so a lost event costs
time (at most ``poll_ms``) and never a record.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from ...protocol.errors import (
    EndOfStreamError,
    GapError,
    InvalidPositionError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    NoSuchStreamError,
    RhumblineError,
    TruncatedError,
    UnavailableError,
)
from ...protocol.ledger_metadata import NO_ENTRY
from ...protocol.segments import FIRST_LSSN, Segment, merged
from ..config import ReaderConfig
from ..ledger_interface import LedgerEntry, ReadableLedger
from ..metadata.stream_metadata import StreamRecord
from ..metadata.stream_reads import StreamReads
from .reader_lag import ReaderLag, ReaderLags
from .segment_opener import SegmentOpener
from .segments_ahead import SegmentsAhead


class Chunk(NamedTuple):
    """Consecutive entries of one segment, in order and without gaps.

    An empty chunk means that every entry of the earlier segments was returned.
    """

    lssn: int
    start_sequence_id: int | None
    entries: Sequence[LedgerEntry]


class EntryFetcher(Protocol):
    """The source of a reader's entries: an ``EntrySource`` or a read proxy."""

    @property
    def lssn(self) -> int:
        """The segment of the next entry."""
        ...

    @property
    def entry_id(self) -> int:
        """The id of the next entry."""
        ...

    @property
    def is_ready(self) -> bool:
        """True if the next ``fetch`` does not have to wait for a writer."""
        ...

    async def fetch(self, ahead_bytes: int = 0) -> Chunk:
        """Wait for and return the next entries. Behaves and raises as ``EntrySource.fetch``."""
        ...

    async def aclose(self) -> None:
        """Release all resources. Safe to repeat."""
        ...


class EntrySource:
    """Reads the entries of a stream from (``lssn``, ``entry_id``) on. One ``fetch`` at a time."""

    def __init__(
        self,
        streams: StreamReads,
        opener: SegmentOpener,
        stream: str,
        *,
        stream_id: str,
        lssn: int,
        entry_id: int,
        config: ReaderConfig,
        lags: ReaderLags,
        checks_start: bool = False,
    ) -> None:
        """``checks_start``: a caller gave the position, and the stream may be unable to have it
        (rule STR-32)."""
        self.lssn = lssn
        self.entry_id = entry_id
        """The id of the next entry."""
        self._reported_lssn = lssn  # the segment of the last chunk
        self._streams = streams
        self._opener = opener
        self._stream = stream
        self._stream_id = stream_id
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._segment: Segment | None = None
        self._previous: Segment | None = None  # the completed segment before it, if known
        self._handle: ReadableLedger | None = None
        self._first_entries: Sequence[LedgerEntry] = ()  # read ahead, and not returned yet
        self._ahead = SegmentsAhead(self._stored_segment, partial(opener.open, stream), stream)
        self._reads_on = False  # the caller has come back for more than the first entries
        self._checks_start = checks_start
        """True until an entry or the end of a segment shows that the stream has the position."""
        self._failing_since: float | None = None
        self._lags = lags
        self._lag: ReaderLag | None = None  # from the first fetch on

    @property
    def is_ready(self) -> bool:
        """True if the next ``fetch`` does not have to wait for a writer."""
        if self._handle is None:
            return self._ahead.is_open(self.lssn)
        if self.entry_id <= self._handle.last_add_confirmed:
            return True
        return self._ahead.is_open(self.lssn + 1)

    async def fetch(self, ahead_bytes: int = 0) -> Chunk:
        """Wait for and return the next entries, or an empty chunk at the beginning of a segment.

        About ``ahead_bytes`` of the entries behind them may be read before the next call.
        Raises EndOfStreamError at the end of an ended stream, TruncatedError, GapError,
        NoSuchStreamError, CorruptionError, and transient errors that have lasted
        ``unavailable_ms_max``. After any error, a repeat continues at the same position.
        """
        if self._lag is None:
            self._lag = ReaderLag()
            self._lags.add(self._lag)
        try:
            return await self._fetch(ahead_bytes)
        finally:
            self._lag.end_wait()

    async def _fetch(self, ahead_bytes: int) -> Chunk:
        while True:
            if self.lssn != self._reported_lssn:
                self._reported_lssn = self.lssn
                return Chunk(self.lssn, None, ())
            try:
                chunk = await self._try_fetch(ahead_bytes)
            except NoSuchLedgerError as error:
                await self._pause(await self._explain_missing_ledger(error))
            except RhumblineError as error:
                if not error.retryable:
                    raise
                await self._pause(error)
            else:
                self._failing_since = None
                if chunk is not None:
                    return chunk

    async def aclose(self) -> None:
        """Release the ledger. Safe to repeat."""
        if self._lag is not None:
            self._lags.discard(self._lag)
            self._lag = None
        await self._ahead.aclose()
        await self._release_ledger()

    async def _release_ledger(self) -> None:
        handle, self._handle = self._handle, None
        self._first_entries = ()
        if handle is not None:
            await handle.aclose()

    # --- one step -------------------------------------------------------------------------------

    async def _try_fetch(self, ahead_bytes: int) -> Chunk | None:
        if self._handle is None and not await self._open_segment():
            return None
        handle, segment = self._handle, self._segment
        assert handle is not None
        assert segment is not None
        confirmed = handle.last_add_confirmed
        if self.entry_id <= confirmed:
            if self._reads_on:
                self._ahead.begin_after(segment, self.entry_id, ahead_bytes)
            entries, self._first_entries = self._first_entries, ()
            if not entries:
                entries = await handle.read(self.entry_id, confirmed, ahead_bytes)
        elif handle.is_closed:
            await self._advance_segment(confirmed)
            return None
        else:
            self._note_wait()
            entries = await handle.wait(self.entry_id - 1, self._config.poll_ms)
            if not entries:
                return None
        self._check_contiguous(entries)
        self._checks_start = False
        self._reads_on = True
        self.entry_id += len(entries)
        return Chunk(self.lssn, self._start_sequence_id(), entries)

    def _note_wait(self) -> None:
        if self._lag is not None:
            self._lag.begin_wait()

    def _check_contiguous(self, entries: Sequence[LedgerEntry]) -> None:
        for offset, entry in enumerate(entries):
            if entry.entry_id != self.entry_id + offset:
                raise GapError(
                    f"stream {self._stream}, segment {self.lssn}: got entry {entry.entry_id}, "
                    f"expected {self.entry_id + offset}"
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
        """Open the ledger at the position. Return False if it moved or had to wait instead."""
        opened = await self._ahead.take(self.lssn)
        if opened is not None:
            self._segment, self._handle, self._first_entries = opened
            return True
        view = await self._streams.segment_view(self._stream, self.lssn, self._stream_id)
        if view.segment is None:
            await self._wait_for_segment()
            return False
        segment = self._segment = merged(self._known_segment(self.lssn), view.segment)
        if segment.is_empty:
            await self._advance_segment(NO_ENTRY)
            return False
        if not segment.is_completed and self._previous is None:
            self._keep_previous(view.previous)
        self._handle = await self._opener.open(self._stream, segment)
        return True

    async def _read_segment(self, lssn: int) -> Segment | None:
        """Read a segment; None if it does not exist. Raises as ``StreamReads.segment``."""
        found = await self._stored_segment(lssn)
        return None if found is None else merged(self._known_segment(lssn), found)

    async def _stored_segment(self, lssn: int) -> Segment | None:
        stored = await self._streams.segment(self._stream, lssn, self._stream_id)
        return None if stored is None else stored.segment

    def _known_segment(self, lssn: int) -> Segment | None:
        return self._segment if self._segment and self._segment.lssn == lssn else None

    def _keep_previous(self, segment: Segment | None) -> None:
        """Keep the previous segment: if completed, it determines the sequence ids of this one."""
        if segment is not None and segment.is_completed:
            self._previous = segment

    async def _advance_segment(self, last: int) -> None:
        """Move to the next segment, because the position is after the end of a closed ledger.

        ``last`` is the last entry of the ledger.
        """
        await self._release_ledger()
        segment = self._segment
        if segment is None or not segment.is_completed:  # else it is final (rule STR-7)
            segment = await self._read_segment(self.lssn)
        if self._checks_start:
            self._check_start(segment, last)
            self._checks_start = False
        if segment is not None:
            self._previous = segment if segment.is_completed else None
            if segment.is_completed and self.entry_id <= segment.last_entry_id:
                raise GapError(
                    f"stream {self._stream}: the ledger of segment {self.lssn} ends before entry "
                    f"{self.entry_id}, the last entry in its metadata is {segment.last_entry_id}"
                )
            if segment.ends_stream:
                await self._confirm_end(self.lssn)
                raise EndOfStreamError(f"stream {self._stream} ends at segment {self.lssn}")
        else:
            self._previous = None
        self.lssn += 1
        self.entry_id = 0
        self._segment = None

    def _check_start(self, segment: Segment | None, last: int) -> None:
        """Raise InvalidPositionError if the segment ended before the start of the reader (STR-32).

        An operator who ends a ledger without proof may also end it before positions that it had.
        """
        if segment is None or self.entry_id <= max(last, segment.last_entry_id) + 1:
            return
        if not segment.is_completed:
            raise UnavailableError(
                f"stream {self._stream}: segment {self.lssn} is being completed, perhaps before "
                f"entry {self.entry_id}, at which the reader begins"
            )
        if not segment.doubt:
            raise InvalidPositionError(
                f"stream {self._stream} has no position {self.lssn}:{self.entry_id}: the last "
                f"entry of segment {self.lssn} is {segment.last_entry_id}"
            )

    async def _check_start_exists(self, last_lssn: int) -> None:
        """Raise InvalidPositionError if the start is beyond the next segment (rule STR-32)."""
        start, following = (self.lssn, self.entry_id), (last_lssn + 1, 0)
        if start > following and not self._streams.is_confirmed:
            head, _ = await self._streams.confirmed.head(self._stream, self._stream_id)
            following = (head.last_lssn + 1, 0)
        if start > following:
            raise InvalidPositionError(
                f"stream {self._stream} has no position {self.lssn}:{self.entry_id}: its last "
                f"segment is {following[0] - 1}"
            )

    async def _wait_for_segment(self) -> None:
        """Wait until the segment at the position may exist.

        Sets the watch before it reads the metadata, so that no change is missed.
        """
        wakeup: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not wakeup.done():
                wakeup.set_result(None)

        watch = self._streams.watch(self._stream, wake)
        timer = self._loop.call_later(self._config.poll_ms / 1000, wake)
        try:
            await self._check_not_removed()
            head, _ = await self._streams.head(self._stream, self._stream_id)
            if head.last_lssn < self.lssn:
                if self._checks_start:
                    await self._check_start_exists(head.last_lssn)
                await self._check_not_ended()
                self._note_wait()
                await wakeup
            elif await self._read_segment(self.lssn) is None:
                await self._check_not_removed()
                raise GapError(f"stream {self._stream}: segment {self.lssn} is missing")
        finally:
            timer.cancel()
            watch.close()

    async def _check_not_ended(self) -> None:
        """Raise EndOfStreamError if the segment before a missing one ends the stream.

        A reader that comes from that segment knows already. One that begins here, because all
        records were truncated, has not seen it.
        """
        if self._previous is None and self.lssn > FIRST_LSSN:
            self._keep_previous(await self._read_segment(self.lssn - 1))
            if self._previous is not None and self._previous.ends_stream:
                await self._confirm_end(self.lssn - 1)
                raise EndOfStreamError(f"stream {self._stream} ends at segment {self.lssn - 1}")

    # --- errors ---------------------------------------------------------------------------------

    async def _confirm_end(self, lssn: int) -> None:
        """Verify with current metadata that segment ``lssn`` ends the stream (rule STR-30).

        Raises NoSuchStreamError, and UnavailableErrors if it is not confirmed.
        """
        if self._streams.is_confirmed:
            return
        view = await self._streams.confirmed.segment_view(self._stream, lssn, self._stream_id)
        self._check_record(view.record)
        if view.segment is None or not view.segment.ends_stream:
            raise MetadataUnavailableError(
                f"stream {self._stream}: the end at segment {lssn} is not confirmed"
            )

    async def _check_not_removed(self) -> None:
        """Raise NoSuchStreamError or TruncatedError if the position no longer exists.

        An old record may only give rise to the check; a current one decides (rule STR-30).
        """
        record, _ = await self._streams.record(self._stream)
        if not self._streams.is_confirmed:
            with suppress(NoSuchStreamError, TruncatedError):
                return self._check_record(record)
            record, _ = await self._streams.confirmed.record(self._stream)
        return self._check_record(record)

    def _check_record(self, record: StreamRecord) -> None:
        if record.is_deleting or record.stream_id != self._stream_id:
            raise NoSuchStreamError(f"stream {self._stream} was deleted while it was read")
        if record.start.lssn > self.lssn:
            raise TruncatedError(
                f"stream {self._stream} was truncated up to {record.start} while segment "
                f"{self.lssn} was read",
                record.first_active,
            )

    async def _explain_missing_ledger(self, error: NoSuchLedgerError) -> RhumblineError:
        """Handle a missing ledger: it was archived, or purged, or the stream was deleted.

        An archived segment is found when the segment is opened again. Returns the error to pause
        after: if current metadata cannot be read, it is not known why the ledger is missing.
        """
        await self._release_ledger()
        try:
            record, _ = await self._streams.confirmed.record(self._stream)
        except UnavailableError as unavailable:
            return unavailable
        self._check_record(record)
        return error

    async def _pause(self, error: RhumblineError) -> None:
        """Pause after a transient error. Raise it if errors have lasted ``unavailable_ms_max``."""
        now = self._loop.time()
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since >= self._config.unavailable_ms_max / 1000:
            self._failing_since = None
            if isinstance(error, NoSuchLedgerError):
                raise GapError(
                    f"stream {self._stream}: the ledger of segment {self.lssn} is missing: {error}"
                ) from error
            raise error
        # The pause need not grow: connections and the metadata store back off themselves, so this
        # only bounds how often a reader asks them.
        await asyncio.sleep(self._config.retry_ms / 1000)

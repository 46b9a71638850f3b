"""The search for a start position: by DLSN, txid, sequence id or time, earliest or latest.

Searches by txid and sequence id are binary searches over the segments, which read the metadata of
about log2 of their number, and then over the entries of one segment (rule STR-20). A search by time
begins in the same way with the times at which segments were completed, and then reads the last
entry of mostly one or two segments (rule STR-39).
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ...protocol.dlsn import Dlsn
from ...protocol.errors import (
    InvalidArgumentError,
    InvalidPositionError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    NoSuchStreamError,
    TruncatedError,
    UnavailableError,
)
from ...protocol.record_set import RecordSet
from ...protocol.segments import FIRST_LSSN, Segment
from ...protocol.start import LATEST, AtEventTime, AtTime, AtTxid, Earliest, Latest, Start
from ...runtime.tracing import Tracer
from ..config import ReaderConfig
from ..decoded_entry import record_sets_of
from ..ledger_interface import ReadableLedger
from ..metadata.stream_metadata import StreamRecord
from ..metadata.stream_reads import StreamReads
from .delivered_counts import DeliveredCounts
from .entry_source import EntrySource
from .gallop import Gallop
from .reader_lag import ReaderLags
from .segment_opener import SegmentOpener
from .stream_reader import StreamReader

_SEARCHES_MAX = 16

OnTruncated = Callable[[Dlsn, Dlsn], None]
"""Callback with the requested position and the first active position."""


class _Found(NamedTuple):
    """A position that was found, and what it was found with."""

    record: StreamRecord
    position: Dlsn
    first_txid: int
    """The lowest txid wanted, or 0."""
    age_ms: int | None = None
    """The age of the metadata if the position is an end that only this region knows; else None."""


async def find_start(
    streams: StreamReads,
    opener: SegmentOpener,
    stream: str,
    record: StreamRecord,
    start: Start,
    *,
    config: ReaderConfig,
    on_truncated: OnTruncated | None,
    lags: ReaderLags,
    delivered: DeliveredCounts | None = None,
    tracer: Tracer | None = None,
) -> StreamReader:
    """Return a reader at ``start``.

    Raises TruncatedError unless ``on_truncated`` is given, and InvalidPositionError.
    """
    record = await _check_stream(streams, stream, record, start)
    found = await _find_known_position(streams, opener, stream, record, start, config)
    record, position = found.record, found.position
    if position < record.start and not (isinstance(start, Earliest) or streams.is_confirmed):
        record, _ = await streams.confirmed.record(stream)
    if position < record.start:
        if not isinstance(start, Earliest):
            if on_truncated is None:
                raise TruncatedError(
                    f"stream {stream}: position {position} was truncated, the first active "
                    f"position is {record.first_active}",
                    record.first_active,
                )
            on_truncated(position, record.first_active)
        position = record.start
    # A truncation may be to a position that the stream never gets, so its start is not checked.
    checks_start = isinstance(start, Dlsn) and position > record.start
    source = EntrySource(
        streams,
        opener,
        stream,
        stream_id=record.stream_id,
        lssn=position.lssn,
        entry_id=position.entry_id,
        config=config,
        lags=lags,
        checks_start=checks_start,
    )
    return StreamReader(
        source,
        stream=stream,
        stream_id=record.stream_id,
        config=config,
        first_slot=position.slot,
        checks_slot=checks_start,
        first_txid=found.first_txid,
        first_created_ms=start.created_ms if isinstance(start, AtTime) else 0,
        first_event_ms=start.event_ms if isinstance(start, AtEventTime) else None,
        find_end=lambda: find_end(streams, opener, stream),
        metadata_age_ms=found.age_ms,
        delivered=delivered,
        tracer=tracer,
    )


async def _check_stream(
    streams: StreamReads, stream: str, record: StreamRecord, start: Start
) -> StreamRecord:
    """Raise InvalidPositionError if ``start`` is a position of another stream (rule STR-32).

    An old record only gives rise to the suspicion (rule STR-30). Returns the record that decided.
    """
    if isinstance(start, Dlsn):
        if start.stream_id != record.stream_id and start.stream_id and not streams.is_confirmed:
            record, _ = await streams.confirmed.record(stream)
        start.check_stream(stream, record.stream_id)
    return record


async def find_end(
    streams: StreamReads, opener: SegmentOpener, stream: str, *, fresh: bool = True
) -> Dlsn:
    """Return the position after the last confirmed entry.

    If ``fresh``, current metadata and a quorum of bookies are read; otherwise the first responses
    are used. Raises NoSuchStreamError, and UnavailableErrors if too few bookies respond.
    """
    if fresh:
        streams = streams.confirmed
    record, _ = await streams.record(stream)
    found = await _find_position(streams, opener, stream, record, LATEST, fresh=fresh)
    return found.position.in_stream(found.record.stream_id)


async def _find_known_position(
    streams: StreamReads,
    opener: SegmentOpener,
    stream: str,
    record: StreamRecord,
    start: Start,
    config: ReaderConfig,
) -> _Found:
    """Search with current metadata where it matters, and with old metadata if there is no other.

    That a record does not exist is only concluded from current metadata (rule STR-30).
    """
    if streams.is_confirmed:
        return await _find_position(streams, opener, stream, record, start)
    if isinstance(start, Latest):
        return await _find_known_end(streams, opener, stream, config)
    try:
        return await _find_position(streams, opener, stream, record, start)
    except (InvalidArgumentError, NoSuchStreamError):
        record, _ = await streams.confirmed.record(stream)  # perhaps another stream of the name
        return await _find_position(streams.confirmed, opener, stream, record, start)


async def _find_known_end(
    streams: StreamReads, opener: SegmentOpener, stream: str, config: ReaderConfig
) -> _Found:
    """Find the end, or the end that this region knows while the store is out of reach (STR-30).

    The latter may be too low. A single read that fails does not justify it: the search is repeated
    unless the record of the stream is served from old metadata, too. If that turns out to be of an
    earlier stream of the name, the search is repeated as well. Raises MetadataUnavailableError
    after ``unavailable_ms_max``.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + config.unavailable_ms_max / 1000
    while True:
        try:
            record, _ = await streams.confirmed.record(stream)
            return await _find_position(streams.confirmed, opener, stream, record, LATEST)
        except MetadataUnavailableError as error:
            failure = error
        record, age_ms = await streams.record_and_age(stream)
        if age_ms is not None:
            with suppress(NoSuchStreamError):  # the record is of an earlier stream of the name
                found = await _find_position(streams, opener, stream, record, LATEST, fresh=False)
                return found._replace(age_ms=age_ms)
        if loop.time() >= deadline:
            raise failure
        await asyncio.sleep(config.retry_ms / 1000)


async def _find_position(
    streams: StreamReads,
    opener: SegmentOpener,
    stream: str,
    record: StreamRecord,
    start: Start,
    *,
    fresh: bool = True,
) -> _Found:
    """Search once.

    A segment that is truncated or archived during the search may lose its ledger, and so does one
    of a stream that is deleted. The metadata shows this before the ledger is deleted, so the search
    is repeated on new metadata.
    """
    failures = 0
    while True:
        search = _Search(streams, opener, stream, record, fresh=fresh)
        try:
            position, first_txid = await search.find(start)
            return _Found(record, position, first_txid)
        except NoSuchLedgerError:
            failures += 1
            if failures == _SEARCHES_MAX:
                raise
        record = await streams.confirmed.check(stream, record.identity)


class _Search:
    """One search for a start position."""

    def __init__(
        self,
        streams: StreamReads,
        opener: SegmentOpener,
        stream: str,
        record: StreamRecord,
        *,
        fresh: bool = True,
    ) -> None:
        self._fresh = fresh
        self._streams = streams
        self._opener = opener
        self._stream = stream
        self._record = record

    async def find(self, start: Start) -> tuple[Dlsn, int]:
        """Return (position, lowest txid wanted or 0)."""
        if isinstance(start, Dlsn):
            if start.lssn < FIRST_LSSN:
                raise InvalidPositionError(
                    f"{start} is not a position: segment {start.lssn} is below {FIRST_LSSN}"
                )
            return start.in_stream(""), 0
        if isinstance(start, Earliest):
            return self._record.start, 0
        if isinstance(start, Latest):
            return await self._latest(), 0
        if isinstance(start, AtTxid):
            return await self._at_txid(start.txid)
        if isinstance(start, AtTime):
            return await self._at_time(start.created_ms), 0
        if isinstance(start, AtEventTime):
            return await self._at_time(start.event_ms - start.ahead_ms), 0
        return await self._at_sequence_id(start.sequence_id), 0

    async def _latest(self) -> Dlsn:
        lssn = (await self._streams.head(self._stream, self._record.stream_id))[0].last_lssn
        while lssn >= self._record.start.lssn:
            stored = await self._streams.segment(self._stream, lssn, self._record.stream_id)
            if stored is not None and not stored.segment.is_empty:
                last = await self._last_confirmed(stored.segment)
                if last >= 0 or stored.segment.is_completed:
                    return Dlsn(lssn, last + 1, 0)
            lssn -= 1  # a segment without entries: the one before it may still receive records
        return self._record.start

    async def _last_confirmed(self, segment: Segment) -> int:
        if segment.is_completed:
            return segment.last_entry_id
        handle = await self._opener.open(self._stream, segment)
        try:
            return await self._confirmed(handle)
        finally:
            await handle.aclose()

    async def _confirmed(self, handle: ReadableLedger) -> int:
        if handle.is_closed:
            return handle.last_add_confirmed
        return await handle.update_last_add_confirmed(fresh=self._fresh)

    async def _at_txid(self, txid: int) -> tuple[Dlsn, int]:
        segment, last_lssn = await self._first_segment(lambda done: done.last_txid >= txid)
        if segment is None:
            return Dlsn(last_lssn + 1, 0, 0), txid
        handle = await self._opener.open(self._stream, segment)
        try:
            entry_id = await self._first_entry(handle, lambda last: last.last_txid >= txid)
        finally:
            await handle.aclose()
        return max(Dlsn(segment.lssn, entry_id, 0), self._record.start), txid

    async def _at_time(self, ms: int) -> Dlsn:
        """Return the position of the first record created at ``ms`` or later (rule STR-39)."""
        first, last_lssn = await self._first_segment(lambda done: done.completed_ms >= ms)
        if first is None:
            return Dlsn(last_lssn + 1, 0, 0)
        search = Gallop(first.lssn, last_lssn + 1)
        while (lssn := search.probe) is not None:
            search.answer(holds=await self._has_time(lssn, first.lssn, ms))
        if search.found > last_lssn:
            return Dlsn(last_lssn + 1, 0, 0)
        stored = await self._streams.segment(self._stream, search.found, self._record.stream_id)
        if stored is None or stored.segment.is_empty:
            return max(Dlsn(search.found, 0, 0), self._record.start)
        handle = await self._opener.open(self._stream, stored.segment)
        try:
            low, high = 0, await self._confirmed(handle) + 1
            while low < high:
                middle = (low + high) // 2
                if await self._created_ms(handle, middle) >= ms:
                    high = middle
                else:
                    low = middle + 1
        finally:
            await handle.aclose()
        return max(Dlsn(search.found, low, 0), self._record.start)

    async def _has_time(self, lssn: int, first_lssn: int, ms: int) -> bool:
        """Return whether the segment, or one before it, may have a record created at ``ms`` or
        later. A segment in progress may get one."""
        while lssn >= first_lssn:
            stored = await self._streams.segment(self._stream, lssn, self._record.stream_id)
            if stored is not None and not stored.segment.is_completed:
                return True
            if stored is not None and not stored.segment.is_empty:
                handle = await self._opener.open(self._stream, stored.segment)
                try:
                    return await self._created_ms(handle, stored.segment.last_entry_id) >= ms
                finally:
                    await handle.aclose()
            lssn -= 1  # nothing is known about the time of an empty or purged segment
        return False

    async def _created_ms(self, handle: ReadableLedger, entry_id: int) -> int:
        """Return the creation time of an entry.

        Archives do not have the control records: the time of the data before them stands for
        theirs, and 0 if there is none in the segment.
        """
        record_sets = record_sets_of((await handle.read(entry_id, entry_id))[0])
        position = record_sets[-1].position
        for record_set in reversed(record_sets):
            if record_set.created_ms:
                return record_set.created_ms
        if position == 0:
            return 0
        before = await self._first_entry(handle, lambda last: _end_position(last) >= position)
        record_sets = record_sets_of((await handle.read(before, before))[0])
        return max(record_set.created_ms for record_set in record_sets)

    async def _at_sequence_id(self, wanted: int) -> Dlsn:
        if wanted < 0:
            raise InvalidArgumentError(f"sequence id {wanted} is below 0")
        segment, last_lssn = await self._first_segment(lambda done: done.end_sequence_id > wanted)
        if segment is None:
            raise self._beyond_end_error(wanted)
        inside = wanted - await self._sequence_before(segment)
        handle = await self._opener.open(self._stream, segment)
        try:
            entry_id = await self._first_entry(handle, lambda last: _end_position(last) > inside)
            if entry_id > handle.last_add_confirmed:
                if segment.lssn < last_lssn:
                    raise UnavailableError(
                        f"stream {self._stream}: segment {segment.lssn} is being completed"
                    )
                raise self._beyond_end_error(wanted)
            entry = (await handle.read(entry_id, entry_id))[0]
        finally:
            await handle.aclose()
        for record_set in record_sets_of(entry):
            if _end_position(record_set) > inside:
                return Dlsn(segment.lssn, entry_id, record_set.slot + inside - record_set.position)
        raise AssertionError("the entry was found by its end position")

    async def _sequence_before(self, segment: Segment) -> int:
        if segment.is_completed:
            return segment.start_sequence_id
        if segment.lssn == FIRST_LSSN:
            return 0
        before = await self._streams.segment(self._stream, segment.lssn - 1, segment.stream_id)
        if before is None or not before.segment.is_completed:
            raise UnavailableError(
                f"stream {self._stream}: the segment before {segment.lssn} is being completed"
            )
        return before.segment.end_sequence_id

    def _beyond_end_error(self, wanted: int) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"stream {self._stream}: no record has the sequence id {wanted} yet"
        )

    async def _first_segment(
        self, is_reached: Callable[[Segment], bool]
    ) -> tuple[Segment | None, int]:
        """Return the first segment that is in progress or ``is_reached``, and the last LSSN."""
        low = self._record.start.lssn
        last_lssn = (await self._streams.head(self._stream, self._record.stream_id))[0].last_lssn
        high = last_lssn + 1
        found: Segment | None = None
        while low < high:
            middle = (low + high) // 2
            stored = await self._streams.segment(self._stream, middle, self._record.stream_id)
            if stored is None:
                low = middle + 1  # truncated and purged meanwhile
            elif not stored.segment.is_completed or is_reached(stored.segment):
                found, high = stored.segment, middle
            else:
                low = middle + 1
        return found, last_lssn

    async def _first_entry(
        self, handle: ReadableLedger, is_reached: Callable[[RecordSet], bool]
    ) -> int:
        """Return the first entry whose last record set ``is_reached``; LAC + 1 if there is none."""
        low, high = 0, await self._confirmed(handle) + 1
        while low < high:
            middle = (low + high) // 2
            entry = (await handle.read(middle, middle))[0]
            if is_reached(record_sets_of(entry)[-1]):
                high = middle
            else:
                low = middle + 1
        return low


def _end_position(record_set: RecordSet) -> int:
    """Return the number of data records in the segment up to the end of this record set."""
    return record_set.position + record_set.positions

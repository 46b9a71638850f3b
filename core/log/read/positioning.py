"""Where reading starts: a position, a txid, a sequence id, the earliest or the latest record.

By txid and by sequence id it is a binary search over segments (their metadata is read only where
the search looks: about log2 of their number) and then over the entries of one segment.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ...protocol.dlsn import Dlsn
from ...protocol.errors import (
    InvalidArgumentError,
    NoSuchLedgerError,
    TruncatedError,
    UnavailableError,
)
from ...protocol.record_set import RecordSet, decode_entry
from ...protocol.segments import FIRST_LSSN, Segment
from ...runtime.tracing import Tracer
from ..config import ReaderConfig
from ..ledger_interface import ReadableLedger
from ..metadata.stream_metadata import StreamRecord
from ..metadata.stream_store import StreamStore
from .entry_source import EntrySource
from .segment_opener import SegmentOpener
from .stream_reader import StreamReader


@dataclass(frozen=True, slots=True)
class Earliest:
    """At the first record that is not truncated."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Behind the last record that is visible now."""


@dataclass(frozen=True, slots=True)
class AtTxid:
    """At the first record with at least this txid (which may come later)."""

    txid: int


@dataclass(frozen=True, slots=True)
class AtSequenceId:
    """At the record that has this many before it, truncated ones included."""

    sequence_id: int


Start = Earliest | Latest | AtTxid | AtSequenceId | Dlsn

EARLIEST = Earliest()
LATEST = Latest()

_SEARCHES_MAX = 16

OnTruncated = Callable[[Dlsn, Dlsn], None]
"""Called with the position that was wanted and the first active one."""


async def find_start(
    streams: StreamStore,
    opener: SegmentOpener,
    stream: str,
    record: StreamRecord,
    start: Start,
    *,
    config: ReaderConfig,
    on_truncated: OnTruncated | None,
    tracer: Tracer | None = None,
) -> StreamReader:
    """A reader at ``start``. Raises TruncatedError unless ``on_truncated`` is given."""
    record, position, first_txid = await _found(streams, opener, stream, record, start)
    if position < record.start:
        if not isinstance(start, Earliest):
            if on_truncated is None:
                raise TruncatedError(
                    f"stream {stream}: {position} was truncated, the first active position is "
                    f"{record.start}",
                    record.start,
                )
            on_truncated(position, record.start)
        position = record.start
    source = EntrySource(
        streams,
        opener,
        stream,
        identity=record.identity,
        lssn=position.lssn,
        entry_id=position.entry_id,
        config=config,
    )
    return StreamReader(
        source,
        stream=stream,
        config=config,
        first_slot=position.slot,
        first_txid=first_txid,
        find_end=lambda: find_end(streams, opener, stream),
        tracer=tracer,
    )


async def find_end(
    streams: StreamStore, opener: SegmentOpener, stream: str, *, fresh: bool = True
) -> Dlsn:
    """Behind the last entry that is confirmed now, as a quorum of bookies says.

    Not ``fresh``: as the first bookies say that answer. Raises NoSuchStreamError, and
    UnavailableErrors when too few can be asked.
    """
    record, _ = await streams.record(stream)
    return (await _found(streams, opener, stream, record, LATEST, fresh=fresh))[1]


async def _found(
    streams: StreamStore,
    opener: SegmentOpener,
    stream: str,
    record: StreamRecord,
    start: Start,
    *,
    fresh: bool = True,
) -> tuple[StreamRecord, Dlsn, int]:
    """(the stream's record when it was found, position, lowest txid wanted or 0).

    What is truncated or archived while it is searched may lose its ledger. A stream says so in its
    record, or in the segment, before that goes: the next search looks elsewhere.
    """
    failures = 0
    while True:
        search = _Search(streams, opener, stream, record, fresh=fresh)
        try:
            position, first_txid = await search.find(start)
            return record, position, first_txid
        except NoSuchLedgerError:
            failures += 1
            if failures == _SEARCHES_MAX:
                raise
        record = await streams.check(stream, record.identity)


class _Search:
    """One search for a position."""

    def __init__(
        self,
        streams: StreamStore,
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
        """(position, lowest txid wanted or 0)."""
        if isinstance(start, Dlsn):
            if start.lssn < FIRST_LSSN:
                raise InvalidArgumentError(f"no record is at {start}: segments count from 1")
            return start, 0
        if isinstance(start, Earliest):
            return self._record.start, 0
        if isinstance(start, Latest):
            return await self._latest(), 0
        if isinstance(start, AtTxid):
            return await self._at_txid(start.txid)
        return await self._at_sequence_id(start.sequence_id), 0

    async def _latest(self) -> Dlsn:
        lssn = (await self._streams.head(self._stream))[0].last_lssn
        while lssn >= self._record.start.lssn:
            stored = await self._streams.segment(self._stream, lssn)
            if stored is not None and not stored.segment.is_empty:
                last = await self._last_confirmed(stored.segment)
                if last >= 0 or stored.segment.is_completed:
                    return Dlsn(lssn, last + 1, 0)
            lssn -= 1  # a fresh segment: the predecessor may still get records
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

    async def _at_sequence_id(self, wanted: int) -> Dlsn:
        if wanted < 0:
            raise InvalidArgumentError(f"sequence ids count from 0, not {wanted}")
        segment, last_lssn = await self._first_segment(lambda done: done.end_sequence_id > wanted)
        if segment is None:
            raise self._beyond(wanted)
        inside = wanted - await self._sequence_before(segment)
        handle = await self._opener.open(self._stream, segment)
        try:
            entry_id = await self._first_entry(handle, lambda last: _end_position(last) > inside)
            if entry_id > handle.last_add_confirmed:
                if segment.lssn < last_lssn:
                    raise UnavailableError(
                        f"stream {self._stream}: segment {segment.lssn} is being completed"
                    )
                raise self._beyond(wanted)
            entry = (await handle.read(entry_id, entry_id))[0]
        finally:
            await handle.aclose()
        for one in decode_entry(entry.payload):
            if _end_position(one) > inside:
                return Dlsn(segment.lssn, entry_id, one.slot + inside - one.position)
        raise AssertionError("the entry was found by its end position")

    async def _sequence_before(self, segment: Segment) -> int:
        if segment.is_completed:
            return segment.start_sequence_id
        if segment.lssn == FIRST_LSSN:
            return 0
        before = await self._streams.segment(self._stream, segment.lssn - 1)
        if before is None or not before.segment.is_completed:
            raise UnavailableError(f"stream {self._stream}: segment {segment.lssn} is too new")
        return before.segment.end_sequence_id

    def _beyond(self, wanted: int) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"stream {self._stream}: no record has the sequence id {wanted} yet"
        )

    async def _first_segment(
        self, is_reached: Callable[[Segment], bool]
    ) -> tuple[Segment | None, int]:
        """The first segment that is in progress or reached, by binary search, and the last LSSN."""
        low = self._record.start.lssn
        last_lssn = (await self._streams.head(self._stream))[0].last_lssn
        high = last_lssn + 1
        found: Segment | None = None
        while low < high:
            middle = (low + high) // 2
            stored = await self._streams.segment(self._stream, middle)
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
        """The first entry whose last record set is reached; behind the last confirmed if none."""
        low, high = 0, await self._confirmed(handle) + 1
        while low < high:
            middle = (low + high) // 2
            entry = (await handle.read(middle, middle))[0]
            if is_reached(decode_entry(entry.payload)[-1]):
                high = middle
            else:
                low = middle + 1
        return low


def _end_position(one: RecordSet) -> int:
    """How many data records of the segment there are up to the end of this set."""
    return one.position + (0 if one.is_control else one.count)

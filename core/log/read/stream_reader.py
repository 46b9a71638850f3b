"""The stream reader: returns records or batches in order, without gaps and duplicates.

The reader decodes the entries of an ``EntrySource``, checks that positions are consecutive
(rule STR-13), and skips control records and records before the start. ``ReadAhead`` fetches
entries while there are any. A reader that is not iterated has no task and no timer at the tail.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from operator import length_hint

from ...protocol.dlsn import Dlsn, check_position, dlsn_in
from ...protocol.errors import (
    ClosedError,
    CorruptionError,
    EndOfStreamError,
    ForeignDataError,
    GapError,
    InvalidPositionError,
    MetadataUnavailableError,
    ReaderStalledError,
    RhumblineError,
    StreamIdleError,
)
from ...protocol.record_set import Kind, RecordSet
from ...runtime.tracing import Span, Tracer, TraceStep
from ..close_at_exit import ClosesAtExit
from ..config import ReaderConfig
from ..decoded_entry import record_sets_of
from .delivered_counts import DeliveredCounts
from .entry_source import Chunk, EntryFetcher
from .read_ahead import ReadAhead
from .record_batch import Record, RecordBatch


class StreamReader(ClosesAtExit):
    """Iterates a stream from a position on. ``Namespace.open_reader`` creates it.

    Use ``async for record in reader`` or ``async for batch in reader.batches()``; a caller may
    switch between the two at any record. Iteration waits at the tail and stops at the end of
    an ended stream. It raises TruncatedError (truncated while it was read), GapError,
    CorruptionError, NoSuchStreamError, and InvalidPositionError if the stream cannot have the
    position at which it was opened. After a transient error, including StreamIdleError and
    ReaderStalledError (with ``idle_ms_max``), iterating again continues at the same position.
    """

    def __init__(
        self,
        source: EntryFetcher,
        *,
        stream: str,
        stream_id: str = "",
        config: ReaderConfig | None = None,
        first_slot: int = 0,
        checks_slot: bool = False,
        first_txid: int = 0,
        first_created_ms: int = 0,
        first_event_ms: int | None = None,
        find_end: Callable[[], Awaitable[Dlsn]] | None = None,
        delivered: DeliveredCounts | None = None,
        tracer: Tracer | None = None,
        metadata_age_ms: int | None = None,
    ) -> None:
        """``find_end`` returns the end confirmed by a quorum. ``idle_ms_max`` uses it.

        ``checks_slot``: a caller gave ``first_slot``, and the entry may have fewer slots.
        """
        config = config or ReaderConfig()
        self.stream = stream
        self.stream_id = stream_id
        """The id of the stream, which positions carry."""
        self.metadata_age_ms = metadata_age_ms
        """The age of the metadata with which LATEST was found, if the metadata store was out of
        reach: the reader then begins at an earlier end. Else None."""
        self._source = source
        # Lower slots are skipped, in this entry only.
        self._first_entry = (source.lssn, source.entry_id)
        self._first_slot = first_slot
        self._checks_slot = checks_slot
        # Records with lower txids are skipped, up to the first other record.
        self._first_txid = first_txid
        # The same for earlier creation times, and for earlier event times.
        self._first_created_ms = first_created_ms
        self._first_event_ms = first_event_ms
        self._batches: deque[RecordBatch] = deque()
        self._current: RecordBatch | None = None  # the last batch that was taken
        self._records: Iterator[Record] = iter(())  # its records that were not returned yet
        self._expected: tuple[int, int] | None = None  # (lssn, position) of the next record set
        self._failure: RhumblineError | None = None  # occurred after _batches
        self._next_dlsn = Dlsn(source.lssn, source.entry_id, first_slot)
        self._fetched_to = Dlsn(source.lssn, source.entry_id, 0)  # everything below was fetched
        self._is_ended = False
        self._is_closed = False
        self._idle_ms_max = config.idle_ms_max
        self._find_end = find_end
        self._delivered = delivered or DeliveredCounts()
        self._tracer = tracer
        self._processing: Span | None = None  # of the batch that the application has
        self._read_ahead = ReadAhead(source, bytes_max=config.read_ahead_bytes_max, name=stream)

    @property
    def position(self) -> Dlsn:
        """The position after the last record or batch that was returned.

        A reader that is opened at this position continues without gaps and duplicates.
        """
        end = self._next_dlsn
        slot = end.slot - length_hint(self._records)
        return dlsn_in(self.stream_id, end.lssn, end.entry_id, slot)

    def confirmed_position(self) -> Dlsn:
        """Return the position, which may be stored as the start of a subscription.

        Raises MetadataUnavailableError if it is an end that only old metadata knows.
        """
        if self.metadata_age_ms is not None:
            raise MetadataUnavailableError(
                f"stream {self.stream}: the metadata store is out of reach, and its end may be "
                f"after {self.position}, which was known {self.metadata_age_ms} ms ago"
            )
        return self.position

    @property
    def source(self) -> EntryFetcher:
        """The source of the entries, for callers that forward entries undecoded."""
        return self._source

    # --- by record ------------------------------------------------------------------------------

    def __aiter__(self) -> "StreamReader":
        """Return the reader itself."""
        return self

    async def __anext__(self) -> Record:
        """Return the next record. Waits at the tail."""
        for record in self._records:
            return record
        while True:
            batch = await self.next_batch()
            if batch is None:
                raise StopAsyncIteration
            self._records = iter(batch.records())
            for record in self._records:
                return record

    # --- by batch -------------------------------------------------------------------------------

    async def batches(self) -> AsyncIterator[RecordBatch]:
        """Yield the batches from the current position to the end of the stream."""
        while (batch := await self.next_batch()) is not None:
            yield batch

    async def next_batch(self, *, until: Dlsn | None = None) -> RecordBatch | None:
        """Return the next batch, which is never empty, or None at the end of an ended stream.

        If only some records of a batch were read by record, it returns the others. Waits at the
        tail. With ``until``, it returns None instead of waiting once everything below
        that position was returned; the ``position`` of a reader opened at LATEST is a suitable
        value. Cancelling loses nothing. Raises InvalidPositionError if ``until`` is a position of
        another stream.
        """
        if until is not None:
            check_position(until).check_stream(self.stream, self.stream_id)
        while (batch := self.try_next_batch()) is None:
            if self._is_closed:
                raise ClosedError(f"the reader of {self.stream} is closed")
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._is_ended or (until is not None and self._fetched_to >= until):
                return None
            try:
                self._decode(await self._next_chunk())
            except EndOfStreamError:
                self._is_ended = True
        return batch

    async def _next_chunk(self) -> Chunk:
        if self._idle_ms_max is None:
            return await self._read_ahead.next()
        try:
            async with asyncio.timeout(self._idle_ms_max / 1000):
                return await self._read_ahead.next()
        except TimeoutError:
            error = await self._idle_error(self._idle_ms_max)
        raise error

    async def _idle_error(self, idle_ms: int) -> RhumblineError:
        message = f"stream {self.stream}: no entry arrived at {self._fetched_to} for {idle_ms} ms"
        if self._find_end is None:
            return ReaderStalledError(f"{message}; the cause is unknown")
        try:
            async with asyncio.timeout(idle_ms / 1000):
                end = await self._find_end()
        except (RhumblineError, TimeoutError) as error:
            stalled = ReaderStalledError(f"{message}; it is unknown whether there are more entries")
            stalled.__cause__ = error
            return stalled
        if end > self._fetched_to:
            return ReaderStalledError(f"{message}, although everything below {end} is confirmed")
        return StreamIdleError(f"{message}; a quorum of bookies has no further entry")

    def try_next_batch(self) -> RecordBatch | None:
        """Return the next batch if it is available without waiting, else None."""
        unread = length_hint(self._records)
        self._records = iter(())
        if not unread:
            self._end_processing()
        else:
            assert self._current is not None
            return self._current.without_first(len(self._current) - unread)
        return self._pop_batch() if self._batches else None

    def _pop_batch(self) -> RecordBatch:
        batch = self._current = self._batches.popleft()
        end = batch.record_set.slot + batch.record_set.count
        self._next_dlsn = Dlsn(batch.lssn, batch.entry_id, end)
        self._delivered.records += len(batch)
        if batch.delivery is not None and self._tracer is not None:
            batch.delivery.end()
            self._processing = self._follow(batch, self._tracer, TraceStep.PROCESS)
        return batch

    def _end_processing(self) -> None:
        if self._processing is not None:
            self._processing.end()
            self._processing = None

    def _decode(self, chunk: Chunk) -> None:
        """Decode a chunk. An error is raised only after everything before it was returned."""
        if not chunk.entries:
            self._fetched_to = max(self._fetched_to, Dlsn(chunk.lssn, 0, 0))
        elif self._first_slot and (chunk.lssn, chunk.entries[0].entry_id) != self._first_entry:
            # The segment ended before that entry.
            self._first_slot, self._checks_slot = 0, False
        try:
            for entry in chunk.entries:
                for record_set in record_sets_of(entry):
                    self._add_set(chunk, entry.entry_id, record_set)
                if self._checks_slot:
                    self._check_first_slot(chunk.lssn, entry.entry_id, record_set)
                    self._checks_slot = False
                self._first_slot = 0
                self._fetched_to = Dlsn(chunk.lssn, entry.entry_id + 1, 0)
                if self._is_ended:
                    return
        except InvalidPositionError as error:
            self._failure = error
        except (CorruptionError, ForeignDataError, GapError) as error:
            error.add_note(f"stream {self.stream}, segment {chunk.lssn}, entry {entry.entry_id}")
            self._failure = error

    def _check_first_slot(self, lssn: int, entry_id: int, last: RecordSet) -> None:
        """Raise InvalidPositionError if the entry ends before the start (rule STR-32)."""
        end = last.slot + last.count
        if self._first_slot > end:
            raise InvalidPositionError(
                f"stream {self.stream} has no position {lssn}:{entry_id}:{self._first_slot}: the "
                f"entry has {end} slots"
            )

    def _add_set(self, chunk: Chunk, entry_id: int, record_set: RecordSet) -> None:
        expected = self._expected
        if expected is None or expected[0] != chunk.lssn:
            # The first set of a segment has position 0, unless reading began inside the segment.
            began_inside = expected is None and (entry_id, record_set.slot) != (0, 0)
            expected = (chunk.lssn, record_set.position if began_inside else 0)
        if record_set.position != expected[1]:
            raise GapError(
                f"got the record set at position {record_set.position}, expected {expected[1]}"
            )
        if record_set.kind == Kind.END_OF_STREAM:
            self._is_ended = True
        if record_set.is_control:
            self._expected = (chunk.lssn, record_set.position + record_set.positions)
            return
        self._expected = (chunk.lssn, record_set.position + record_set.count)
        first = self._first_wanted(record_set)
        if first < record_set.count:
            batch = RecordBatch(
                chunk.lssn,
                entry_id,
                record_set,
                first_index=first,
                start_sequence_id=chunk.start_sequence_id,
                stream_id=self.stream_id,
            )
            if record_set.extension and self._tracer is not None:
                self._trace(batch, self._tracer)
            self._batches.append(batch)

    def _trace(self, batch: RecordBatch, tracer: Tracer) -> None:
        batch.delivery = self._follow(batch, tracer, TraceStep.DELIVER)

    def _follow(self, batch: RecordBatch, tracer: Tracer, step: TraceStep) -> Span | None:
        """Return a span that follows from the producer's, if the set is traced."""
        producer = batch.traceparent
        if producer is None:
            return None
        return tracer.follow(
            step,
            (producer,),
            stream=self.stream,
            dlsn=str(batch.first_dlsn),
            records=len(batch),
        )

    def _first_wanted(self, record_set: RecordSet) -> int:
        first = min(max(0, self._first_slot - record_set.slot), record_set.count)
        if self._first_txid:
            if record_set.last_txid < self._first_txid:
                return record_set.count
            first = max(first, record_set.first_at_txid(self._first_txid))
            self._first_txid = 0
        if self._first_created_ms:
            if record_set.created_ms < self._first_created_ms:
                return record_set.count
            self._first_created_ms = 0
        if self._first_event_ms is not None:
            first = max(first, first_at_event_time(record_set, self._first_event_ms))
            if first < record_set.count:
                self._first_event_ms = None
        return first

    # --- closing --------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Stop fetching and release the ledger. Safe to repeat."""
        self._is_closed = True
        self._end_processing()
        await self._read_ahead.aclose()
        await self._source.aclose()

    async def _close_at_exit(self) -> None:
        await self.aclose()


def first_at_event_time(record_set: RecordSet, event_ms: int) -> int:
    """Return the index of the first record with this event time or a later one; count if none.

    The creation time stands for an event time that is absent. Raises CorruptionError.
    """
    created_ms, attributes = record_set.created_ms, record_set.attributes
    if attributes is None:
        return 0 if created_ms >= event_ms else record_set.count
    for index, time_ms in enumerate(attributes.event_times()):
        if (created_ms if time_ms is None else time_ms) >= event_ms:
            return index
    return record_set.count

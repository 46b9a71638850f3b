"""The reader of a stream: records or batches, in order, none missing, none twice.

Between the application and ``EntrySource`` it decodes, checks that positions join, skips control
records and what lies before the start; ``ReadAhead`` fetches while there is something to fetch.
An idle reader that nobody iterates has no task and no timer.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from operator import length_hint
from types import TracebackType

from ...protocol.dlsn import Dlsn
from ...protocol.errors import (
    ClosedError,
    CorruptionError,
    EndOfStreamError,
    GapError,
    ReaderStalledError,
    RhumblineError,
    StreamIdleError,
)
from ...protocol.record_set import Kind, RecordSet, decode_entry
from ...runtime.tracing import Tracer, TraceStep
from ..config import ReaderConfig
from .entry_source import Chunk, Entries
from .read_ahead import ReadAhead
from .record_batch import Record, RecordBatch


class StreamReader:
    """Iterates a stream from a position on; made by ``Namespace.open_reader``.

    ``async for record in reader`` or ``async for batch in reader.batches()``; the two may be mixed
    at the borders of batches. Ends cleanly at the end of an ended stream; at the tail it waits.
    Errors: TruncatedError (truncated while it was read), GapError, CorruptionError,
    NoSuchStreamError; and after errors that may pass (with ``idle_ms_max`` StreamIdleError and
    ReaderStalledError are among them), iterating again goes on where it was.
    """

    def __init__(
        self,
        source: Entries,
        *,
        stream: str,
        config: ReaderConfig | None = None,
        first_slot: int = 0,
        first_txid: int = 0,
        find_end: Callable[[], Awaitable[Dlsn]] | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """``find_end``: the end of what is confirmed, as a quorum says; for ``idle_ms_max``."""
        config = config or ReaderConfig()
        self.stream = stream
        self._source = source
        self._first_slot = first_slot  # skip lower slots, in the first entry only
        self._first_txid = first_txid  # skip records with lower txids, until the first other one
        self._batches: deque[RecordBatch] = deque()
        self._records: Iterator[Record] = iter(())  # of the batch that was begun
        self._joins_at: tuple[int, int] | None = None  # (lssn, position) that must come next
        self._failure: RhumblineError | None = None  # met behind what waits in _batches
        self._next_dlsn = Dlsn(source.lssn, source.entry_id, first_slot)
        self._taken = Dlsn(source.lssn, source.entry_id, 0)  # what is below was fetched
        self._is_ended = False
        self._is_closed = False
        self._idle_ms_max = config.idle_ms_max
        self._find_end = find_end
        self._tracer = tracer
        self._ahead = ReadAhead(source, bytes_max=config.read_ahead_bytes_max, name=stream)

    @property
    def position(self) -> Dlsn:
        """Where reading goes on: behind the last record (or batch) that was given out.

        Store it and open a reader there to come back: nothing is skipped or given twice.
        """
        end = self._next_dlsn
        return Dlsn(end.lssn, end.entry_id, end.slot - length_hint(self._records))

    @property
    def source(self) -> Entries:
        """Where its entries come from, for who passes them on undecoded instead of iterating."""
        return self._source

    # --- by record ------------------------------------------------------------------------------

    def __aiter__(self) -> "StreamReader":
        """The reader itself."""
        return self

    async def __anext__(self) -> Record:
        """The next record. Waits at the tail."""
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
        """The batches from here on; ends at the end of the stream."""
        while (batch := await self.next_batch()) is not None:
            yield batch

    async def next_batch(self, *, until: Dlsn | None = None) -> RecordBatch | None:
        """The next batch, never empty; None at the end of an ended stream. Waits at the tail.

        With ``until`` also None, rather than waiting, once everything below it was given (a reader
        at LATEST has such a position). Cancelling loses nothing.
        """
        while not self._batches:
            if self._is_closed:
                raise ClosedError(f"the reader of {self.stream} is closed")
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._is_ended or (until is not None and self._taken >= until):
                return None
            try:
                self._take(await self._next_chunk())
            except EndOfStreamError:
                self._is_ended = True
        return self._given()

    async def _next_chunk(self) -> Chunk:
        if self._idle_ms_max is None:
            return await self._ahead.next()
        try:
            async with asyncio.timeout(self._idle_ms_max / 1000):
                return await self._ahead.next()
        except TimeoutError:
            silence = await self._why_idle(self._idle_ms_max)
        raise silence

    async def _why_idle(self, idle_ms: int) -> RhumblineError:
        silence = f"stream {self.stream}: nothing came for {idle_ms} ms at {self._taken}"
        if self._find_end is None:
            return ReaderStalledError(f"{silence}, and nobody here can tell why")
        try:
            async with asyncio.timeout(idle_ms / 1000):
                end = await self._find_end()
        except (RhumblineError, TimeoutError) as error:
            stalled = ReaderStalledError(f"{silence}, and whether there is more is unknown")
            stalled.__cause__ = error
            return stalled
        if end > self._taken:
            return ReaderStalledError(f"{silence}, though what is below {end} is confirmed")
        return StreamIdleError(f"{silence}, and a quorum says that there is nothing")

    def try_next_batch(self) -> RecordBatch | None:
        """The next batch if it is at hand already, without waiting; else None."""
        return self._given() if self._batches else None

    def _given(self) -> RecordBatch:
        batch = self._batches.popleft()
        end = batch.record_set.slot + batch.record_set.count
        self._next_dlsn = Dlsn(batch.lssn, batch.entry_id, end)
        self._records = iter(())
        if batch.delivery is not None:
            batch.delivery.end()
        return batch

    def _take(self, chunk: Chunk) -> None:
        """Decodes; a fault is raised only after everything before it was given out."""
        if not chunk.entries:
            self._taken = max(self._taken, Dlsn(chunk.lssn, 0, 0))
        try:
            for entry in chunk.entries:
                for one in decode_entry(entry.payload):
                    self._take_set(chunk, entry.entry_id, one)
                self._first_slot = 0
                self._taken = Dlsn(chunk.lssn, entry.entry_id + 1, 0)
                if self._is_ended:
                    return
        except (CorruptionError, GapError) as error:
            error.add_note(f"stream {self.stream}, segment {chunk.lssn}, entry {entry.entry_id}")
            self._failure = error

    def _take_set(self, chunk: Chunk, entry_id: int, one: RecordSet) -> None:
        known = self._joins_at
        if known is None or known[0] != chunk.lssn:
            # The first set that is seen of a segment: position 0, unless reading began inside.
            begun_inside = known is None and (entry_id, one.slot) != (0, 0)
            known = (chunk.lssn, one.position if begun_inside else 0)
        if one.position != known[1]:
            raise GapError(f"records {known[1]} to {one.position} of the segment are missing")
        if one.kind == Kind.END_OF_STREAM:
            self._is_ended = True
        if one.kind != Kind.DATA:
            self._joins_at = known
            return
        self._joins_at = (chunk.lssn, one.position + one.count)
        first = self._first_wanted(one)
        if first < one.count:
            batch = RecordBatch(
                chunk.lssn,
                entry_id,
                one,
                first_index=first,
                start_sequence_id=chunk.start_sequence_id,
            )
            if one.extension and self._tracer is not None:
                self._trace(batch, self._tracer)
            self._batches.append(batch)

    def _trace(self, batch: RecordBatch, tracer: Tracer) -> None:
        producer = batch.traceparent
        if producer is not None:
            batch.delivery = tracer.follow(
                TraceStep.DELIVER,
                (producer,),
                stream=self.stream,
                dlsn=str(batch.first_dlsn),
                records=len(batch),
            )

    def _first_wanted(self, one: RecordSet) -> int:
        first = min(max(0, self._first_slot - one.slot), one.count)
        if self._first_txid:
            if one.last_txid < self._first_txid:
                return one.count
            first = max(first, one.first_at_txid(self._first_txid))
            self._first_txid = 0
        return first

    # --- closing --------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Stops fetching and releases the ledger. Safe to repeat."""
        self._is_closed = True
        await self._ahead.aclose()
        await self._source.aclose()

    async def __aenter__(self) -> "StreamReader":
        """The reader itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes."""
        await self.aclose()

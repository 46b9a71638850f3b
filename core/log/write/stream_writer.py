"""The writer of a stream, as applications see it: buffers records and hands out light awaitables.

Invariants:

1. The visible records of a session are a prefix of what it sent.
2. A record is reported as failed for certain only if it never left, or its ledger was closed
   without it. Otherwise the error is AppendOutcomeUnknownError.
3. After StreamLostError nothing is sent any more, ever; open another writer.
4. Txids never fall from record to record.
5. An idle writer has no task and no timer (its alarm is one of many behind one timer).

The fast path of ``append`` is one look at the buffer, one list append and one small object; entries
and everything rarer are in ``pipeline`` and ``transition``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType

from ...protocol.errors import (
    ClosedError,
    EndOfStreamError,
    InvalidArgumentError,
    InvariantBrokenError,
    RecordTooLargeError,
    RhumblineError,
    TooManyRequestsError,
)
from ...protocol.record_set import NO_PRODUCER, TXID_FIRST, Kind, Producer, encode_record_set
from ...protocol.trace_context import trace_extension
from ...runtime.runtime import Runtime
from ...runtime.tracing import Span, TraceStep
from ..config import WriterConfig
from ..log_context import LogContext
from ..policy import StreamPolicy
from .append_validation import as_bytes, check_txid, check_txids, checked_set, cut, too_large
from .batch import NO_BATCH, RECORD_OVERHEAD_BYTES, Append, AppendMany, Batch
from .buffer import Buffer
from .dedup_table import DeduplicationTable, Sent
from .keepalive import Keepalive
from .pipeline import Pipeline
from .segment_chain import OpenSegment, SegmentChain
from .segment_roll import SegmentRoll
from .writer_close import close, leave


class StreamWriter:
    """Writes one stream; made by ``Namespace.open_writer``, which fences the predecessor.

    For one event loop. ``async with`` closes it.
    """

    def __init__(
        self,
        runtime: Runtime,
        chain: SegmentChain,
        segment: OpenSegment,
        *,
        stream: str,
        policy: StreamPolicy,
        producers: DeduplicationTable,
        read_policy: Callable[[], Awaitable[StreamPolicy]],
        config: WriterConfig,
        shared: LogContext,
    ) -> None:
        completed = chain.last_completed
        self.stream = stream
        self.last_txid = 0 if completed is None else completed.last_txid
        """Txid of the newest record, appended here or found at opening; 0 if there is none."""
        self._clock = runtime.clock
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._record_bytes_max = policy.record_bytes_max
        self._refusal: RhumblineError | None = None
        self._producers = producers
        self._pipeline = Pipeline(self, segment, policy, config, producers, shared)
        self._pipeline.last_txid = self.last_txid
        self._buffer = Buffer(self._pipeline, self.wall_ms, stream, runtime.tracer)
        self._tracer = runtime.tracer
        self._transition = SegmentRoll(chain, self._pipeline, config, read_policy, self._on_bug)
        self._closing: asyncio.Task[None] | None = None
        self._care = Keepalive(self._pipeline, self, shared.alarms)
        self._care.set_alarm()

    # --- appending ------------------------------------------------------------------------------

    def append(self, payload: bytes, txid: int | None = None) -> Append:
        """Appends a record and returns at once; await the result for its position.

        ``txid`` may not be below the last one; None gives one of about now (all records of one
        entry may share it). Raises, and then nothing happened: RecordTooLargeError,
        TxidOutOfOrderError, InvalidArgumentError, TooManyRequestsError (too much is outstanding:
        await ``room()`` or earlier appends), StreamLostError, EndOfStreamError, ClosedError.
        Awaiting raises StreamLostError and others (certainly not appended) or
        AppendOutcomeUnknownError (a repeat may double the record).
        """
        batch = self._buffer.open
        if txid is None and payload.__class__ is bytes:
            size = len(payload)
            room = batch.room - size - RECORD_OVERHEAD_BYTES
            if room >= 0 and size <= self._record_bytes_max:
                batch.room = room
                payloads = batch.payloads
                ticket = Append(batch, len(payloads))
                payloads.append(payload)
                return ticket
        return self._append(payload, txid)

    def _append(self, payload: bytes, txid: int | None) -> Append:
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        if len(payload) > self._record_bytes_max:
            raise too_large(len(payload), self._record_bytes_max)
        if txid is not None:
            check_txid(self.stream, txid, self.last_txid)
        size = len(payload) + RECORD_OVERHEAD_BYTES
        open_batch = self._buffer.open
        if open_batch is NO_BATCH or open_batch.free_bytes() < size:
            self._check_open()
        batch = self._buffer.of_records(size, self._default_txid() if txid is None else txid)
        if txid is not None:
            batch.take_txids((txid,))
        elif batch.txids is not None:
            batch.take_txids((self._default_txid(),))
        self.last_txid = batch.last_txid
        ticket = Append(batch, len(batch.payloads))
        batch.payloads.append(payload)
        return ticket

    def append_many(
        self, payloads: Sequence[bytes], txids: Sequence[int] | None = None
    ) -> AppendMany:
        """Appends records in order, with far less work for each than ``append``.

        All or none are taken (same errors as ``append``); they may come to lie in several entries,
        so that after a failure the first of them may be in the stream and the rest not.
        """
        count = len(payloads)
        if count == 0:
            raise InvalidArgumentError("append_many needs at least one record")
        if set(map(type, payloads)) != {bytes}:
            payloads = [as_bytes(payload) for payload in payloads]
        total = sum(map(len, payloads))
        if total > self._record_bytes_max and max(map(len, payloads)) > self._record_bytes_max:
            raise too_large(max(map(len, payloads)), self._record_bytes_max)
        total += count * RECORD_OVERHEAD_BYTES
        if total > self._config.outstanding_bytes_max:
            raise RecordTooLargeError(
                f"{count} records of {total} bytes in one call are above "
                f"outstanding_bytes_max={self._config.outstanding_bytes_max}"
            )
        if txids is not None:
            check_txids(self.stream, txids, count, self.last_txid)
        self._check_open()
        flush_bytes = self._pipeline.policy.flush.bytes_max
        if total <= flush_bytes or count == 1:
            return AppendMany([self._extend(payloads, txids, total)])
        spans = []
        for first, stop, size in cut(payloads, flush_bytes, self._buffer.record_room()):
            given = None if txids is None else txids[first:stop]
            spans.append(self._extend(payloads[first:stop], given, size))
        return AppendMany(spans)

    def _extend(
        self, payloads: Sequence[bytes], txids: Sequence[int] | None, size: int
    ) -> tuple[Batch, int, int]:
        """Puts records that fit one buffer into one; (it, index of the first, count)."""
        first_txid = self._default_txid() if txids is None else txids[0]
        batch = self._buffer.of_records(size, first_txid)
        span = (batch, len(batch.payloads), len(payloads))
        if txids is not None:
            batch.take_txids(txids)
        elif batch.txids is not None:
            batch.take_txids([self._default_txid()] * len(payloads))
        batch.payloads.extend(payloads)
        self.last_txid = batch.last_txid
        return span

    def append_set(
        self, encoded: bytes, *, keeps_txids: bool = False, trace: str | None = None
    ) -> AppendMany:
        """Appends a record set that somebody else made, as it is; entries gather several of them.

        Its records get one txid of about now, or keep their own (``keeps_txids``), which may not
        be below the last one. If its producer numbers its sets, a set that is in the stream or on
        its way already is not appended again: the result is that of the first time. ``trace`` names
        the span that the entry follows from.

        Raises, beside what ``append`` raises: CorruptionError, DuplicateRecordError (in the
        stream, position no longer known), SequenceGapError.
        """
        self._check_open()
        if encoded.__class__ is not bytes:
            encoded = as_bytes(encoded)
        one = checked_set(encoded, self._record_bytes_max)
        numbered = one.producer != NO_PRODUCER
        if numbered:
            known = self._producers.known(one.producer, one.first_sequence, one.count)
            if known is not None:
                return known
        if keeps_txids:
            one.txids()  # raises if they do not rise
            check_txid(self.stream, one.first_txid, self.last_txid)
            first, last = one.first_txid, one.last_txid
        elif one.txids_view() is not None:
            raise InvalidArgumentError("the set has txids of its own; keep them or leave them out")
        else:
            first = last = self._default_txid()
        batch = self._buffer.of_sets(len(encoded), first)
        slot = batch.count
        batch.sets.append((encoded, one.count, None if keeps_txids else first))
        batch.count += one.count
        if trace is not None:
            batch.traces.append(trace)
        batch.last_txid = self.last_txid = last
        if numbered:
            now = self._clock.wall_ms()
            sent = Sent(one.producer, one.first_sequence, one.count, now, batch, slot)
            batch.producers.append(sent)
            self._producers.take(sent)
        return AppendMany([(batch, slot, one.count)])

    def append_numbered(
        self, producer: bytes, first_sequence: int, payloads: Sequence[bytes]
    ) -> AppendMany:
        """Appends records that ``producer`` (16 bytes) numbers from ``first_sequence`` on.

        The same call may be repeated after any failure, here or with a later writer of the stream:
        the records are in the stream once. Errors as ``append_set``.
        """
        if len(producer) != len(NO_PRODUCER) or producer == NO_PRODUCER or first_sequence < 0:
            raise InvalidArgumentError(
                "a producer id is 16 bytes, not all zero; sequences count from 0"
            )
        if not payloads:
            raise InvalidArgumentError("append_numbered needs at least one record")
        span = None
        if self._tracer is not None:
            span = self._tracer.sample(TraceStep.APPEND, stream=self.stream)
        encoded = encode_record_set(
            [as_bytes(payload) for payload in payloads],
            first_txid=TXID_FIRST,
            last_txid=TXID_FIRST,
            created_ms=self._clock.wall_ms(),
            producer=Producer(producer, first_sequence),
            codec=self._pipeline.policy.codec,
            extension=b"" if span is None else trace_extension(span.traceparent),
        )
        return self.append_set(encoded) if span is None else self._append_traced(encoded, span)

    def _append_traced(self, encoded: bytes, span: Span) -> AppendMany:
        try:
            ticket = self.append_set(encoded, trace=span.traceparent)
        except RhumblineError as error:
            span.end(error)
            raise
        ticket.on_done(partial(_end_span, span, ticket))
        return ticket

    @property
    def failure(self) -> RhumblineError | None:
        """Why it takes nothing more, ever: failed, ended or closed; None while it is open."""
        return self._refusal

    def last_sequence(self, producer: bytes) -> int | None:
        """The last sequence of ``producer`` that was accepted, here or before; None if unknown."""
        return self._producers.last_sequence(producer)

    def _default_txid(self) -> int:
        return max(self.last_txid, self._clock.wall_ms(), TXID_FIRST)

    # --- waiting and closing --------------------------------------------------------------------

    async def room(self) -> None:
        """Waits until little enough is outstanding for more appends; for producers that do not
        await each record. Raises what ``append`` would."""
        limit = self._config.outstanding_bytes_max // 2
        pipeline = self._pipeline
        if pipeline.outstanding_bytes > limit:
            await pipeline.wait_until(
                lambda: pipeline.outstanding_bytes <= limit or self._refusal is not None
            )
        self._check_open()

    async def flush(self) -> None:
        """Sends what is buffered and waits until every record appended so far is acknowledged.

        Raises the failure of the first one that was not. A repeat is safe.
        """
        self._buffer.submit()
        for queue in (self._pipeline.queue, self._pipeline.in_flight, self._pipeline.unresolved):
            if queue:
                await Append(queue[-1], 0)
                return
        if self._pipeline.failure is not None:
            raise self._pipeline.failure

    async def end_stream(self) -> None:
        """Ends the stream for good, behind all records appended so far, and closes the writer.

        Readers end there. Raises the failure of the first record, or of the end, that was not
        acknowledged; then open another writer and look.
        """
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        self._refusal = EndOfStreamError(f"stream {self.stream} was ended")
        self._care.stop()
        self._buffer.submit()
        end = Batch(0, self.last_txid, self._clock.wall_ms(), Kind.END_OF_STREAM)
        self._pipeline.submit(end)
        await Append(end, 0)
        await self.close()

    async def close(self) -> None:
        """Waits until all records are acknowledged (or failed: their awaitables say so), then
        closes and completes the segment.

        Raises the writer's failure if it failed, and when the segment's end could not be recorded;
        nothing acknowledged is lost by that, the next writer records it. Safe to repeat, and to
        cancel: closing goes on.
        """
        if self._closing is None:
            self._refusal = self._refusal or ClosedError(f"the writer of {self.stream} is closed")
            self._care.stop()
            self._buffer.submit()
            closing = close(self._pipeline, self._transition, self._config, self.abort, self.stream)
            self._closing = self._loop.create_task(closing, name=f"close {self.stream}")
            self._closing.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._closing)

    async def abort(self) -> None:
        """Stops at once, as a crash would: what is not acknowledged has an unknown outcome."""
        self._refusal = self._refusal or ClosedError(f"the writer of {self.stream} is closed")
        self._pipeline.stop()
        self._pipeline.fail(self._refusal)
        self._pipeline.abandon()
        self._buffer.stop()
        self._care.stop()
        await self._transition.aclose()

    async def __aenter__(self) -> "StreamWriter":
        """The writer itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes; an error of closing never hides the one that ends the block."""
        await leave(self.close, error)

    # --- what the pipeline tells ----------------------------------------------------------------

    def wall_ms(self) -> int:
        """Time of day."""
        return self._clock.wall_ms()

    @property
    def is_buffering(self) -> bool:
        """Whether records wait in the buffer that will leave by themselves."""
        return self._buffer.is_waiting

    def on_can_send(self) -> None:
        """The pipeline has room for an entry."""
        self._buffer.on_can_send()

    def on_segment_begun(self) -> None:
        """Entries go to another segment: it has times of its own."""
        if self._refusal is None:
            self._care.set_alarm()

    def on_segment_over(self) -> None:
        """The segment is full, too old, or its ledger failed."""
        self._transition.begin()

    def on_failed(self, failure: RhumblineError) -> None:
        """Nothing will be sent any more: the buffer fails for certain."""
        self._refusal = self._refusal or failure
        self._care.stop()
        self._buffer.submit()

    def _on_bug(self, error: BaseException) -> None:
        broken = InvariantBrokenError(f"stream {self.stream}: {error!r}")
        broken.__cause__ = error
        self._pipeline.fail(broken)

    # --- checks ---------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        if self._pipeline.outstanding_bytes >= self._config.outstanding_bytes_max:
            raise TooManyRequestsError(
                f"stream {self.stream}: {self._pipeline.outstanding_bytes} bytes are not yet "
                "acknowledged; await room() before appending more"
            )


def _end_span(span: Span, ticket: AppendMany) -> None:
    try:
        regions = ticket.result().regions
    except RhumblineError as error:
        span.end(error)
    else:
        span.end(regions=regions)

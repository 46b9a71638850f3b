"""The stream writer: the API for appending records to a stream.

Invariants:

1. The visible records of a writer session are a prefix of the records that it sent (rule STR-10).
2. A record is reported as not appended only if it was never sent, or if its ledger was closed
   without it. Otherwise the error is AppendOutcomeUnknownError (rule STR-10).
3. After StreamLostError the writer never sends anything again; open another writer (rule STR-4).
4. Txids never fall from record to record (rule STR-14).
5. An idle writer has no separate task or event loop timer; see ``shared_timer``.

The fast path of ``append`` is one check of the open batch, one list append and one small object.
Entries are sent by ``pipeline``, and everything less frequent is in ``segment_roll``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ...protocol.attributes.attribute_columns import attribute_builder
from ...protocol.attributes.attribute_values import Attributes, Headers
from ...protocol.dlsn import Dlsn, check_position
from ...protocol.errors import (
    ClosedError,
    EndOfStreamError,
    InvalidArgumentError,
    InvariantBrokenError,
    RecordTooLargeError,
    RhumblineError,
    TooManyRequestsError,
)
from ...protocol.record_set import (
    NO_PRODUCER,
    TXID_FIRST,
    Kind,
    Producer,
    RecordSet,
    encode_record_set,
)
from ...runtime.runtime import Runtime
from ...runtime.trace_context import trace_extension
from ...runtime.tracing import Span, TraceStep
from ..close_at_exit import ClosesAtExit
from ..config import WriterConfig
from ..log_context import LogContext
from ..policy import StreamPolicy
from ..stream_series import StreamCounts
from .append_validation import (
    CheckedRecords,
    as_bytes,
    check_atomic,
    check_attributes,
    check_numbering,
    check_records,
    check_sequence,
    check_txid,
    check_txids,
    decode_producer_set,
    default_txid,
    split_records,
    too_large,
)
from .batch import NO_BATCH, RECORD_OVERHEAD_BYTES, Append, AppendMany, Batch
from .buffer import Buffer
from .dedup_table import DeduplicationTable, NumberedSet
from .keepalive import Keepalive
from .pipeline import Pipeline
from .segment_chain import OpenSegment, SegmentChain
from .segment_roll import SegmentRoll
from .tail_lookup import TailLookup
from .writer_close import close_writer


class StreamWriter(ClosesAtExit):
    """The only writer of a stream. ``Namespace.open_writer`` opens it and fences the previous one.

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
        dedup_table: DeduplicationTable,
        read_policy: Callable[[], Awaitable[StreamPolicy]],
        config: WriterConfig,
        context: LogContext,
        counts: StreamCounts | None = None,
    ) -> None:
        completed = chain.last_completed
        self.stream = stream
        self.last_txid = 0 if completed is None else completed.last_txid
        """Txid of the newest record, appended here or found at the takeover; 0 if none."""
        self._clock = runtime.clock
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._record_bytes_max = policy.record_bytes_max
        self._refusal: RhumblineError | None = None
        self._dedup_table = dedup_table
        self._pipeline = Pipeline(
            self, segment, policy, config, dedup_table, context, stream, counts
        )
        self._pipeline.last_txid = self.last_txid
        self._pipeline.last_created_ms = 0 if completed is None else completed.completed_ms
        self._buffer = Buffer(self._pipeline, self.wall_ms, stream, runtime.tracer)
        self._tracer = runtime.tracer
        self._segment_roll = SegmentRoll(
            chain, self._pipeline, config, read_policy, runtime.random, self._on_bug
        )
        self._tail_lookup = TailLookup(
            chain.find_tail, self._pipeline, config.failover_ms_max, self._on_bug
        )
        self._closing: asyncio.Task[None] | None = None
        self._keepalive = Keepalive(self._pipeline, self, context.timer)
        self._keepalive.schedule()

    @property
    def stream_id(self) -> str:
        """The id of the stream, which positions carry."""
        return self._pipeline.segment.stream_id

    @property
    def policy(self) -> StreamPolicy:
        """The policy of the segment that is written now."""
        return self._pipeline.policy

    # --- appending ------------------------------------------------------------------------------

    def append(
        self,
        payload: bytes,
        txid: int | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        event_time: int | None = None,
        expected: Dlsn | None = None,
    ) -> Append:
        """Append a record without waiting. Await the returned object for the record's position.

        ``txid`` must not be below the last txid. None uses the time of day in ms, or the last txid
        if that is higher or too low for a time of day; records of one entry may share it. ``key``,
        ``headers`` (bytes by name) and ``event_time`` (ms since the Unix epoch, UTC) are stored
        with the record. With ``expected`` the record, as an entry of its own, is appended only if
        the stream ends there, that is, if all of its records are below that position. Otherwise
        awaiting raises EndMismatchError, which names the end (rule STR-41).

        If the call raises, the record was not appended: RecordTooLargeError, TxidOutOfOrderError,
        InvalidArgumentError, TooManyRequestsError (await ``room()`` or earlier appends),
        StreamLostError, EndOfStreamError, ClosedError. If awaiting raises
        AppendOutcomeUnknownError, a repeat may append the record twice; after any other error, for
        example StreamLostError, the record was not appended.
        """
        batch = self._buffer.open
        if key is None and headers is None and event_time is None and expected is None:
            if txid is None and payload.__class__ is bytes:
                size = len(payload)
                room = batch.room - size - RECORD_OVERHEAD_BYTES
                if room >= 0 and size <= self._record_bytes_max:
                    batch.room = room
                    payloads = batch.payloads
                    ticket = Append(batch, len(payloads))
                    payloads.append(payload)
                    return ticket
            return self._append(payload, txid, None)
        if expected is None:
            return self._append(payload, txid, Attributes(key, headers, event_time))
        return self.append_many(
            [payload],
            None if txid is None else [txid],
            keys=[key],
            headers=[headers],
            event_times=[event_time],
            expected=expected,
        ).first

    def _append(self, payload: bytes, txid: int | None, attributes: Attributes | None) -> Append:
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        if len(payload) > self._record_bytes_max:
            raise too_large(len(payload), self._record_bytes_max)
        if txid is not None:
            check_txid(self.stream, txid, self.last_txid)
        size = len(payload) + RECORD_OVERHEAD_BYTES
        if attributes is not None:
            size += attributes.size
        open_batch = self._buffer.open
        if open_batch is NO_BATCH or open_batch.free_bytes() < size:
            self._check_open()
        batch = self._buffer.batch_for_records(size, self._default_txid() if txid is None else txid)
        if txid is not None:
            batch.add_txids((txid,))
        elif batch.txids is not None:
            batch.add_txids((self._default_txid(),))
        self.last_txid = batch.last_txid
        ticket = Append(batch, len(batch.payloads))
        if attributes is not None:
            batch.add_attributes(len(batch.payloads), attributes)
        batch.payloads.append(payload)
        return ticket

    def append_many(
        self,
        payloads: Sequence[bytes],
        txids: Sequence[int] | None = None,
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        event_times: Sequence[int | None] | None = None,
        atomic: bool = False,
        expected: Dlsn | None = None,
    ) -> AppendMany:
        """Append records in order, with much less overhead per record than ``append``.

        Each of the sequences has one value for each payload. Raises the same errors as ``append``,
        in which case no record was appended. The records may be split over several entries, so a
        later failure may leave only the first of them in the stream. With ``atomic`` they are one
        record set: all of them are in the stream, or none (rule STR-42); more than 2.5 MiB are then
        refused with RecordTooLargeError. ``expected`` is that of ``append`` and implies ``atomic``.
        """
        records = check_records(
            payloads,
            self._record_bytes_max,
            keys=keys,
            headers=headers,
            event_times=event_times,
        )
        count, total = len(records.payloads), records.size
        if total > self._config.outstanding_bytes_max:
            raise RecordTooLargeError(
                f"{count} records of {total} bytes in one call exceed "
                f"outstanding_bytes_max={self._config.outstanding_bytes_max}"
            )
        if txids is not None:
            check_txids(self.stream, txids, count, self.last_txid)
        if expected is not None:
            return self._append_if(records, txids, expected)
        if atomic:
            check_atomic(total)
        self._check_open()
        flush_bytes = self._pipeline.policy.flush.bytes_max
        if total <= flush_bytes or count == 1 or atomic:
            return AppendMany([self._extend(*records, txids)])
        return AppendMany(self._extend_several(records, txids, flush_bytes))

    def _append_if(
        self, records: CheckedRecords, txids: Sequence[int] | None, expected: Dlsn
    ) -> AppendMany:
        """Append records as an entry of their own, on condition that the stream ends there."""
        check_atomic(records.size)
        self._check_expected(expected)
        self._check_open()
        self._buffer.submit()
        span = self._extend(*records, txids)
        self._submit_if(span[0], expected)
        return AppendMany([span])

    def _check_expected(self, expected: Dlsn) -> None:
        check_position(expected).check_stream(self.stream, self.stream_id)

    def _submit_if(self, batch: Batch, expected: Dlsn) -> None:
        """Send the open batch, which is appended only if the stream ends at ``expected``."""
        assert batch is self._buffer.open
        batch.expected = expected
        self._buffer.submit()

    def _extend_several(
        self, records: CheckedRecords, txids: Sequence[int] | None, flush_bytes: int
    ) -> list[tuple[Batch, int, int]]:
        """Add records to as many batches as they need."""
        spans = []
        for first, part in split_records(records, flush_bytes, self._buffer.record_room()):
            given = None if txids is None else txids[first : first + len(part.payloads)]
            spans.append(self._extend(*part, given))
        return spans

    def _extend(
        self,
        payloads: Sequence[bytes],
        attributes: Sequence[Attributes] | None,
        size: int,
        txids: Sequence[int] | None,
    ) -> tuple[Batch, int, int]:
        """Add records that fit one batch. Return (batch, index of the first record, count)."""
        first_txid = self._default_txid() if txids is None else txids[0]
        batch = self._buffer.batch_for_records(size, first_txid)
        span = (batch, len(batch.payloads), len(payloads))
        if txids is not None:
            batch.add_txids(txids)
        elif batch.txids is not None:
            batch.add_txids([self._default_txid()] * len(payloads))
        if attributes is not None:
            for index, one in enumerate(attributes, start=len(batch.payloads)):
                batch.add_attributes(index, one)
        batch.payloads.extend(payloads)
        self.last_txid = batch.last_txid
        return span

    def append_set(
        self,
        encoded: bytes,
        *,
        keeps_txids: bool = False,
        trace: str | None = None,
        expected: Dlsn | None = None,
    ) -> AppendMany:
        """Append a record set that a producer encoded, unchanged. An entry may hold several sets.

        All its records get the same txid, as in ``append``, or keep their own (``keeps_txids``),
        which must not be below the last txid. If the set is from a numbered producer and is already
        in the stream or in flight, it is not appended again, and the result is that of the first
        append (rule STR-16). ``trace`` is the ``traceparent`` that the entry follows from.
        ``expected`` is that of ``append``; numbered sets cannot have it.

        Raises the errors of ``append``, and CorruptionError, DuplicateRecordError (already in the
        stream, position no longer known), SequenceGapError.
        """
        self._check_open()
        if encoded.__class__ is not bytes:
            encoded = as_bytes(encoded)
        record_set = decode_producer_set(encoded, self._record_bytes_max)
        is_numbered = record_set.producer != NO_PRODUCER
        if expected is not None:
            self._check_expected(expected)
            if is_numbered:
                raise InvalidArgumentError(
                    "a conditional record set must not be numbered: its condition prevents a "
                    "second copy already"
                )
        if is_numbered:
            known = self._dedup_table.find_duplicate(
                record_set.producer, record_set.first_sequence, record_set.count
            )
            if known is not None:
                return known
        first, last = self._txids_of(record_set, keeps_txids=keeps_txids)
        if expected is not None:
            self._buffer.submit()
        batch = self._buffer.batch_for_sets(len(encoded), first)
        slot = batch.count
        batch.sets.append((encoded, record_set.count, None if keeps_txids else first))
        batch.count += record_set.count
        if trace is not None:
            batch.traces.append(trace)
        batch.last_txid = self.last_txid = last
        if is_numbered:
            now = self._clock.wall_ms()
            numbered_set = NumberedSet(
                record_set.producer, record_set.first_sequence, record_set.count, now, batch, slot
            )
            batch.numbered_sets.append(numbered_set)
            self._dedup_table.accept(numbered_set)
        if expected is not None:
            self._submit_if(batch, expected)
        return AppendMany([(batch, slot, record_set.count)])

    def _txids_of(self, record_set: RecordSet, *, keeps_txids: bool) -> tuple[int, int]:
        """Return the first and the last txid with which a set of a producer is appended."""
        if keeps_txids:
            record_set.txids()  # raises if they fall
            check_txid(self.stream, record_set.first_txid, self.last_txid)
            return record_set.first_txid, record_set.last_txid
        if record_set.txids_view() is not None:
            raise InvalidArgumentError(
                "the record set has its own txids; pass keeps_txids=True or encode it without txids"
            )
        txid = self._default_txid()
        return txid, txid

    def append_numbered(
        self,
        producer: bytes,
        first_sequence: int,
        payloads: Sequence[bytes],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        event_times: Sequence[int | None] | None = None,
    ) -> AppendMany:
        """Append records that ``producer`` (16 bytes) numbers from ``first_sequence`` on.

        The call may be repeated after any failure, with this or a later writer of the stream: the
        records are in the stream once (rule STR-16). Raises the errors of ``append_set``.
        """
        check_numbering(producer, first_sequence)
        check_sequence("payloads", payloads)
        if not payloads:
            raise InvalidArgumentError("append_numbered needs at least one record")
        attributes = check_attributes(len(payloads), keys, headers, event_times)
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
            attributes=None if attributes is None else attribute_builder(attributes),
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
        """The reason why no more records are accepted; None while the writer is open."""
        return self._refusal

    def last_sequence(self, producer: bytes) -> int | None:
        """Return the last accepted sequence of ``producer``, or None if the producer is unknown."""
        return self._dedup_table.last_sequence(producer)

    def _default_txid(self) -> int:
        return default_txid(self.last_txid, self._clock.wall_ms())

    # --- waiting and closing --------------------------------------------------------------------

    async def room(self) -> None:
        """Wait until at most half of ``outstanding_bytes_max`` is unacknowledged.

        For producers that do not await each record. Raises the errors of ``append``.
        """
        limit = self._config.outstanding_bytes_max // 2
        pipeline = self._pipeline
        if pipeline.outstanding_bytes > limit:
            await pipeline.wait_until(
                lambda: pipeline.outstanding_bytes <= limit or self._refusal is not None
            )
        self._check_open()

    def check_room(self) -> None:
        """Raise what ``append`` would raise now because of the state of the writer."""
        self._check_open()

    async def flush(self) -> None:
        """Send the buffered records and wait until every record so far is acknowledged.

        Raises the failure of the first record that failed. Safe to repeat.
        """
        self._buffer.submit()
        for queue in (self._pipeline.queue, self._pipeline.in_flight, self._pipeline.unresolved):
            if queue:
                await Append(queue[-1], 0)
                return
        if self._pipeline.failure is not None:
            raise self._pipeline.failure

    async def end_stream(self) -> None:
        """End the stream permanently after all records appended so far, and close the writer.

        Readers stop at the end (rule STR-18). Raises the failure of the end record, or of a record
        before it; then the stream may or may not have ended, and opening another writer shows
        which.
        """
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        self._refusal = EndOfStreamError(f"stream {self.stream} was ended")
        self._keepalive.stop()
        self._buffer.submit()
        end = Batch(0, self.last_txid, self._clock.wall_ms(), Kind.END_OF_STREAM)
        self._pipeline.submit(end)
        await Append(end, 0)
        await self.close()

    async def close(self) -> None:
        """Wait until all records are acknowledged or failed, then close and complete the segment.

        Raises the failure of the writer, or an error if the end of the segment could not be
        recorded. Acknowledged records are safe in both cases, because the next writer records the
        end. Safe to repeat. If the caller is cancelled, closing continues in the background.
        """
        if self._closing is None:
            self._refusal = self._refusal or ClosedError(f"the writer of {self.stream} is closed")
            self._keepalive.stop()
            self._buffer.submit()
            closing = close_writer(
                self._pipeline, self._segment_roll, self._config, self.abort, self.stream
            )
            self._closing = self._loop.create_task(closing, name=f"close {self.stream}")
            self._closing.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._closing)

    async def abort(self) -> None:
        """Stop immediately, as a crash would. Unacknowledged records have an unknown outcome."""
        self._refusal = self._refusal or ClosedError(f"the writer of {self.stream} is closed")
        self._pipeline.stop()
        self._pipeline.fail(self._refusal)
        self._pipeline.abandon()
        self._buffer.stop()
        self._keepalive.stop()
        await self._tail_lookup.aclose()
        await self._segment_roll.aclose()
        self._pipeline.segment.ledger.abandon()

    async def _close_at_exit(self) -> None:
        await self.close()

    async def _abort_at_exit(self) -> None:
        await self.abort()

    # --- callbacks of the pipeline --------------------------------------------------------------

    def wall_ms(self) -> int:
        """Return the time of day in ms."""
        return self._clock.wall_ms()

    @property
    def is_buffering(self) -> bool:
        """True if the buffer holds records that will be sent without a further call."""
        return self._buffer.is_waiting

    def on_can_send(self) -> None:
        """Send what is due, because the pipeline has room for an entry."""
        self._buffer.on_can_send()

    def on_segment_switched(self) -> None:
        """Schedule the idle work of the new segment."""
        if self._refusal is None:
            self._keepalive.schedule()

    def on_tail_needed(self) -> None:
        """Find the end that earlier writers left: a conditional batch waits for it."""
        self._tail_lookup.request()

    def on_roll_needed(self) -> None:
        """Request a segment roll: the segment is full or expired, or its ledger failed."""
        self._segment_roll.request()

    def on_failed(self, failure: RhumblineError) -> None:
        """Fail the buffered records, because nothing more will be sent."""
        self._refusal = self._refusal or failure
        self._keepalive.stop()
        self._buffer.submit()

    def _on_bug(self, error: BaseException) -> None:
        if not isinstance(error, InvariantBrokenError):
            cause, error = error, InvariantBrokenError(f"stream {self.stream}: {error!r}")
            error.__cause__ = cause
        self._pipeline.fail(error)
        message = f"a segment roll of stream {self.stream} failed because of a bug"
        self._loop.call_exception_handler({"message": message, "exception": error})

    # --- checks ---------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        if self._pipeline.outstanding_bytes >= self._config.outstanding_bytes_max:
            raise TooManyRequestsError(
                f"stream {self.stream}: {self._pipeline.outstanding_bytes} bytes are not yet "
                f"acknowledged, the limit is {self._config.outstanding_bytes_max}; "
                "await room() before appending more"
            )


def _end_span(span: Span, ticket: AppendMany) -> None:
    try:
        regions = ticket.result().regions
    except RhumblineError as error:
        span.end(error)
    else:
        span.end(regions=regions)

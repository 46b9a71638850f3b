"""The pipeline of a writer: sends batches to the ledger of the segment and settles them in order.

The pipeline knows one segment at a time. ``segment_roll`` moves it to the next segment, and
``buffer`` fills the batches. All methods are synchronous and are called by the buffer and by
callbacks of the ledger.

Invariants:

1. ``in_flight`` is in order of entry ids, and acknowledgements arrive in that order (rule STR-10).
2. ``unresolved`` is non-empty only after the ledger failed. Nothing is sent until each unresolved
   batch is settled, or is proven absent from the closed ledger and returned to the front of
   ``queue`` (rule STR-9). This also holds after the stream was lost: the end of the closed ledger
   decides which entries are in it.

The states and their transitions are in pipeline_state.py.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from ...protocol.dlsn import Dlsn
from ...protocol.errors import (
    AppendOutcomeUnknownError,
    LimitExceededError,
    OwnershipLostError,
    PermissionDeniedError,
    RecordTooLargeError,
    RhumblineError,
    StreamLostError,
    UnauthorizedError,
)
from ...protocol.ledger_metadata import NO_ENTRY
from ...protocol.record_set import (
    Kind,
    created_ms_of,
    encode_control,
    encode_record_set,
    stamped,
)
from ...runtime.state_machine import StateMachine
from ..config import WriterConfig
from ..log_context import LogContext
from ..policy import StreamPolicy
from ..stream_series import StreamCounts
from .batch import Batch
from .dedup_table import DeduplicationTable
from .end_of_stream import encode_end_of_stream
from .lac_publisher import LacPublisher
from .pipeline_state import PIPELINE, PipelineEvent, PipelineState
from .segment_chain import OpenSegment
from .stream_tail import StreamTail

_SENDING = PipelineState.SENDING
_ABANDONED = PipelineState.ABANDONED


class PipelineOwner(Protocol):
    """The callbacks through which a pipeline informs its writer."""

    def wall_ms(self) -> int:
        """Return the time of day in ms."""
        ...

    @property
    def is_buffering(self) -> bool:
        """True if buffered records will be sent without a further call."""
        ...

    def on_can_send(self) -> None:
        """Called when the pipeline has room for an entry."""
        ...

    def on_segment_switched(self) -> None:
        """Called when entries go to another segment, possibly with another policy."""
        ...

    def on_tail_needed(self) -> None:
        """Called when a conditional batch waits for ``know_tail`` or ``refuse_unknown_tail``."""
        ...

    def on_roll_needed(self) -> None:
        """Called when the next segment must follow: full, expired or failed ledger."""
        ...

    def on_failed(self, failure: RhumblineError) -> None:
        """Called when nothing more will be sent."""
        ...


class Pipeline:
    """The entries of one writer session between buffer and acknowledgement."""

    def __init__(
        self,
        owner: PipelineOwner,
        segment: OpenSegment,
        policy: StreamPolicy,
        config: WriterConfig,
        dedup_table: DeduplicationTable,
        context: LogContext,
        stream: str,
        counts: StreamCounts | None,
    ) -> None:
        self.segment = segment
        self.policy = policy
        self.dedup_table = dedup_table
        self.queue: deque[Batch] = deque()
        self.in_flight: deque[Batch] = deque()
        self.unresolved: deque[Batch] = deque()
        self.outstanding_bytes = 0
        """Bytes of all batches in the three queues."""
        self.last_txid = 0
        """Last txid of the data that was sent."""
        self.last_created_ms = 0
        """Creation time of the newest entry: the time of no later one is below it (rule
        STR-39)."""
        self.sent_at = 0.0
        """Loop time in seconds at which the newest entry was sent."""
        self.failure: RhumblineError | None = None
        """The reason why this writer session never sends anything again, or None."""
        self._owner = owner
        self._context = context
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._in_flight_max = config.entries_in_flight_max
        self._snapshot_bytes = config.producers_snapshot_bytes
        self._tail = StreamTail(stream)
        self._lac_publisher = LacPublisher(self, owner)
        self.machine = StateMachine(
            PIPELINE,
            stream,
            now=self._loop.time,
            check=self._check,
            check_all=self._check_in_flight,
        )
        self._waiters: list[asyncio.Future[None]] = []
        self._attach(segment)

    # --- sending --------------------------------------------------------------------------------

    @property
    def can_send(self) -> bool:
        """True if a batch submitted now would be sent immediately."""
        return not self.queue and self._may_send()

    def _may_send(self) -> bool:
        return len(self.in_flight) < self._in_flight_max and self.machine.state is _SENDING

    def submit(self, batch: Batch) -> None:
        """Send a batch as soon as all batches before it are sent."""
        if self.failure is not None:
            batch.settle(self.failure, ())
            return
        self.outstanding_bytes += batch.bytes
        self.queue.append(batch)
        self.pump()

    def pump(self) -> None:
        """Send the batches of the queue that may be sent now."""
        queue = self.queue
        while queue and self._may_send():
            expected = queue[0].expected
            if expected is None or self._may_follow(expected):
                self._send(queue.popleft())
            elif self._tail.is_known:
                self._refuse(queue.popleft())
            else:
                self._owner.on_tail_needed()
                return

    def know_tail(self, tail: Dlsn) -> None:
        """Note the tail that earlier writers left, and send what waited for it (rule STR-41)."""
        self._tail.on_found(tail)
        self.pump()
        if self.can_send:
            self._owner.on_can_send()

    @property
    def is_tail_needed(self) -> bool:
        """True if the next batch is conditional and the tail is not known."""
        return bool(self.queue) and self.queue[0].expected is not None and not self._tail.is_known

    def refuse_unknown_tail(self, error: RhumblineError) -> None:
        """Fail the conditional batches that wait for the tail, which could not be read."""
        refused: list[Batch] = []
        while self.is_tail_needed:
            refused.append(self.queue.popleft())
        for batch in refused:
            self._settle(batch, error)
        if refused:
            self.pump()
            self.wake()
            if self.can_send:
                self._owner.on_can_send()

    def _may_follow(self, expected: Dlsn) -> bool:
        segment = self.segment
        return self._tail.is_at(expected, Dlsn(segment.lssn, segment.last_entry_id + 1, 0))

    def _refuse(self, batch: Batch) -> None:
        """Fail a conditional batch, once the records before it are settled."""
        newest = self._tail.newest
        if newest is None or newest.is_done:
            self._refuse_now(batch, newest)
        else:
            newest.callbacks.append(partial(self._refuse_now, batch, newest))

    def _refuse_now(self, batch: Batch, newest: Batch | None) -> None:
        stream_id = self.segment.stream_id
        error = self._tail.mismatch(batch.expected, stream_id, newest) or self.failure
        assert error is not None, "refused for records that this session sent (STR-41)"
        self._settle(batch, error)
        self.wake()
        if self.can_send:
            self._owner.on_can_send()  # perhaps nothing is in flight whose result would do it

    def _send(self, batch: Batch) -> None:
        if batch.kind is Kind.DATA and self._needs_snapshot(batch) and not self._send_snapshot():
            self.queue.appendleft(batch)
            return
        if not self._add(batch, self._entry_of(batch)):
            return
        segment = self.segment
        segment.position += batch.count
        if batch.kind is Kind.DATA:
            self.last_txid = segment.last_txid = batch.last_txid
            self._tail.on_sent(batch)
        elif batch.kind is Kind.END_OF_STREAM:
            segment.ends_stream = True
        self.sent_at = self._loop.time()
        if segment.bytes >= self.policy.roll_bytes or self.sent_at >= segment.rolls_at:
            self._owner.on_roll_needed()

    def _add(self, batch: Batch, entry: bytes) -> bool:
        segment = self.segment
        self.in_flight.append(batch)
        batch.stream_id, batch.lssn = segment.stream_id, segment.lssn
        try:
            batch.entry_id = segment.ledger.add(entry, self._on_done, batch.traces)
        except RhumblineError as error:
            removed = self.in_flight.pop()
            assert removed is batch
            self._on_refused(batch, error)
            return False
        segment.bytes += len(entry)
        segment.last_entry_id = batch.entry_id
        self._lac_publisher.on_lac_sent()
        return True

    def _needs_snapshot(self, batch: Batch) -> bool:
        segment = self.segment
        if segment.producers_entry == NO_ENTRY:
            return bool(batch.numbered_sets) or not self.dedup_table.is_empty
        return segment.bytes - segment.producers_bytes >= self._snapshot_bytes

    def _send_snapshot(self) -> bool:
        segment = self.segment
        self.last_created_ms = max(self._owner.wall_ms(), self.last_created_ms)
        batch = Batch(0, self.last_txid, self.last_created_ms, Kind.PRODUCERS)
        entry_id = segment.last_entry_id + 1
        entry = encode_control(
            Kind.PRODUCERS,
            txid=self.last_txid,
            position=segment.position,
            producers_entry=entry_id,
            created_ms=batch.created_ms,
            data=self.dedup_table.snapshot(self.in_flight),
        )
        if not self._add(batch, entry):
            return False
        assert batch.entry_id == entry_id
        segment.producers_entry = entry_id
        segment.producers_bytes = segment.bytes
        return self._may_send()

    def _on_refused(self, batch: Batch, error: RhumblineError) -> None:
        if isinstance(error, RecordTooLargeError):
            self._settle(batch, error)
            self.wake()
            return
        if batch.kind in (Kind.DATA, Kind.END_OF_STREAM):
            self.queue.appendleft(batch)
        else:
            self._settle(batch, None)  # a control record is created again where it is needed
        if isinstance(error, LimitExceededError):
            self.machine.take(PipelineEvent.FILL, str(error))
            self.segment.ledger.on_room(self._on_room)
        else:
            self._on_ledger_failed(error)

    def _on_room(self) -> None:
        if self.machine.state is PipelineState.FULL:
            self.machine.take(PipelineEvent.DRAIN)
        self.pump()
        if self.can_send:
            self._owner.on_can_send()

    def _entry_of(self, batch: Batch) -> bytes:
        position, producers_entry = self.segment.position, self.segment.producers_entry
        if batch.sets:  # from remote producers, or already encoded for an earlier ledger
            return self._stamped_sets(batch)
        self.last_created_ms = batch.created_ms = max(batch.created_ms, self.last_created_ms)
        if batch.kind is Kind.END_OF_STREAM:
            return encode_end_of_stream(
                self.last_txid, position=position, created_ms=batch.created_ms
            )
        if batch.kind is not Kind.DATA:
            return encode_control(
                batch.kind,
                txid=self.last_txid,
                position=position,
                producers_entry=producers_entry,
                created_ms=batch.created_ms,
            )
        entry = encode_record_set(
            batch.payloads,
            first_txid=batch.first_txid,
            last_txid=batch.last_txid,
            txids=batch.txids,
            position=position,
            producers_entry=producers_entry,
            created_ms=batch.created_ms,
            codec=self.policy.codec,
            extension=batch.extension(),
            attributes=batch.attributes,
        )
        batch.count = len(batch.payloads)
        batch.sets = [(entry, batch.count, None)]
        batch.payloads = []  # an Append needs only its index
        batch.txids = batch.attributes = None
        return entry

    def _stamped_sets(self, batch: Batch) -> bytes:
        position, producers_entry = self.segment.position, self.segment.producers_entry
        # A producer's clock may be wrong, so its times are moved into what this clock permits.
        latest_ms = max(self._owner.wall_ms(), self.last_created_ms)
        parts: list[bytes] = []
        for encoded, count, txid in batch.sets:
            part = stamped(
                encoded,
                position=position,
                producers_entry=producers_entry,
                txid=txid,
                created_ms=(self.last_created_ms, latest_ms),
            )
            self.last_created_ms = created_ms_of(part)
            parts.append(part)
            position += count
        return b"".join(parts)

    def _on_done(
        self, entry_id: int, error: RhumblineError | None, regions: tuple[str, ...]
    ) -> None:
        if self.machine.state is _ABANDONED:
            return
        batch = self.in_flight.popleft()
        if error is None:
            assert batch.entry_id == entry_id, "acknowledgements come in order"
            assert not self.unresolved
            self._settle(batch, None, regions)
            if batch.kind in (Kind.DATA, Kind.KEEPALIVE):
                self._lac_publisher.on_acked()
        else:
            self.unresolved.append(batch)
            self._on_ledger_failed(error)
        if self.queue:
            self.pump()
        elif self.can_send:
            self._owner.on_can_send()
        self._lac_publisher.schedule()
        if self._waiters:
            self.wake()

    def _settle(
        self, batch: Batch, failure: RhumblineError | None, regions: tuple[str, ...] = ()
    ) -> None:
        self.outstanding_bytes -= batch.bytes
        batch.sets = []
        if failure is None and batch.numbered_sets:
            for numbered_set in batch.numbered_sets:
                self.dedup_table.acknowledge(numbered_set)
        batch.numbered_sets = []
        if failure is None:
            if batch.kind is Kind.DATA:
                self._tail.on_settled(batch)
            self._count(batch, len(regions))
        elif batch.kind is Kind.DATA:
            self._context.add_failed(failure, batch.count or len(batch.payloads))
        batch.settle(failure, regions)

    def _count(self, batch: Batch, region_count: int) -> None:
        context = self._context
        if batch.kind is not Kind.DATA:
            context.control_entries += 1
            return
        context.entries += 1
        context.records += batch.count
        context.bytes += batch.bytes
        context.acks_by_regions[region_count] = context.acks_by_regions.get(region_count, 0) + 1
        context.acks.add_ms(self._owner.wall_ms() - batch.created_ms)
        counts = self._counts
        if counts is not None:
            counts.entries += 1
            counts.records += batch.count
            counts.bytes += batch.bytes

    # --- failure and change of segment ----------------------------------------------------------

    def _on_ledger_failed(self, error: RhumblineError) -> None:
        if isinstance(error, OwnershipLostError):
            self.fail(
                StreamLostError(f"another writer fenced segment {self.segment.lssn}: {error}")
            )
        elif isinstance(error, UnauthorizedError):  # also in the next segment (rule SEC-32)
            self.fail(
                PermissionDeniedError(f"a bookie refused segment {self.segment.lssn}: {error}")
            )
        elif self.failure is not None:
            self._resolve_or_give_up()
        elif self.machine.accepts(PipelineEvent.BREAK):
            self.machine.take(PipelineEvent.BREAK, f"{type(error).__name__}: {error}")
            self._context.segments_failed += 1
            self._owner.on_roll_needed()

    def _attach(self, segment: OpenSegment) -> None:
        segment.ledger.on_failure = self._on_ledger_failed
        segment.ledger.on_drain_requested = self._on_drain_requested

    def _on_drain_requested(self) -> None:
        if self.failure is None and not self._lac_publisher.is_stopped:
            self._owner.on_roll_needed()

    @property
    def is_broken(self) -> bool:
        """True if the ledger of the segment or the session failed: its end must be recovered."""
        return self.failure is not None or self.machine.state is PipelineState.BROKEN

    def hold(self) -> None:
        """Send nothing more to this segment, because the next one is published."""
        if self.machine.accepts(PipelineEvent.HOLD):
            self.machine.take(PipelineEvent.HOLD, f"{len(self.in_flight)} entries in flight")

    def resolve(self, last_entry_id: int) -> None:
        """Settle or requeue each unresolved entry of a ledger closed at ``last_entry_id``."""
        assert not self.in_flight
        absent: list[Batch] = []
        while self.unresolved:
            batch = self.unresolved.popleft()
            if batch.entry_id <= last_entry_id:
                assert not absent
                self._settle(batch, None)
            elif self.failure is not None:
                self._settle(batch, self.failure)
            elif batch.kind in (Kind.DATA, Kind.END_OF_STREAM):
                batch.entry_id = -1
                absent.append(batch)
            else:
                self._settle(batch, None)  # a control record is not sent again
        self.queue.extendleft(reversed(absent))
        self._tail.on_resolved()
        self.wake()

    def switch(self, segment: OpenSegment, policy: StreamPolicy) -> None:
        """Send entries to ``segment`` from now on.

        Every entry of the old segment must be settled.
        """
        assert not self.in_flight
        assert not self.unresolved
        assert segment.lssn == self.segment.lssn + 1
        self.segment.ledger.on_failure = self.segment.ledger.on_drain_requested = None
        self.segment = segment
        self._attach(segment)
        self.policy = policy
        self.machine.take(PipelineEvent.SWITCH, f"to segment {segment.lssn}")
        self._owner.on_segment_switched()
        self._lac_publisher.on_lac_sent()  # closing the old ledger makes its entries visible
        self.pump()
        if self.can_send:
            self._owner.on_can_send()

    def fail(self, failure: RhumblineError) -> None:
        """Stop sending. The ledger still settles the entries in flight."""
        if self.failure is None:
            self.failure = failure
            self.machine.take(PipelineEvent.FAIL, f"{type(failure).__name__}: {failure}")
            self._owner.on_failed(failure)
            while self.queue:
                self._settle(self.queue.popleft(), failure)
        self._resolve_or_give_up()
        self.wake()

    def _resolve_or_give_up(self) -> None:
        """Resolve the unresolved entries after ``fail``.

        If the stream was lost, a segment roll finds the end of the ledger; otherwise give them up.
        """
        if not isinstance(self.failure, StreamLostError):
            self._give_up_unresolved()
        elif self.unresolved:
            self._owner.on_roll_needed()

    def abandon(self) -> None:
        """Give up all entries in flight after ``fail``; their outcome is unknown.

        Safe to repeat.
        """
        assert self.failure is not None
        if self.machine.accepts(PipelineEvent.ABANDON):
            self.machine.take(PipelineEvent.ABANDON, f"{len(self.in_flight)} entries in flight")
        self.unresolved.extend(self.in_flight)
        self.in_flight.clear()
        self._give_up_unresolved()

    def _give_up_unresolved(self) -> None:
        assert self.failure is not None
        while self.unresolved:
            batch = self.unresolved.popleft()
            unknown = AppendOutcomeUnknownError(
                f"entry {batch.entry_id} of segment {batch.lssn} was sent but not acknowledged: "
                f"{self.failure}"
            )
            unknown.__cause__ = self.failure
            self._settle(batch, unknown)

    # --- waiting --------------------------------------------------------------------------------

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition()`` is true.

        It is evaluated after every change of the pipeline.
        """
        while not condition():
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    @property
    def is_drained(self) -> bool:
        """True if every submitted batch is settled."""
        return not self.queue and not self.in_flight and not self.unresolved

    def wake(self) -> None:
        """Make every ``wait_until`` evaluate its condition again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def stop(self) -> None:
        """Send no more control records and begin no more segments. Safe to repeat."""
        self._lac_publisher.stop()

    # --- invariants -----------------------------------------------------------------------------

    def _check(self) -> None:
        state = self.machine.state
        has_failed = state is PipelineState.FAILED or state is _ABANDONED
        assert (self.failure is not None) == has_failed, "a failure is a state"
        may_be_unresolved = has_failed or state is PipelineState.BROKEN
        assert may_be_unresolved or not self.unresolved, (
            "unresolved behind a working ledger (STR-9)"
        )

    def _check_in_flight(self) -> None:
        previous = -1
        for batch in self.in_flight:
            assert batch.lssn == self.segment.lssn, "in flight to another segment (STR-8)"
            assert batch.entry_id > previous, f"{batch.entry_id} behind {previous} (STR-10)"
            previous = batch.entry_id

    def __repr__(self) -> str:
        return repr(self.machine)

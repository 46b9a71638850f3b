"""Entries on their way: sends full batches to the segment's ledger and settles them in order.

It knows one segment at a time. Getting to the next one is ``transition``; filling batches is
``writer``. All methods are synchronous; callbacks of the ledger drive it.

Invariants:

1. ``in_flight`` is in order of entry ids; acknowledgements come in that order.
2. ``unresolved`` is not empty only after the ledger failed; nothing is sent until each of them is
   settled or, proven absent from the closed ledger, back at the front of ``queue``. That is so for
   a stream that was lost, too: where its ledger ends tells which entries are in it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ...protocol.errors import (
    AppendOutcomeUnknownError,
    LimitExceededError,
    OwnershipLostError,
    RecordTooLargeError,
    RhumblineError,
    StreamLostError,
)
from ...protocol.ledger_metadata import NO_ENTRY
from ...protocol.record_set import Kind, encode_control, encode_record_set, stamped
from ..config import WriterConfig
from ..log_context import LogContext
from ..policy import StreamPolicy
from .batch import Batch
from .dedup_table import DeduplicationTable
from .end_of_stream import encode_end_of_stream
from .lac_publisher import LacPublisher
from .segment_chain import OpenSegment


class PipelineOwner(Protocol):
    """Who is told what happens in a pipeline."""

    def wall_ms(self) -> int:
        """Time of day."""
        ...

    @property
    def is_buffering(self) -> bool:
        """Whether records wait that will leave by themselves."""
        ...

    def on_can_send(self) -> None:
        """There is room for an entry."""
        ...

    def on_segment_begun(self) -> None:
        """Entries go to another segment from now on, by another policy perhaps."""
        ...

    def on_segment_over(self) -> None:
        """The segment is full, too old, or its ledger failed: another one must follow."""
        ...

    def on_failed(self, failure: RhumblineError) -> None:
        """Nothing will be sent any more."""
        ...


class Pipeline:
    """The entries of one writer session between buffer and acknowledgement."""

    def __init__(
        self,
        owner: PipelineOwner,
        segment: OpenSegment,
        policy: StreamPolicy,
        config: WriterConfig,
        producers: DeduplicationTable,
        shared: LogContext,
    ) -> None:
        self.segment = segment
        self.policy = policy
        self.producers = producers
        self.queue: deque[Batch] = deque()
        self.in_flight: deque[Batch] = deque()
        self.unresolved: deque[Batch] = deque()
        self.outstanding_bytes = 0
        """Of all batches in the three queues."""
        self.last_txid = 0
        """Of the data that was sent."""
        self.sent_at = 0.0
        """Loop time of the newest entry."""
        self.ledger_failure: RhumblineError | None = None
        """Why the segment's ledger takes nothing more."""
        self.failure: RhumblineError | None = None
        """Why this session sends nothing more, ever."""
        self.is_held = False
        """Whether a transition waits until nothing is in flight."""
        self._awaits_room = False  # the ledger said that it has none, and will say when it has
        self._owner = owner
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self._in_flight_max = config.entries_in_flight_max
        self._snapshot_bytes = config.producers_snapshot_bytes
        self._visibility = LacPublisher(self, owner)
        self._is_stopped = False
        self._is_abandoned = False
        self._waiters: list[asyncio.Future[None]] = []
        self._listen(segment)

    # --- sending --------------------------------------------------------------------------------

    @property
    def can_send(self) -> bool:
        """Whether a batch submitted now would leave at once."""
        return not self.queue and self._may_send()

    def _may_send(self) -> bool:
        return (
            len(self.in_flight) < self._in_flight_max
            and not self.is_held
            and self.ledger_failure is None
            and self.failure is None
            and not self._awaits_room
        )

    def submit(self, batch: Batch) -> None:
        """Sends a full batch as soon as what was submitted before it is sent."""
        if self.failure is not None:
            batch.settle(self.failure, ())
            return
        self.outstanding_bytes += batch.bytes
        self.queue.append(batch)
        self.pump()

    def pump(self) -> None:
        """Sends from the queue what may be sent now."""
        queue = self.queue
        while queue and self._may_send():
            self._send(queue.popleft())

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
        elif batch.kind is Kind.END_OF_STREAM:
            segment.ends_stream = True
        self.sent_at = self._loop.time()
        if segment.bytes >= self.policy.roll_bytes or self.sent_at >= segment.rolls_at:
            self._owner.on_segment_over()

    def _add(self, batch: Batch, entry: bytes) -> bool:
        segment = self.segment
        self.in_flight.append(batch)
        batch.lssn = segment.lssn
        try:
            batch.entry_id = segment.ledger.add(entry, self._on_done, batch.traces)
        except RhumblineError as error:
            taken = self.in_flight.pop()
            assert taken is batch
            self._on_refused(batch, error)
            return False
        segment.bytes += len(entry)
        segment.last_entry_id = batch.entry_id
        self._visibility.on_told()
        return True

    def _needs_snapshot(self, batch: Batch) -> bool:
        segment = self.segment
        if segment.producers_entry == NO_ENTRY:
            return bool(batch.producers) or not self.producers.is_empty
        return segment.bytes - segment.producers_bytes >= self._snapshot_bytes

    def _send_snapshot(self) -> bool:
        segment = self.segment
        batch = Batch(0, self.last_txid, self._owner.wall_ms(), Kind.PRODUCERS)
        entry_id = segment.last_entry_id + 1
        entry = encode_control(
            Kind.PRODUCERS,
            txid=self.last_txid,
            position=segment.position,
            producers_entry=entry_id,
            created_ms=batch.created_ms,
            data=self.producers.snapshot(self.in_flight),
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
            self._settle(batch, None)  # a control record is made anew where it is needed
        if isinstance(error, LimitExceededError):
            self._awaits_room = True
            self.segment.ledger.on_room(self._on_room)
        else:
            self._on_ledger_failed(error)

    def _on_room(self) -> None:
        self._awaits_room = False
        self.pump()
        if self.can_send:
            self._owner.on_can_send()

    def _entry_of(self, batch: Batch) -> bytes:
        position, producers_entry = self.segment.position, self.segment.producers_entry
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
        if batch.sets:  # made by remote producers, or sent before to a ledger closed without it
            return self._stamped_sets(batch)
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
        )
        batch.count = len(batch.payloads)
        batch.sets = [(entry, batch.count, None)]
        batch.payloads = []  # an index is all that an Append needs
        batch.txids = None
        return entry

    def _stamped_sets(self, batch: Batch) -> bytes:
        position, producers_entry = self.segment.position, self.segment.producers_entry
        parts: list[bytes] = []
        for encoded, count, txid in batch.sets:
            parts.append(
                stamped(encoded, position=position, producers_entry=producers_entry, txid=txid)
            )
            position += count
        return b"".join(parts)

    def _on_done(
        self, entry_id: int, error: RhumblineError | None, regions: tuple[str, ...]
    ) -> None:
        if self._is_abandoned:
            return
        batch = self.in_flight.popleft()
        if error is None:
            assert batch.entry_id == entry_id, "acknowledgements come in order"
            assert not self.unresolved
            self._settle(batch, None, regions)
            if batch.kind in (Kind.DATA, Kind.KEEPALIVE):
                self._visibility.on_acked()
        else:
            self.unresolved.append(batch)
            self._on_ledger_failed(error)
        if self.queue:
            self.pump()
        elif self.can_send:
            self._owner.on_can_send()
        self._visibility.watch()
        if self._waiters:
            self.wake()

    def _settle(
        self, batch: Batch, failure: RhumblineError | None, regions: tuple[str, ...] = ()
    ) -> None:
        self.outstanding_bytes -= batch.bytes
        batch.sets = []
        if failure is None and batch.producers:
            for sent in batch.producers:
                self.producers.log(sent)
        batch.producers = []
        if failure is None:
            self._count(batch, len(regions))
        batch.settle(failure, regions)

    def _count(self, batch: Batch, region_count: int) -> None:
        shared = self._shared
        if batch.kind is not Kind.DATA:
            shared.control_entries += 1
            return
        shared.entries += 1
        shared.records += batch.count
        shared.bytes += batch.bytes
        shared.acks_by_regions[region_count] = shared.acks_by_regions.get(region_count, 0) + 1
        shared.acks.add_ms(self._owner.wall_ms() - batch.created_ms)

    # --- failure and change of segment ----------------------------------------------------------

    def _on_ledger_failed(self, error: RhumblineError) -> None:
        if isinstance(error, OwnershipLostError):
            self.fail(
                StreamLostError(
                    f"segment {self.segment.lssn} was fenced by another writer: {error}"
                )
            )
        elif self.failure is not None:
            self._leave_unresolved()
        elif self.ledger_failure is None:
            self.ledger_failure = error
            self._shared.segments_failed += 1
            self._owner.on_segment_over()

    def _listen(self, segment: OpenSegment) -> None:
        segment.ledger.on_failure = self._on_ledger_failed
        segment.ledger.on_leaving = self._on_leaving

    def _on_leaving(self) -> None:
        if self.failure is None and not self._is_stopped:
            self._owner.on_segment_over()

    def resolve(self, last_entry_id: int) -> None:
        """The failed ledger was closed at ``last_entry_id``: each unresolved entry is in or out."""
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
                self._settle(batch, None)  # it was only there to make others visible
        self.queue.extendleft(reversed(absent))
        self.wake()

    def switch(self, segment: OpenSegment, policy: StreamPolicy) -> None:
        """From now on entries go to ``segment``; everything of the old one is settled."""
        assert not self.in_flight
        assert not self.unresolved
        assert segment.lssn == self.segment.lssn + 1
        self.segment.ledger.on_failure = self.segment.ledger.on_leaving = None
        self.segment = segment
        self._listen(segment)
        self.policy = policy
        self._awaits_room = False
        self.ledger_failure = None
        self.is_held = False
        self._owner.on_segment_begun()
        self._visibility.on_told()  # the old ledger is closed or will be at once
        self.pump()
        if self.can_send:
            self._owner.on_can_send()

    def fail(self, failure: RhumblineError) -> None:
        """Nothing is sent any more. What is in flight is still settled by its ledger."""
        if self.failure is None:
            self.failure = failure
            self._owner.on_failed(failure)
            while self.queue:
                self._settle(self.queue.popleft(), failure)
        self._leave_unresolved()
        self.wake()

    def _leave_unresolved(self) -> None:
        """After ``fail``: only the owner of a lost stream goes on to see how its ledger ends."""
        if not isinstance(self.failure, StreamLostError):
            self._give_up_unresolved()
        elif self.unresolved:
            self._owner.on_segment_over()

    def abandon(self) -> None:
        """After ``fail``: nobody waits for the ledger's answers any more. Safe to repeat."""
        assert self.failure is not None
        self._is_abandoned = True
        self.unresolved.extend(self.in_flight)
        self.in_flight.clear()
        self._give_up_unresolved()

    def _give_up_unresolved(self) -> None:
        assert self.failure is not None
        while self.unresolved:
            batch = self.unresolved.popleft()
            unknown = AppendOutcomeUnknownError(
                f"entry {batch.entry_id} of segment {batch.lssn} was sent and not acknowledged: "
                f"{self.failure}"
            )
            unknown.__cause__ = self.failure
            self._settle(batch, unknown)

    # --- waiting --------------------------------------------------------------------------------

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Returns when ``is_so``, which is looked at after every change here."""
        while not is_so():
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    @property
    def is_drained(self) -> bool:
        """Whether every submitted batch is settled."""
        return not self.queue and not self.in_flight and not self.unresolved

    def wake(self) -> None:
        """Lets every ``wait_until`` look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def stop(self) -> None:
        """The writer closes: no timer, no control record, no next segment. Safe to repeat."""
        self._is_stopped = True
        self._visibility.stop()

"""Writes one ledger: adds entries, confirms them in order, and ends (rules LED-5 to LED-11).

Invariants:

1. Callbacks run strictly in entry order, each exactly once. The LAC is the last entry called back
   with success, and all entries up to it satisfy P in the fragment that the stored metadata
   records (rules LED-7, LED-8).
2. A response counts for the replica that the entry was sent to, and only while that replica
   belongs to the ensemble.
3. While a change of the ensemble is being committed, nothing is called back (bug B7), and nothing
   is sent to a bookie that the stored metadata does not name (bug B6).
4. A failed writer never confirms anything. Entries that had been sent have an unknown outcome; the
   others have definitely failed (rule LED-18).
"""

import asyncio
from collections.abc import Callable, Sequence

from ...protocol.bookie_id import BookieId, Region
from ...protocol.errors import (
    AppendOutcomeUnknownError,
    ClosedError,
    LimitExceededError,
    RecordTooLargeError,
    RhumblineError,
    TooManyRequestsError,
)
from ...protocol.ledger_metadata import NO_ENTRY, LedgerMetadata
from ...protocol.quorum import QuorumView
from ...runtime.metadata_store import Version
from ...wire import v2
from ...wire.entry import EntryDigest, master_key
from ..add_op import AddOp, OnDone
from ..add_trace import AddTrace
from ..connection.bookie_link import BookieLink
from ..context import LedgerContext
from ..copy_renewal import renew_copies
from ..replica import Replica
from .ensemble_changer import EnsembleChanger
from .explicit_lac import ExplicitLac
from .ledger_close import LedgerCloser
from .replica_health import ReplicaHealth
from .replication_lag import ReplicationLag
from .slow_member_watch import SlowMemberWatch
from .writer_log import log_change, log_failure
from .writer_state import WriterState


class LedgerWriter:
    """The only writer of a ledger that ``LedgerClient.create`` created.

    If it fails, ``failure`` is set, every pending entry is called back and ``on_failure`` is called
    once. Its owner then closes it with ``close`` and continues with another ledger. Its parts share
    ``state``, which decides, and call back the methods ``send``, ``send_missing``, ``install``,
    ``thaw`` and ``fail``.
    """

    def __init__(
        self,
        context: LedgerContext,
        metadata: LedgerMetadata,
        version: Version,
        regions: Sequence[Region | None],
    ) -> None:
        self.ledger_id = metadata.ledger_id
        self.last_add_pushed = NO_ENTRY
        self.pending_bytes = 0
        self.on_failure: Callable[[RhumblineError], None] | None = None
        self.on_drain_requested: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self.state = state = WriterState(context, metadata, version, regions, self._loop.time)
        self._context = context
        self._queue = state.queue
        self._digest = EntryDigest(metadata.digest_type, metadata.password)
        self._master_key = master_key(metadata.password)
        self._payload_bytes_max = context.config.entry_bytes_max - self._digest.body_offset
        self._pending_bytes_max = context.config.pending_bytes_max
        self._pending_entries_max = context.config.pending_entries_max
        self._has_quorum_timeout = context.config.quorum_timeout_ms > 0
        self._confirmed_length = 0
        self._is_draining = False
        self._room_callbacks: list[Callable[[], None]] = []
        self._links: list[BookieLink] = []  # of the current ensemble, by index
        self._take_ensemble()
        self._added_callback = self.on_added
        self.changer = EnsembleChanger(state, self)
        self._health = ReplicaHealth(
            state,
            self.changer,
            send=self.send,
            send_missing=self.send_missing,
            renew_copies=self.renew_copies,
            fail=self.fail,
        )
        self._lag = ReplicationLag(state, self._health.on_error)
        self._slow = SlowMemberWatch(state, self.changer)
        self._slow_check_at = 0.0
        self._closer = LedgerCloser(state, self.changer)
        self._explicit_lac = ExplicitLac(state, self._digest, self._master_key, self.fail)
        context.handles[self] = None
        for link in self._links:
            link.connect()

    def _take_ensemble(self) -> None:
        """Derives what depends on the bookies and on R of the current ensemble."""
        state = self.state
        quorum = state.view.quorum
        self._write_sets = [quorum.write_set(start) for start in range(len(state.view.full_masks))]
        self._regions_by_mask: dict[int, tuple[str, ...]] = {}
        self._links = [self._context.pool.link(replica.bookie) for replica in state.replicas]

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as this writer last saw it stored."""
        return self.state.metadata

    @property
    def replicas(self) -> list[Replica]:
        """The current ensemble, by index."""
        return self.state.replicas

    @property
    def view(self) -> QuorumView:
        """The quorum predicate of the current ensemble."""
        return self.state.view

    @property
    def last_add_confirmed(self) -> int:
        """The LAC: the highest entry id up to which all entries were called back with success."""
        return self.state.last_add_confirmed

    @property
    def failure(self) -> RhumblineError | None:
        """The reason why this writer takes no more entries (failed, fenced or closed), or None."""
        return self.state.failure

    @property
    def is_failed(self) -> bool:
        """True once this writer has ended, by a failure or by ``close``."""
        return self.state.failure is not None

    async def introduce(self) -> None:
        """Makes the ledger known to its bookies before the first entry.

        Afterwards adds to the first fragment do not need the metadata store. Safe to repeat.
        """
        await self._explicit_lac.introduce()

    # --- adding ---------------------------------------------------------------------------------

    @property
    def pending_count(self) -> int:
        """Entries pushed and not yet called back."""
        return len(self._queue)

    @property
    def has_room(self) -> bool:
        """True if ``add`` takes another entry now."""
        return (
            len(self._queue) < self._pending_entries_max
            and self.pending_bytes < self._pending_bytes_max
        )

    def on_room(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once, when half of the room is free or the writer has failed."""
        self._room_callbacks.append(callback)
        if self.state.failure is not None or self._is_half_empty():
            self._loop.call_soon(self._notify_room)

    def add(self, payload: bytes, on_done: OnDone, traces: Sequence[str] = ()) -> int:
        """Pushes an entry and returns its id at once; ``on_done`` is called with the outcome.

        ``traces`` name the spans that the entry follows from. Not safe to repeat: each call adds
        another entry. Raises the failure once the writer has failed, RecordTooLargeError, and
        LimitExceededError if there is no room (see ``on_room``).
        """
        state = self.state
        size = len(payload)
        if state.failure is not None or size > self._payload_bytes_max or not self.has_room:
            self._refuse(size)
        entry_id = self.last_add_pushed + 1
        length = state.length + size
        frame = v2.encode_new_add(
            self._digest,
            self._master_key,
            self.ledger_id,
            entry_id,
            state.last_add_confirmed,
            length,
            payload,
        )
        op = AddOp(self._added_callback, entry_id, frame, size, on_done)
        op.length = length
        op.pushed_at = self._loop.time()
        if traces:
            op.trace = self._trace_of(op, traces)
        start = entry_id % len(self._write_sets)
        op.write_mask = state.view.full_masks[start]
        self.last_add_pushed = entry_id
        state.length = length
        self.pending_bytes += size
        if self._has_quorum_timeout:
            self._health.start_timer()
        # Encoded and enqueued without waiting: no ensemble change can miss the entry (bug B21).
        self._queue.append(op)
        failed = state.failed_mask
        for index in self._write_sets[start]:
            if failed >> index & 1:
                self._health.offer_probe(state.replicas[index], op)
            else:
                self.send(state.replicas[index], op)
        if op.pushed_at >= self._slow_check_at:
            self._slow_check_at = self._slow.check(op.pushed_at)
        return entry_id

    def _trace_of(self, op: AddOp, parents: Sequence[str]) -> AddTrace | None:
        tracer = self._context.runtime.tracer
        if tracer is None:
            return None
        return AddTrace(
            tracer, parents, ledger_id=self.ledger_id, entry_id=op.entry_id, size=op.size
        )

    def _refuse(self, size: int) -> None:
        if self.state.failure is not None:
            raise self.state.failure.with_traceback(None)
        if size > self._payload_bytes_max:
            raise RecordTooLargeError(
                f"an entry of {size} bytes; the limit is {self._payload_bytes_max}"
            )
        raise LimitExceededError(
            f"ledger {self.ledger_id}: {len(self._queue)} entries of {self.pending_bytes} bytes "
            "wait for their quorum"
        )

    def send(self, replica: Replica, op: AddOp) -> bool:
        """Sends an entry to a replica of the current ensemble.

        Returns False if it cannot be sent; the replica's failure is then handled soon.
        """
        link = self._links[replica.index]
        connection = link.connection or link.connect()
        if connection is None:
            self._loop.call_soon(self._health.on_error, replica, link.last_error)
            return False
        if not connection.send_add(op.key, op.frame, op, replica):
            error = TooManyRequestsError(f"{replica.bookie}: too much in flight")
            self._loop.call_soon(self._health.on_error, replica, error)
            return False
        op.outstanding |= replica.bit
        op.was_sent = True
        if op.trace is not None:
            op.trace.on_sent(replica)
        return True

    def send_missing(self, replica: Replica) -> None:
        """Sends all pending entries that the replica has not stored and is not about to answer."""
        for op in self._queue:
            wanted = op.write_mask & replica.bit & ~(op.acks | op.outstanding)
            if wanted and not self.send(replica, op):
                break

    # --- responses ------------------------------------------------------------------------------

    def on_added(self, op: AddOp, replica: Replica, error: RhumblineError | None) -> None:
        """Takes a response, a timeout or a lost connection. Called once per send."""
        if op.trace is not None:
            op.trace.on_response(replica, error)
        if replica.last_entry_id is not None:
            self._on_response_of_replaced(op, replica.last_entry_id, replica, error)
            return
        state = self.state
        bit = replica.bit
        op.outstanding &= ~bit
        if op.is_done:
            if op.entry_id <= state.last_add_confirmed:
                self._lag.on_late_response(op, replica, error)
        elif error is None:
            op.acks |= bit
            if not op.is_complete and state.view.is_acked(op.acks):
                op.is_complete = True
                if self._queue[0] is op:
                    self._drain()
        if error is not None:
            self._health.on_error(replica, error)
        elif state.failed_mask & bit:
            self._health.on_stored(replica)

    def _on_response_of_replaced(
        self, op: AddOp, last_entry_id: int, replica: Replica, error: RhumblineError | None
    ) -> None:
        if op.entry_id <= last_entry_id:
            self._lag.on_late_response(op, replica, error)

    def _drain(self) -> None:
        """Calls back complete entries from the head of the queue."""
        state = self.state
        if self._is_draining or state.is_frozen:
            return
        self._is_draining = True
        queue = self._queue
        before, first_pushed_at = state.last_add_confirmed, queue[0].pushed_at if queue else 0.0
        while queue and queue[0].is_complete:
            op = queue.popleft()
            state.last_add_confirmed = op.entry_id
            self._confirmed_length = op.length
            self.pending_bytes -= op.size
            op.is_done = True
            op.frame = b""
            acks = op.acks
            regions = self._regions_by_mask.get(acks)
            if regions is None:
                # Computed from the bookies of the current ensemble alone (bug B20).
                regions = self._regions_by_mask[acks] = tuple(state.view.regions_of(acks))
            if acks != op.write_mask:
                self._lag.on_confirmed(op)
            self._call_back(op, None, regions)
        self._is_draining = False
        drained = state.last_add_confirmed - before
        if drained:  # all are counted with the latency of the oldest
            waited_s = self._loop.time() - first_pushed_at
            self._context.adds.add_ms(int(waited_s * 1000), drained)
        if self._room_callbacks and self._is_half_empty():
            self._notify_room()

    def _call_back(self, op: AddOp, error: RhumblineError | None, regions: tuple[str, ...]) -> None:
        if op.trace is not None:
            op.trace.on_done(error, regions)
        try:
            op.on_done(op.entry_id, error, regions)
        except Exception as raised:
            # An error in one callback must not prevent the callbacks of later entries.
            self._loop.call_exception_handler(
                {"message": f"callback of entry {op.entry_id} raised", "exception": raised}
            )

    def _is_half_empty(self) -> bool:
        return (
            len(self._queue) <= self._pending_entries_max // 2
            and self.pending_bytes <= self._pending_bytes_max // 2
        )

    def _notify_room(self) -> None:
        callbacks, self._room_callbacks = self._room_callbacks, []
        for callback in callbacks:
            callback()

    # --- ensemble changes -----------------------------------------------------------------------

    def thaw(self) -> None:
        """Resumes callbacks, whether or not the ensemble was changed (bug B9)."""
        self.state.thaw()
        self._drain()

    async def renew_copies(self, bookies: Sequence[BookieId]) -> int:
        """Makes bookies renew their copies of the metadata; returns the mask of the others."""
        return await renew_copies(
            self._context.pool, self.ledger_id, bookies, self._digest, self._master_key
        )

    def install(
        self,
        metadata: LedgerMetadata,
        version: Version,
        regions: Sequence[Region | None],
        old_copies: int = 0,
    ) -> None:
        """Adopts stored metadata, and sends pending entries to the bookies that are new.

        Entries that are complete are called back by ``thaw``, not here (bug B8, rule LED-15).
        """
        state = self.state
        old = state.metadata.last_fragment.bookies
        gone = state.install(metadata, version, regions, old_copies)
        self._take_ensemble()
        for replica in state.replicas:
            if gone & ~state.failed_mask & replica.bit:
                self.send_missing(replica)
        log_change(self.ledger_id, old, metadata, state.view.quorum.min_regions)
        self._health.on_installed()
        self._lag.report()

    def set_min_regions(self, min_regions: int) -> None:
        """Changes R for pending and later entries.

        It takes effect when the metadata records it, as ``metadata.quorum_at`` then shows. Safe to
        repeat. Raises IllegalQuorumError if R does not fit.
        """
        self.changer.set_min_regions(min_regions)

    # --- the end --------------------------------------------------------------------------------

    def fail(self, error: RhumblineError) -> None:
        """Ends this writer at once: every pending entry is called back, in order (bug B22)."""
        state = self.state
        if state.failure is not None:
            return
        self._health.stop()
        self._context.handles.pop(self, None)
        unknown = AppendOutcomeUnknownError(f"ledger {self.ledger_id}: {error}")
        unknown.__cause__ = error
        self.pending_bytes = 0
        failed = state.fail(error, self._confirmed_length)
        log_failure(self.ledger_id, error, state.machine)
        for op in failed:
            op.is_done = True
            op.frame = b""
            self._call_back(op, unknown if op.was_sent else error, ())
        self._loop.call_soon(self._notify_room)
        if not self._lag.is_waiting:
            self._lag.report()
        if self.on_failure is not None and not isinstance(error, ClosedError):
            self.on_failure(error)

    def __repr__(self) -> str:
        return repr(self.state.machine)

    def request_drain(self) -> None:
        """Asks the owner to move to another ledger, because a bookie of this one is drained.

        Calls ``on_drain_requested``. The writer itself keeps taking entries. Safe to repeat.
        """
        if self.state.failure is None and self.on_drain_requested is not None:
            self.on_drain_requested()

    def abandon(self) -> None:
        """Stops the writer without closing the ledger, as a crash would. Safe to repeat.

        Pending entries fail; the outcome of those that were sent is unknown.
        """
        self.fail(ClosedError(f"the writer of ledger {self.ledger_id} was stopped"))

    async def close(self) -> LedgerMetadata:
        """Closes the ledger at its LAC and returns the closed metadata. Safe to repeat.

        Pending entries fail first. Raises LedgerClosedError if the ledger was closed at another
        entry, LedgerFencedError if it is being recovered (the recovery then decides its end), and
        MetadataUnavailableError or IndeterminateError at the deadline: call it again.
        """
        self.fail(ClosedError(f"ledger {self.ledger_id} was closed by its writer"))
        return await self._closer.close()

    def send_explicit_lac(self, on_done: Callable[[bool], None]) -> bool:
        """Sends the LAC to the ensemble without an entry, so that readers see what is confirmed.

        Returns False if it cannot be sent to any bookie now. Otherwise ``on_done`` is called once:
        with True when P of the bookies have stored it, or with False when all have responded and P
        have not. Safe to repeat.
        """
        return self._explicit_lac.send(on_done)

    async def publish_lac(self) -> None:
        """Sends the LAC and waits until P of the bookies stored it or all have responded."""
        done: asyncio.Future[bool] = self._loop.create_future()
        if self.send_explicit_lac(lambda taken: None if done.done() else done.set_result(taken)):
            await done

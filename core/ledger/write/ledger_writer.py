"""Writes one ledger: the hot path (protocol rules 1.2, 1.3) and how it ends.

Invariants:

1. callbacks run strictly in entry order, each exactly once; LAC is the last one called back with
   success; all entries up to it satisfy P in the fragment that the stored metadata records;
2. an answer counts for the replica that the entry was sent to, and only while it sits in the
   ensemble;
3. while a change of the ensemble is being committed nothing is called back (bug B7), and nothing is
   sent to a bookie that the stored metadata does not name (bug B6);
4. a writer that failed never confirms anything any more; entries that had left are of unknown
   outcome, the others definitely failed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from ...protocol.bookie_id import Region
from ...protocol.ensemble_change import replaced_indices
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
from ..context import LedgerContext
from .add_op import AddOp, OnDone
from .add_trace import AddTrace
from .ensemble_changer import EnsembleChanger
from .explicit_lac import introduce, tell_lac
from .ledger_close import Closing
from .replica import Replica
from .replica_health import ReplicaHealth
from .replication_lag import ReplicationLag


class LedgerWriter:
    """The one writer of a ledger that ``LedgerClient.create`` made.

    When it fails (``failure`` is set, ``on_failure`` called once, every pending entry called back),
    its owner closes it with ``close`` and goes on with another ledger. Names without underscore
    that have no docstring are for the other modules of this package.
    """

    def __init__(
        self,
        context: LedgerContext,
        metadata: LedgerMetadata,
        version: Version,
        regions: Sequence[Region | None],
    ) -> None:
        self.ledger_id = metadata.ledger_id
        self.metadata = metadata
        self.version = version
        self.last_add_pushed = NO_ENTRY
        self.last_add_confirmed = NO_ENTRY
        self.length = 0  # payload bytes pushed; once failed, payload bytes confirmed
        self.pending_bytes = 0
        self.failure: RhumblineError | None = None
        self.on_failure: Callable[[RhumblineError], None] | None = None
        self.on_leaving: Callable[[], None] | None = None
        self.context = context
        self.queue: deque[AddOp] = deque()
        self._loop = asyncio.get_running_loop()
        self._digest = EntryDigest(metadata.digest_type, metadata.password)
        self._master_key = master_key(metadata.password)
        self._payload_bytes_max = context.config.entry_bytes_max - self._digest.body_offset
        self._pending_bytes_max = context.config.pending_bytes_max
        self._pending_entries_max = context.config.pending_entries_max
        self._has_quorum_timeout = context.config.quorum_timeout_ms > 0
        self._confirmed_length = 0
        self._is_frozen = False
        self._is_draining = False
        self._lag = ReplicationLag(self)
        self._room_wanted: list[Callable[[], None]] = []
        self._closing = Closing(self)
        self.replicas: list[Replica] = []
        self._take_ensemble(regions)
        self.failures = ReplicaHealth(self)
        self.changer = EnsembleChanger(context, self)
        context.handles[self] = None
        for replica in self.replicas:
            replica.link.connect()

    def _take_ensemble(self, regions: Sequence[Region | None]) -> None:
        """Sits the bookies of the last fragment; those that sat there already keep their state."""
        quorum = self.metadata.quorum_at(self.last_add_confirmed + 1)
        bookies = self.metadata.last_fragment.bookies
        self.view = QuorumView(quorum, regions)
        self._write_sets = [quorum.write_set(start) for start in range(len(self.view.full_masks))]
        self._regions_by_mask: dict[int, tuple[str, ...]] = {}
        old: Sequence[Replica | None] = self.replicas or [None] * len(bookies)
        self.replicas = [
            was
            if was is not None and was.bookie == bookie
            else Replica(index, self.context.pool.link(bookie), region)
            for index, (was, bookie, region) in enumerate(zip(old, bookies, regions, strict=True))
        ]

    async def introduce(self) -> None:
        """Lets the bookies learn that the ledger is theirs, before anything is added.

        Afterwards appends to its first fragment need the metadata store no more. Safe to repeat.
        """
        await introduce(self, self._digest, self._master_key)

    # --- adding ---------------------------------------------------------------------------------

    @property
    def is_failed(self) -> bool:
        """Whether this writer has ended: by failure or by ``close``."""
        return self.failure is not None

    @property
    def pending_count(self) -> int:
        """Entries pushed and not yet called back."""
        return len(self.queue)

    @property
    def has_room(self) -> bool:
        """Whether ``add`` takes another entry now."""
        return (
            len(self.queue) < self._pending_entries_max
            and self.pending_bytes < self._pending_bytes_max
        )

    def on_room(self, callback: Callable[[], None]) -> None:
        """Calls back once, as soon as half of the room is free or the writer has failed."""
        self._room_wanted.append(callback)
        if self.failure is not None or self._is_half_empty():
            self._loop.call_soon(self._tell_room)

    def add(self, payload: bytes, on_done: OnDone, traces: Sequence[str] = ()) -> int:
        """Pushes an entry and returns its id at once; ``on_done`` hears of the outcome.

        ``traces`` name the spans that it follows from.

        Not safe to repeat: each call is another entry. Raises the failure once the writer has
        failed, RecordTooLargeError, and LimitExceededError when there is no room (see ``on_room``).
        """
        size = len(payload)
        if self.failure is not None or size > self._payload_bytes_max or not self.has_room:
            self._refuse(size)
        entry_id = self.last_add_pushed + 1
        length = self.length + size
        frame = v2.encode_new_add(
            self._digest,
            self._master_key,
            self.ledger_id,
            entry_id,
            self.last_add_confirmed,
            length,
            payload,
        )
        op = AddOp(self, entry_id, frame, size, on_done)
        op.length = length
        op.pushed_at = self._loop.time()
        if traces:
            op.trace = self._trace_of(op, traces)
        start = entry_id % len(self._write_sets)
        op.write_mask = self.view.full_masks[start]
        self.last_add_pushed = entry_id
        self.length = length
        self.pending_bytes += size
        if self._has_quorum_timeout:
            self.failures.watch()
        # Captured and enqueued in one step: no change of the ensemble can miss it (bug B21).
        self.queue.append(op)
        failed = self.failures.mask
        for index in self._write_sets[start]:
            if failed >> index & 1:
                self.failures.offer_probe(self.replicas[index], op)
            else:
                self.send(self.replicas[index], op)
        return entry_id

    def _trace_of(self, op: AddOp, parents: Sequence[str]) -> AddTrace | None:
        tracer = self.context.runtime.tracer
        if tracer is None:
            return None
        return AddTrace(
            tracer, parents, ledger_id=self.ledger_id, entry_id=op.entry_id, size=op.size
        )

    def _refuse(self, size: int) -> None:
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        if size > self._payload_bytes_max:
            raise RecordTooLargeError(
                f"an entry of {size} bytes; the limit is {self._payload_bytes_max}"
            )
        raise LimitExceededError(
            f"ledger {self.ledger_id}: {len(self.queue)} entries of {self.pending_bytes} bytes "
            "wait for their quorum"
        )

    def send(self, replica: Replica, op: AddOp) -> bool:
        """Sends an entry; False: it cannot be sent, and the replica's failure is on its way."""
        link = replica.link
        connection = link.connection or link.connect()
        if connection is None:
            self._loop.call_soon(self.failures.on_error, replica, link.last_error)
            return False
        if not connection.send_add(op.key, op.frame, op, replica):
            error = TooManyRequestsError(f"{link.bookie}: too much in flight")
            self._loop.call_soon(self.failures.on_error, replica, error)
            return False
        op.outstanding |= replica.bit
        op.was_sent = True
        if op.trace is not None:
            op.trace.on_sent(replica)
        return True

    def send_missing(self, replica: Replica) -> None:
        """Sends what is pending and the replica neither has nor is about to answer."""
        for op in self.queue:
            wanted = op.write_mask & replica.bit & ~(op.acks | op.outstanding)
            if wanted and not self.send(replica, op):
                break

    # --- answers --------------------------------------------------------------------------------

    def on_added(self, op: AddOp, replica: Replica, error: RhumblineError | None) -> None:
        """An answer, a time-out or a lost connection; the connection calls it once per send."""
        if op.trace is not None:
            op.trace.on_answer(replica, error)
        if replica.last_entry_id is not None:
            self._on_answer_of_replaced(op, replica.last_entry_id, replica, error)
            return
        bit = replica.bit
        op.outstanding &= ~bit
        if op.is_done:
            if op.entry_id <= self.last_add_confirmed:
                self._lag.on_answer(op, replica, error)
        elif error is None:
            op.acks |= bit
            if not op.is_complete and self.view.is_acked(op.acks):
                op.is_complete = True
                if self.queue[0] is op:
                    self._drain()
        if error is not None:
            self.failures.on_error(replica, error)
        elif self.failures.mask & bit:
            self.failures.on_stored(replica)

    def _on_answer_of_replaced(
        self, op: AddOp, last_entry_id: int, replica: Replica, error: RhumblineError | None
    ) -> None:
        if op.entry_id <= last_entry_id:
            self._lag.on_answer(op, replica, error)

    def _drain(self) -> None:
        """Calls back complete entries from the head of the queue."""
        if self._is_frozen or self._is_draining:
            return
        self._is_draining = True
        queue = self.queue
        before, first_pushed_at = self.last_add_confirmed, queue[0].pushed_at if queue else 0.0
        while queue and queue[0].is_complete and not self._is_frozen:
            op = queue.popleft()
            self.last_add_confirmed = op.entry_id
            self._confirmed_length = op.length
            self.pending_bytes -= op.size
            op.is_done = True
            op.frame = b""
            acks = op.acks
            regions = self._regions_by_mask.get(acks)
            if regions is None:
                # Always from the indices and who sits there now, never remembered (bug B20).
                regions = self._regions_by_mask[acks] = tuple(self.view.regions_of(acks))
            if acks != op.write_mask:
                self._lag.on_confirmed(op)
            self._call_back(op, None, regions)
        self._is_draining = False
        drained = self.last_add_confirmed - before
        if drained:  # counted with the oldest of them, which waited longest
            waited_s = self._loop.time() - first_pushed_at
            self.context.adds.add_ms(int(waited_s * 1000), drained)
        if self._room_wanted and self._is_half_empty():
            self._tell_room()

    def _call_back(self, op: AddOp, error: RhumblineError | None, regions: tuple[str, ...]) -> None:
        if op.trace is not None:
            op.trace.on_done(error, regions)
        try:
            op.on_done(op.entry_id, error, regions)
        except Exception as raised:
            # A callback's mistake is its owner's: it must not cost the entries behind it theirs.
            self._loop.call_exception_handler(
                {"message": f"callback of entry {op.entry_id} raised", "exception": raised}
            )

    def _is_half_empty(self) -> bool:
        return (
            len(self.queue) <= self._pending_entries_max // 2
            and self.pending_bytes <= self._pending_bytes_max // 2
        )

    def _tell_room(self) -> None:
        wanted, self._room_wanted = self._room_wanted, []
        for callback in wanted:
            callback()

    # --- ensemble changes -----------------------------------------------------------------------

    def freeze(self) -> None:
        """No callbacks from now on: the LAC stays what it is until ``thaw``."""
        assert not self._is_frozen, "one change at a time"
        self._is_frozen = True

    def thaw(self) -> None:
        """Callbacks go on, whether or not anything changed (bug B9)."""
        self._is_frozen = False
        self._drain()

    def install(
        self, metadata: LedgerMetadata, version: Version, regions: Sequence[Region | None]
    ) -> None:
        """Takes stored metadata over: unset all, then send again; ``thaw`` drains (bug B8)."""
        assert self._is_frozen
        old = self.metadata.last_fragment.bookies
        new = metadata.last_fragment.bookies
        assert metadata.last_fragment.first_entry_id <= self.last_add_confirmed + 1
        replaced = replaced_indices(old, new)
        for index in replaced:
            self.replicas[index].last_entry_id = self.last_add_confirmed
            self.failures.on_replaced(self.replicas[index])
        self.metadata = metadata
        self.version = version
        self._take_ensemble(regions)
        gone = sum(1 << index for index in replaced)
        for op in self.queue:
            op.acks &= ~gone
            op.outstanding &= ~gone
            op.is_complete = self.view.is_acked(op.acks)
        for index in replaced:
            self.send_missing(self.replicas[index])
        self._lag.tell()

    def set_min_regions(self, min_regions: int) -> None:
        """Has later entries (and those pending) acknowledged under another R.

        It takes effect when the metadata records it; ``metadata.quorum_at`` then says so. Safe to
        repeat. Raises IllegalQuorumError when R does not fit.
        """
        self.changer.set_min_regions(min_regions)

    # --- the end --------------------------------------------------------------------------------

    def fail(self, error: RhumblineError) -> None:
        """Ends this writer at once: every pending entry is called back, in order (bug B22)."""
        if self.failure is not None:
            return
        self.failure = error
        self.failures.stop()
        self.context.handles.pop(self, None)
        unknown = AppendOutcomeUnknownError(f"ledger {self.ledger_id}: {error}")
        unknown.__cause__ = error
        queue = list(self.queue)
        self.queue.clear()
        self.pending_bytes = 0
        self.length = self._confirmed_length
        for op in queue:
            op.is_done = True
            op.frame = b""
            self._call_back(op, unknown if op.was_sent else error, ())
        self._loop.call_soon(self._tell_room)
        if not self._lag.is_waiting:
            self._lag.tell()
        if self.on_failure is not None and not isinstance(error, ClosedError):
            self.on_failure(error)

    def leave(self) -> None:
        """Asks the owner to go on with another ledger: this one's bookies should get no more data.

        Nothing happens here: as long as the owner stays, entries are taken. Safe to repeat.
        """
        if self.failure is None and self.on_leaving is not None:
            self.on_leaving()

    def abandon(self) -> None:
        """The client was closed: fails without closing the ledger."""
        self.fail(ClosedError("the ledger client was closed"))

    async def close(self) -> LedgerMetadata:
        """Closes the ledger at its LAC and returns the closed metadata. Safe to repeat.

        Pending entries fail first. Raises LedgerClosedError when somebody closed it at another
        entry, LedgerFencedError when somebody recovers it (then their end counts), and
        MetadataUnavailableError or IndeterminateError at the deadline: call it again.
        """
        self.fail(ClosedError(f"ledger {self.ledger_id} was closed by its writer"))
        return await self._closing.run()

    def tell_lac(self, on_done: Callable[[bool], None]) -> bool:
        """Tells the ensemble the LAC without an entry, so that readers see what is confirmed.

        ``on_done`` hears whether P of them took it; it is not called if this returns False: nobody
        can be told now. Safe to repeat.
        """
        return tell_lac(self, self._digest, self._master_key, on_done)

    async def publish_lac(self) -> None:
        """``tell_lac``, and waits until P of the bookies took it or all have answered."""
        done: asyncio.Future[bool] = self._loop.create_future()
        if self.tell_lac(lambda taken: None if done.done() else done.set_result(taken)):
            await done

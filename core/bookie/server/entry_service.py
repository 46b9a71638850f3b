"""The rules by which a bookie serves adds, fences, reads and LACs, in either wire form.

Invariants:
1. no response to a fencing request, positive or negative, leaves before the fence is durable (rule
   BKE-10);
2. after a fence no plain add is accepted, while recovery adds are (rule BKE-11);
3. a recovery gets "never had it" only for a ledger whose metadata names this bookie and that is not
   in limbo; otherwise the response is "unknown" (rule BKE-7);
4. an add is acknowledged only when it is durable (rule BKE-9).
"""

import asyncio
from collections.abc import Callable
from hmac import compare_digest

from ...protocol.bookie_id import BookieId
from ...protocol.errors import (
    DiskFailedError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ReadOnlyError,
    RefusedError,
    RhumblineError,
    TooManyRequestsError,
    UnauthorizedError,
    UnknownStateError,
)
from ...protocol.ledger_metadata import NO_ENTRY, LedgerMetadata
from ...runtime.event_log import EventLog, LogLimit
from ...runtime.tasks import Tasks
from ...wire.ledger_metadata import encode
from ..config import BookieConfig
from ..free_space import FreeSpaceMonitor
from ..index.ledger_entries import Location
from ..index.tiered_index import NotInMemoryError
from ..ledger_membership import LedgerMembership, MembershipCheck, MetadataReader
from ..ledger_records import LAC_BODY_BYTES_MAX, LedgerRecord, lac_of_body
from ..log.log_format import OFFSET_BITS
from ..permissions.ledger_clients import LedgerClients
from ..storage import Storage
from ..storage_listener import StorageListener
from .file_reads import BatchReading, EntryReading
from .long_poll import LongPollRegistry, ParkedPoll, Poll
from .operation_meter import OperationMeter
from .read_queue import ReadSlots
from .requests import BatchRead, EntryAdd, EntryRead, FileRead, RequestConnection, WriteLac

_LOG = EventLog(__name__)

OnRefused = Callable[[RequestConnection, str, int | None, str], None]
"""Takes the connection, the kind of request, the ledger if there is one, and the reason."""

_LIST_PAGE = 20_000
_NEGATIVE = (NoSuchEntryError, NoSuchLedgerError)


class EntryService(StorageListener):
    """Serves requests from one storage."""

    def __init__(
        self,
        config: BookieConfig,
        storage: Storage,
        ledgers: MetadataReader,
        bookie: BookieId,
        tasks: Tasks,
        space: FreeSpaceMonitor,
    ) -> None:
        self.space = space
        self.bookie = bookie
        self.config = config
        self.storage = storage
        self.membership = LedgerMembership(ledgers, bookie, tasks, config.metadata_waits_max)
        self.clients = LedgerClients(ledgers, tasks, config.metadata_waits_max)
        self.read_slots = ReadSlots(config.file_reads_max, storage.log.pace)
        """The file reads that may run at the same time, over all connections."""
        self.meter = OperationMeter()
        self.polls = LongPollRegistry(config.long_poll_ms_max, config.connection_polls_max)
        self.accepts_adds = False
        """True if plain adds are accepted. The bookie sets it by its state (life_cycle.py)."""
        self.accepts_recovery_adds = False
        """True if recovery adds are accepted."""
        self.returning: dict[int, None] = {}
        """Ledgers whose surplus copies are being deleted: not listed, and closed to copies."""
        self.failure: RhumblineError | None = None
        self.on_change: Callable[[], None] = lambda: None
        """Called when the log failed or found no space, so that the bookie updates its state."""
        self.on_refused: OnRefused = _ignore_refusal
        """Called with each refusal of a client, for the audit log."""
        self._log_limit = LogLimit()
        storage.listener = self

    @property
    def ledgers(self) -> dict[int, LedgerRecord]:
        """The ledgers on this bookie, by id."""
        return self.storage.states.ledgers

    def log_malformed(self, peer: object, error: RhumblineError | None) -> None:
        """Log that a connection was closed, since its peer broke the protocol."""
        dropped = self._log_limit.admit(asyncio.get_running_loop().time())
        if dropped is not None:
            address = ":".join(map(str, peer[:2])) if isinstance(peer, tuple) else None
            _LOG.warning(
                "malformed request",
                bookie=self.bookie,
                peer=address,
                error=error,
                dropped=dropped or None,
            )

    def respond(
        self, op: EntryAdd | EntryRead | WriteLac, error: RhumblineError | None = None
    ) -> None:
        """Sends the response to an operation that returns no entry, and counts it."""
        if isinstance(error, UnauthorizedError):
            self.on_refused(op.connection, op.kind, op.ledger_id, error.code)
        self.meter.done(op.kind, op.began, error)
        op.connection.send(op.response(error))

    def respond_entry(self, op: EntryRead, entry: bytes) -> None:
        """Sends the entry that was read, and counts the read."""
        self.meter.done(op.kind, op.began)
        op.connection.send(op.response(None, entry))

    # --- adds -----------------------------------------------------------------------------------

    def add(self, op: EntryAdd) -> None:
        """Appends or refuses an add, after a membership check if the ledger is not proven."""
        op.began = self.meter.now()
        ledger = self.ledgers.get(op.ledger_id)
        if ledger is not None and (ledger.is_proven or op.is_recovery):
            self._add(op, ledger)
        elif op.is_recovery and op.ledger_id in self.storage.states.tombstones:
            op.connection.add_inflight(len(op.entry))
            self._check_membership(op, lambda membership: self._lift_tombstone(op, membership))
        elif op.is_recovery:
            self._add_to_new_ledger(op, is_proven=False)
        else:
            refusal = self._add_refusal(op, ledger)
            if refusal is not None:
                self.respond(op, refusal)
                return
            op.connection.add_inflight(len(op.entry))
            self._check_membership(op, lambda membership: self._continue_add(op, membership))

    def _continue_add(self, op: EntryAdd, membership: MembershipCheck) -> None:
        op.connection.release_inflight(len(op.entry))
        if membership is not MembershipCheck.NAMED:
            error = UnknownStateError(f"the metadata of ledger {op.ledger_id} {membership.value}")
            self.respond(op, error)
            return
        ledger = self.ledgers.get(op.ledger_id)
        if ledger is None:
            self._add_to_new_ledger(op, is_proven=True)
            return
        self._mark_proven(ledger)
        self._add(op, ledger)

    def _lift_tombstone(self, op: EntryAdd, membership: MembershipCheck) -> None:
        """Accepts a copy of a ledger that this bookie had returned, if the ledger exists."""
        op.connection.release_inflight(len(op.entry))
        ledger = self.ledgers.get(op.ledger_id)
        error: RhumblineError | None = None
        if membership is MembershipCheck.UNKNOWN:
            error = UnknownStateError(f"the metadata of ledger {op.ledger_id} {membership.value}")
        elif membership is MembershipCheck.DELETED:
            error = NoSuchLedgerError(f"ledger {op.ledger_id} was deleted")
        elif ledger is None:
            error = self._recovery_refusal(op)
        if error is not None:
            op.connection.send(op.response(error))
            return
        if ledger is None and op.ledger_id in self.storage.states.tombstones:
            ledger = self.storage.recreate_ledger(op.ledger_id, op.master_key)
            self.polls.ledger_created(ledger)
        if ledger is None:
            self._add_to_new_ledger(op, is_proven=False)
        else:
            self._add(op, ledger)

    def _recovery_refusal(self, op: EntryAdd) -> RhumblineError | None:
        """Return why a tombstone cannot be lifted now."""
        if self.failure is not None:
            return DiskFailedError("the write log has failed; this bookie accepts no adds")
        if not self.accepts_recovery_adds:
            return ReadOnlyError("this bookie is read-only")
        if op.ledger_id in self.returning:
            return _returning_error(op.ledger_id)
        if len(self.ledgers) >= self.config.ledger_count_max:
            return _too_many_ledgers(len(self.ledgers))
        return None

    def _add_to_new_ledger(self, op: EntryAdd, *, is_proven: bool) -> None:
        refusal = self._add_refusal(op, None)
        if refusal is not None:
            self.respond(op, refusal)
            return
        ledger = self._create_ledger(op.ledger_id, op.master_key, is_proven=is_proven)
        self._add(op, ledger)

    def _add(self, op: EntryAdd, ledger: LedgerRecord) -> None:
        refusal = self._add_refusal(op, ledger)
        if refusal is not None:
            self.respond(op, refusal)
            return
        op.connection.add_inflight(len(op.entry))
        self.storage.add(ledger, op.entry, op.connection, op.waiting())

    def _create_ledger(self, ledger_id: int, master_key: bytes, *, is_proven: bool) -> LedgerRecord:
        ledger = self.storage.create_ledger(
            ledger_id,
            master_key,
            is_proven=is_proven,
            metadata=self.membership.metadata_of(ledger_id),
        )
        self.polls.ledger_created(ledger)
        return ledger

    def _mark_proven(self, ledger: LedgerRecord) -> None:
        metadata = self.membership.metadata_of(ledger.ledger_id)
        self.storage.mark_proven(ledger, metadata)

    def _add_refusal(self, op: EntryAdd, ledger: LedgerRecord | None) -> RhumblineError | None:
        if self.failure is not None:
            return DiskFailedError("the write log has failed; this bookie accepts no adds")
        if not (self.accepts_recovery_adds if op.is_recovery else self.accepts_adds):
            return ReadOnlyError("this bookie is read-only")
        if ledger is None:
            if op.ledger_id in self.storage.states.tombstones:
                return NoSuchLedgerError(f"ledger {op.ledger_id} was deleted")
            if len(self.ledgers) >= self.config.ledger_count_max:
                return _too_many_ledgers(len(self.ledgers))
            return None
        if not compare_digest(ledger.master_key, op.master_key):
            return UnauthorizedError(f"ledger {op.ledger_id} has another master key")
        if op.is_recovery:
            is_returning = op.ledger_id in self.returning
            return _returning_error(op.ledger_id) if is_returning else None
        if ledger.is_fenced:
            return LedgerFencedError(f"ledger {op.ledger_id} is fenced")
        if self.storage.states.limbo.covers(op.ledger_id):
            return UnknownStateError(f"ledger {op.ledger_id} is in limbo here")
        return None

    def _check_membership(
        self, op: EntryAdd | EntryRead | WriteLac, on_check: Callable[[MembershipCheck], None]
    ) -> None:
        try:
            self.membership.check(op.ledger_id, on_check)
        except TooManyRequestsError as error:
            if isinstance(op, EntryAdd):
                op.connection.release_inflight(len(op.entry))
            self.respond(op, error)

    # --- reads ----------------------------------------------------------------------------------

    def read(self, op: EntryRead) -> None:
        """Serves a read, after the fence if it has one."""
        op.began = self.meter.now()
        if not op.is_fencing:
            self._read_now(op)
        elif not op.master_key:
            self.respond(op, UnauthorizedError("a fencing read needs the master key"))
        else:
            ledger = self.ledgers.get(op.ledger_id)
            if ledger is not None and ledger.is_proven:
                self._fence(op, ledger)
            else:
                self._check_membership(op, lambda membership: self._continue_fence(op, membership))

    def _continue_fence(self, op: EntryRead, membership: MembershipCheck) -> None:
        """Fences a ledger after its membership check; creates its state if needed (rule BKE-12)."""
        ledger = self.ledgers.get(op.ledger_id)
        if ledger is None:
            if (
                membership is MembershipCheck.DELETED
                or op.ledger_id in self.storage.states.tombstones
            ):
                self.respond(op, UnknownStateError(f"ledger {op.ledger_id} was deleted"))
                return
            refusal = self._new_fence_refusal()
            if refusal is not None:
                self.respond(op, refusal)
                return
            ledger = self._create_ledger(
                op.ledger_id, op.master_key, is_proven=membership is MembershipCheck.NAMED
            )
        elif membership is MembershipCheck.NAMED:
            self._mark_proven(ledger)
        self._fence(op, ledger)

    def _new_fence_refusal(self) -> RhumblineError | None:
        if len(self.ledgers) >= self.config.ledger_count_max:
            return _too_many_ledgers(len(self.ledgers))
        return None

    def _fence(self, op: EntryRead, ledger: LedgerRecord) -> None:
        if not compare_digest(ledger.master_key, op.master_key):
            error = UnauthorizedError(f"ledger {op.ledger_id} has another master key")
            self.respond(op, error)
            return
        was_fenced = ledger.is_fenced

        def durable(error: RhumblineError | None) -> None:
            if error is not None:
                self.respond(op, error)
                return
            if not was_fenced:
                self.polls.wake_all(ledger)
            self._read_now(op)

        self.storage.fence(ledger, durable)

    def _read_now(self, op: EntryRead) -> None:
        if isinstance(op, BatchRead):
            is_urgent = op.is_fencing or self._is_recent(op.ledger_id, op.entry_id)
            op.connection.enqueue_read(BatchReading(self, op, is_urgent=is_urgent))
            return
        entry_id = op.entry_id
        try:
            entry_id = self.resolve(op.ledger_id, entry_id, is_fencing=op.is_fencing)
            location = self.storage.find(op.ledger_id, entry_id)
        except NotInMemoryError:
            op.connection.enqueue_read(EntryReading(self, op, entry_id, None))
            return
        except RhumblineError as error:
            self.respond(op, self.weaken_denial(op, error))
            return
        entry = None if op.connection.is_full else self.storage.cached(location)
        if entry is not None:
            self.respond_entry(op, entry)
            return
        op.connection.enqueue_read(EntryReading(self, op, entry_id, location))

    def _is_recent(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry is in the tail cache."""
        try:
            return self.storage.cached(self.storage.find(ledger_id, entry_id)) is not None
        except RhumblineError:
            return False

    def weaken_denial(self, op: EntryRead, error: RhumblineError) -> RhumblineError:
        """Turns a denial into "unknown" unless the ledger is proven (invariant 3)."""
        if op.is_fencing and isinstance(error, _NEGATIVE):
            ledger = self.ledgers.get(op.ledger_id)
            if ledger is None or not ledger.is_proven:
                return UnknownStateError(f"ledger {op.ledger_id} is not known to be on this bookie")
        return error

    def resolve(self, ledger_id: int, entry_id: int, *, is_fencing: bool = False) -> int:
        """Return an entry's id: -1 stands for the last entry.

        In limbo a later entry may have been lost, so the last one is unknown. A fencing read gets
        the last one that is left: a recovery only begins to read at its LAC (rule REC-6).

        Raises NoSuchEntryError, NoSuchLedgerError, UnknownStateError.
        """
        if entry_id != NO_ENTRY:
            return entry_id
        if not is_fencing and self.storage.states.limbo.covers(ledger_id):
            raise UnknownStateError(f"ledger {ledger_id} is in limbo here")
        entry_id = self.storage.last_entry(ledger_id)
        if entry_id == NO_ENTRY:
            raise self.storage.absence(ledger_id)
        return entry_id

    async def locate_for(
        self, read: FileRead, connection: RequestConnection, ledger_id: int, entry_id: int
    ) -> Location | None:
        """Return where an entry is, for a read that runs.

        If the file is in another directory than those of the read, the read is queued again for
        that directory, and the result is None. Raises as ``Storage.locate``.
        """
        location = await self.storage.locate(ledger_id, entry_id)
        directory = self.storage.directory_of(location)
        if directory == read.directory:
            return location
        read.directory = directory
        connection.enqueue_read(read)
        return None

    async def fetch(
        self, read: FileRead, connection: RequestConnection, ledger_id: int, entry_id: int
    ) -> bytes | None:
        """Return an entry (-1: the last one) from memory or its file, for a read that runs.

        The result is None if the read was queued again, as by ``locate_for``. Raises as ``resolve``
        and ``Storage.read``.
        """
        entry_id = self.resolve(ledger_id, entry_id)
        location = await self.locate_for(read, connection, ledger_id, entry_id)
        if location is None:
            return None
        entry = self.storage.cached(location)
        if entry is None:
            entry = await self.storage.read(ledger_id, entry_id, location)
        return entry

    async def entry_ids(self, ledger_id: int) -> list[int]:
        """Return the ids of a ledger's entries on this bookie, rising; yields between pages.

        In limbo these are the entries that are left, so that repair can restore the others; so it
        is with entries in a failed data directory (rule DSK-5). Raises NoSuchLedgerError;
        UnknownStateError if the ledger was deleted in limbo.
        """
        if ledger_id in self.returning:
            raise _returning_error(ledger_id)
        if not self.storage.is_held(ledger_id):
            raise self.storage.absence(ledger_id)
        found: list[int] = []
        first, is_lost = 0, self.storage.is_lost
        while True:
            page = await self.storage.index.page(ledger_id, first, _LIST_PAGE)
            found.extend(row.entry_id for row in page if not is_lost(row.position >> OFFSET_BITS))
            if len(page) < _LIST_PAGE:
                return found
            first = page[-1].entry_id + 1
            await asyncio.sleep(0)

    # --- LAC ------------------------------------------------------------------------------------

    def poll(self, poll: Poll, connection_polls: dict[ParkedPoll, None]) -> None:
        """Waits for a higher LAC. Raises NoSuchLedgerError (deleted), TooManyRequestsError."""
        if poll.ledger_id in self.storage.states.tombstones:
            raise NoSuchLedgerError(f"ledger {poll.ledger_id} was deleted")
        self.polls.serve(poll, self.ledgers.get(poll.ledger_id), connection_polls)

    def write_lac(self, op: WriteLac) -> None:
        """Stores an explicit LAC and creates the ledger's state if needed.

        An explicit LAC of -1 introduces the ledger: the writer sends it before its first add, so
        that the bookie checks its membership early (``_introduce``, rule BKE-6). Sent again, it
        renews the bookie's copy of the metadata.
        """
        op.began = self.meter.now()
        refusal = self._lac_refusal(op)
        if refusal is not None:
            self.respond(op, refusal)
            return
        ledger = self.ledgers.get(op.ledger_id)
        if lac_of_body(op.body) == NO_ENTRY:
            self._introduce(op, ledger)
            return
        if ledger is None:
            ledger = self._create_ledger(op.ledger_id, op.master_key, is_proven=False)
        self.storage.write_lac(ledger, op.body, lambda error: self.respond(op, error))

    def _introduce(self, op: WriteLac, ledger: LedgerRecord | None) -> None:
        """Checks the ledger's membership before its first add arrives.

        The first add then does not need the metadata store, which may be unavailable by then. The
        guarantee is the same: the same incarnation makes the same linearizable read, and the state
        that it creates is what the first add would create, without the entry. A fence or a deletion
        between this request and the first add takes effect as usual.
        """
        if ledger is not None and ledger.is_proven:
            self._renew_copy(op)
        elif self.membership.is_reading(op.ledger_id):  # that read may be older than this request
            self._check_membership(
                op, lambda _: self._introduce(op, self.ledgers.get(op.ledger_id))
            )
        else:
            self._check_membership(
                op, lambda membership: self._continue_introduction(op, membership)
            )

    def _renew_copy(self, op: WriteLac) -> None:
        """Reads the metadata of a known ledger, and responds once the copy is durable (BAK-11)."""

        def on_read(found: LedgerMetadata | RhumblineError) -> None:
            ledger = self.ledgers.get(op.ledger_id)
            if isinstance(found, RhumblineError):
                text = f"the metadata of ledger {op.ledger_id} could not be read: {found}"
                self.respond(op, UnknownStateError(text))
                return
            if ledger is None:
                self.respond(op, NoSuchLedgerError(f"ledger {op.ledger_id} was deleted"))
                return
            self.storage.refresh_copy(ledger, encode(found))
            self.storage.when_durable(lambda error: self.respond(op, error))

        try:
            self.membership.read_again(op.ledger_id, on_read)
        except TooManyRequestsError as error:
            self.respond(op, error)

    def _continue_introduction(self, op: WriteLac, membership: MembershipCheck) -> None:
        refusal = self._lac_refusal(op)  # checked again, since other requests were served meanwhile
        ledger = self.ledgers.get(op.ledger_id)
        if refusal is None and membership is not MembershipCheck.NAMED:
            refusal = UnknownStateError(f"the metadata of ledger {op.ledger_id} {membership.value}")
        elif refusal is None and ledger is None:
            self._create_ledger(op.ledger_id, op.master_key, is_proven=True)
        elif refusal is None and ledger is not None:
            self._mark_proven(ledger)
        self.respond(op, refusal)

    def _lac_refusal(self, op: WriteLac) -> RhumblineError | None:
        ledger = self.ledgers.get(op.ledger_id)
        if self.failure is not None or not self.accepts_adds:
            return ReadOnlyError("this bookie is read-only")
        if not 16 <= len(op.body) <= LAC_BODY_BYTES_MAX or lac_of_body(op.body) < NO_ENTRY:
            return RefusedError("malformed body of an explicit LAC")
        if ledger is None and op.ledger_id in self.storage.states.tombstones:
            return NoSuchLedgerError(f"ledger {op.ledger_id} was deleted")
        if ledger is None and len(self.ledgers) >= self.config.ledger_count_max:
            return _too_many_ledgers(len(self.ledgers))
        if ledger is not None and not compare_digest(ledger.master_key, op.master_key):
            return UnauthorizedError(f"ledger {op.ledger_id} has another master key")
        return None

    # --- StorageListener ------------------------------------------------------------------------

    def ledgers_advanced(self, ledgers: list[LedgerRecord]) -> None:
        """See StorageListener."""
        for ledger in ledgers:
            self.polls.lac_advanced(ledger)

    def log_failed(self, error: RhumblineError) -> None:
        """See StorageListener."""
        self.failure = error
        self.on_change()

    def space_ran_out(self, error: RhumblineError) -> None:
        """See StorageListener."""
        self.space.mark_full()
        self.on_change()


def _too_many_ledgers(count: int) -> TooManyRequestsError:
    return TooManyRequestsError(f"this bookie holds {count} ledgers, which is its maximum")


def _returning_error(ledger_id: int) -> UnknownStateError:
    return UnknownStateError(f"surplus copies of ledger {ledger_id} are being deleted here")


def _ignore_refusal(
    connection: RequestConnection, kind: str, ledger_id: int | None, reason: str
) -> None:
    pass

"""What a bookie does with requests, in whichever form they came: the rules of adds, fences, reads.

Invariants:
1. no answer to a fencing request, positive or negative, leaves before the fence is durable;
2. after a fence no plain add is taken; recovery adds pass;
3. "never had it" is said to a recoverer only for a ledger whose metadata names this bookie and that
   is not in limbo; otherwise the answer is "unknown";
4. an add is acknowledged only when it is durable.
"""

import asyncio
from collections.abc import Callable

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
from ...protocol.ledger_metadata import NO_ENTRY
from ...runtime.tasks import Tasks
from ..config import BookieConfig
from ..free_space import FreeSpaceMonitor
from ..index.entry_index import Location
from ..ledger_membership import LedgerMembership, MembershipCheck, MetadataReader
from ..ledger_records import LAC_BODY_BYTES_MAX, LedgerRecord, lac_of_body
from ..storage import Storage
from ..storage_listener import StorageListener
from .file_reads import BatchReading, EntryReading
from .long_poll import ParkedPoll, Poll, PollDesk
from .requests import BatchRead, EntryAdd, EntryRead, WriteLac

_LIST_PAGE = 20_000
_NEGATIVE = (NoSuchEntryError, NoSuchLedgerError)


class EntryService(StorageListener):
    """The request rules over one storage."""

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
        self.proofs = LedgerMembership(ledgers, bookie, tasks, config.learning_count_max)
        self.polls = PollDesk(config.long_poll_ms_max, config.connection_polls_max)
        self.takes_adds = True
        """Whether plain adds are taken at all; false on a full or failed disk, or by command."""
        self.takes_recovery_adds = True
        self.failure: RhumblineError | None = None
        self.ran_out_of_space = False
        self.on_change: Callable[[], None] = lambda: None
        """Called when the log failed or found no space; the owner decides what is taken then."""
        storage.listener = self

    @property
    def ledgers(self) -> dict[int, LedgerRecord]:
        """The ledgers known here."""
        return self.storage.states.ledgers

    # --- adds -----------------------------------------------------------------------------------

    def add(self, op: EntryAdd) -> None:
        """Takes an add, or refuses it at once, or after a look at the ledger's metadata."""
        ledger = self.ledgers.get(op.ledger_id)
        if ledger is not None and (ledger.is_proven or op.is_recovery):
            self._add(op, ledger)
        elif op.is_recovery:
            self._add_to_new_ledger(op, is_proven=False)
        else:
            fault = self._fault_of_add(op, ledger)
            if fault is not None:
                op.connection.send(op.answer(fault))
                return
            op.connection.expect(len(op.entry))
            self._prove(op, lambda proof: self._add_after(op, proof))

    def _add_after(self, op: EntryAdd, proof: MembershipCheck) -> None:
        op.connection.settle(len(op.entry))
        if proof is not MembershipCheck.NAMED:
            error = UnknownStateError(f"ledger {op.ledger_id}: its metadata is {proof.value}")
            op.connection.send(op.answer(error))
            return
        ledger = self.ledgers.get(op.ledger_id)
        if ledger is None:
            self._add_to_new_ledger(op, is_proven=True)
            return
        self.storage.prove(ledger)
        self._add(op, ledger)

    def _add_to_new_ledger(self, op: EntryAdd, *, is_proven: bool) -> None:
        fault = self._fault_of_add(op, None)
        if fault is not None:
            op.connection.send(op.answer(fault))
            return
        ledger = self._create_ledger(op.ledger_id, op.master_key, is_proven=is_proven)
        self._add(op, ledger)

    def _add(self, op: EntryAdd, ledger: LedgerRecord) -> None:
        fault = self._fault_of_add(op, ledger)
        if fault is not None:
            op.connection.send(op.answer(fault))
            return
        op.connection.expect(len(op.entry))
        self.storage.add(ledger, op.entry, op.connection, op.answer(None))

    def _create_ledger(self, ledger_id: int, master_key: bytes, *, is_proven: bool) -> LedgerRecord:
        ledger = self.storage.create_ledger(ledger_id, master_key, is_proven=is_proven)
        self.polls.began(ledger)
        return ledger

    def _fault_of_add(self, op: EntryAdd, ledger: LedgerRecord | None) -> RhumblineError | None:
        if self.failure is not None:
            return DiskFailedError("the write log has failed; this bookie takes no adds")
        if not (self.takes_recovery_adds if op.is_recovery else self.takes_adds):
            return ReadOnlyError("this bookie is read-only")
        if ledger is None:
            if op.ledger_id in self.storage.states.tombstones:
                return NoSuchLedgerError(f"ledger {op.ledger_id} was deleted")
            if len(self.ledgers) >= self.config.ledger_count_max:
                return TooManyRequestsError("this bookie holds as many ledgers as it may")
            return None
        if ledger.master_key != op.master_key:
            return UnauthorizedError(f"ledger {op.ledger_id} has another master key")
        if op.is_recovery:
            return None
        if ledger.is_fenced:
            return LedgerFencedError(f"ledger {op.ledger_id} is fenced")
        if self.storage.states.limbo.covers(op.ledger_id):
            return UnknownStateError(f"ledger {op.ledger_id} is in limbo here")
        return None

    def _prove(
        self, op: EntryAdd | EntryRead | WriteLac, on_proof: Callable[[MembershipCheck], None]
    ) -> None:
        try:
            self.proofs.ask(op.ledger_id, on_proof)
        except TooManyRequestsError as error:
            if isinstance(op, EntryAdd):
                op.connection.settle(len(op.entry))
            op.connection.send(op.answer(error))

    # --- reads ----------------------------------------------------------------------------------

    def read(self, op: EntryRead) -> None:
        """Answers a read, after the fence if it has one."""
        if not op.is_fencing:
            self._read_now(op)
        elif not op.master_key:
            op.connection.send(op.answer(UnauthorizedError("a fence needs the master key")))
        else:
            ledger = self.ledgers.get(op.ledger_id)
            if ledger is not None and ledger.is_proven:
                self._fence(op, ledger)
            else:
                self._prove(op, lambda proof: self._fence_after(op, proof))

    def _fence_after(self, op: EntryRead, proof: MembershipCheck) -> None:
        """Fences a ledger that this bookie has no proof of, or learns to be its own."""
        ledger = self.ledgers.get(op.ledger_id)
        if ledger is None:
            if proof is MembershipCheck.GONE or op.ledger_id in self.storage.states.tombstones:
                op.connection.send(
                    op.answer(UnknownStateError(f"ledger {op.ledger_id} was deleted"))
                )
                return
            fault = self._fault_of_new_fence()
            if fault is not None:
                op.connection.send(op.answer(fault))
                return
            ledger = self._create_ledger(
                op.ledger_id, op.master_key, is_proven=proof is MembershipCheck.NAMED
            )
        elif proof is MembershipCheck.NAMED:
            self.storage.prove(ledger)
        self._fence(op, ledger)

    def _fault_of_new_fence(self) -> RhumblineError | None:
        if len(self.ledgers) >= self.config.ledger_count_max:
            return TooManyRequestsError("this bookie holds as many ledgers as it may")
        return None

    def _fence(self, op: EntryRead, ledger: LedgerRecord) -> None:
        if ledger.master_key != op.master_key:
            error = UnauthorizedError(f"ledger {op.ledger_id} has another master key")
            op.connection.send(op.answer(error))
            return
        was_fenced = ledger.is_fenced

        def durable(error: RhumblineError | None) -> None:
            if error is not None:
                op.connection.send(op.answer(error))
                return
            if not was_fenced:
                self.polls.wake_all(ledger)
            self._read_now(op)

        self.storage.fence(ledger, durable)

    def _read_now(self, op: EntryRead) -> None:
        if isinstance(op, BatchRead):
            op.connection.read_later(BatchReading(self, op))
            return
        try:
            entry_id, location = self.locate(op.ledger_id, op.entry_id)
        except RhumblineError as error:
            op.connection.send(op.answer(self.negative(op, error)))
            return
        entry = self.storage.cached(location)
        if entry is not None:
            op.connection.send(op.answer(None, entry))
            return
        op.connection.read_later(EntryReading(self, op, entry_id, location))

    def negative(self, op: EntryRead, error: RhumblineError) -> RhumblineError:
        """What may be said of an entry that is not here (invariant 3)."""
        if op.is_fencing and isinstance(error, _NEGATIVE):
            ledger = self.ledgers.get(op.ledger_id)
            if ledger is None or not ledger.is_proven:
                return UnknownStateError(f"ledger {op.ledger_id} is not known to be held here")
        return error

    def locate(self, ledger_id: int, entry_id: int) -> tuple[int, Location]:
        """The id (for -1: of the last entry) and place of an entry. Raises as ``Storage.find``."""
        if entry_id == NO_ENTRY:
            entry_id = self.storage.last_entry(ledger_id)
            if entry_id == NO_ENTRY:
                raise self.storage.absence(ledger_id)
        return entry_id, self.storage.find(ledger_id, entry_id)

    async def fetch(self, ledger_id: int, entry_id: int) -> bytes:
        """An entry (-1: the last one) from memory or file. Raises as Storage.find and read."""
        entry_id, location = self.locate(ledger_id, entry_id)
        entry = self.storage.cached(location)
        if entry is None:
            entry = await self.storage.read(ledger_id, entry_id, location)
        return entry

    async def entry_ids(self, ledger_id: int) -> list[int]:
        """The ids of all entries of a ledger that are here, rising; other work goes on meanwhile.

        Raises NoSuchLedgerError; UnknownStateError when the list may be too short (limbo).
        """
        absence = self.storage.absence(ledger_id)
        if not isinstance(absence, NoSuchEntryError):
            raise absence
        found: list[int] = []
        while True:
            first = found[-1] + 1 if found else 0
            page = self.storage.index.page(ledger_id, first, _LIST_PAGE)
            found.extend(row.entry_id for row in page)
            if len(page) < _LIST_PAGE:
                return found
            await asyncio.sleep(0)

    # --- LAC ------------------------------------------------------------------------------------

    def poll(self, poll: Poll, of_connection: dict[ParkedPoll, None]) -> None:
        """Waits for a higher LAC. Raises NoSuchLedgerError (deleted), TooManyRequestsError."""
        if poll.ledger_id in self.storage.states.tombstones:
            raise NoSuchLedgerError(f"ledger {poll.ledger_id} was deleted")
        self.polls.serve(poll, self.ledgers.get(poll.ledger_id), of_connection)

    def write_lac(self, op: WriteLac) -> None:
        """Keeps an explicit LAC; creates the ledger's state if need be.

        One that says that nothing is confirmed yet introduces the ledger (``_introduce``).
        """
        fault = self._fault_of_lac(op)
        if fault is not None:
            op.connection.send(op.answer(fault))
            return
        ledger = self.ledgers.get(op.ledger_id)
        if lac_of_body(op.body) == NO_ENTRY:
            self._introduce(op, ledger)
            return
        if ledger is None:
            ledger = self._create_ledger(op.ledger_id, op.master_key, is_proven=False)
        self.storage.write_lac(ledger, op.body, lambda error: op.connection.send(op.answer(error)))

    def _introduce(self, op: WriteLac, ledger: LedgerRecord | None) -> None:
        """Looks the ledger up now, as its first add would have it looked up.

        So that add needs no metadata store, which may be away by then. Nothing is weaker for it:
        the rule is the same point read of the same ledger by the same incarnation, and what is kept
        is what the first add would leave had it come now, but for the entry. A fence that comes in
        between is a fence, and a ledger that is deleted in between gets its tombstone.
        """
        if ledger is not None and ledger.is_proven:
            op.connection.send(op.answer(None))
        else:
            self._prove(op, lambda proof: self._introduce_after(op, proof))

    def _introduce_after(self, op: WriteLac, proof: MembershipCheck) -> None:
        fault = self._fault_of_lac(op)  # again: others were served meanwhile
        ledger = self.ledgers.get(op.ledger_id)
        if fault is None and proof is not MembershipCheck.NAMED:
            fault = UnknownStateError(f"ledger {op.ledger_id}: its metadata is {proof.value}")
        elif fault is None and ledger is None:
            self._create_ledger(op.ledger_id, op.master_key, is_proven=True)
        elif fault is None and ledger is not None:
            self.storage.prove(ledger)
        op.connection.send(op.answer(fault))

    def _fault_of_lac(self, op: WriteLac) -> RhumblineError | None:
        ledger = self.ledgers.get(op.ledger_id)
        if self.failure is not None or not self.takes_adds:
            return ReadOnlyError("this bookie is read-only")
        if not 16 <= len(op.body) <= LAC_BODY_BYTES_MAX or lac_of_body(op.body) < NO_ENTRY:
            return RefusedError("not the body of an explicit LAC")
        if ledger is None and op.ledger_id in self.storage.states.tombstones:
            return NoSuchLedgerError(f"ledger {op.ledger_id} was deleted")
        if ledger is None and len(self.ledgers) >= self.config.ledger_count_max:
            return TooManyRequestsError("this bookie holds as many ledgers as it may")
        if ledger is not None and ledger.master_key != op.master_key:
            return UnauthorizedError(f"ledger {op.ledger_id} has another master key")
        return None

    # --- what storage tells ---------------------------------------------------------------------

    def ledgers_advanced(self, ledgers: list[LedgerRecord]) -> None:
        """See StorageListener."""
        for ledger in ledgers:
            self.polls.advanced(ledger)

    def log_failed(self, error: RhumblineError) -> None:
        """See StorageListener."""
        self.failure = error
        self.takes_adds = self.takes_recovery_adds = False
        self.on_change()

    def space_ran_out(self, error: RhumblineError) -> None:
        """See StorageListener."""
        self.takes_adds = self.takes_recovery_adds = False
        self.ran_out_of_space = True
        self.on_change()

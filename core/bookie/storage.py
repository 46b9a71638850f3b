"""A bookie's storage: the write log, the index over it, the state of ledgers, and reads.

An entry can be read, and its LAC counts, from the moment when it is durable, so nothing is served
that a crash could take back. Answers are three-valued: an entry, NoSuchEntryError or
NoSuchLedgerError where that can be proved, and otherwise an error that means "unknown".
"""

from collections.abc import Callable, Iterator

from crc32c import crc32c

from ..protocol.bookie_id import BookieId
from ..protocol.errors import (
    CorruptionError,
    DiskFailedError,
    DiskFullError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
    UnknownStateError,
)
from ..protocol.ledger_metadata import NO_ENTRY
from ..runtime.disk import Disk
from ..runtime.runtime import Runtime
from ..wire.entry import ENTRY_HEADER
from .config import BookieConfig
from .index.contiguous_read import entries_in, run_from, span_of
from .index.ledger_entries import Location
from .index.tiered_index import IndexStore, TieredIndex
from .ledger_records import LedgerRecord, LedgerRecords, clean_end_record, lac_of_body
from .log.commit_group import Answerer, CommitGroup, OnDurable, WaitingAdds
from .log.file_set import FileGoneError, FileSet
from .log.group_rows import take_rows
from .log.index_reconciliation import recover, remove_leftovers
from .log.log_format import RECORD_HEADER, RECORD_HEADER_BYTES
from .log.replay import Damage
from .log.sorted_file import SortedFile, SortedFileWriter
from .log.tail_cache import TailCache
from .log.write_log import WriteLog
from .storage_listener import StorageListener

LOG_GONE = (
    "the write log of this bookie is gone: what it acknowledged is lost here; "
    "format an empty directory as a new bookie"
)

_LAST_LOG_BYTES = 4 << 20
"""Every start reads the last log, for the state; an orderly end leaves one not longer than this."""


class Storage:
    """All that a bookie keeps on disk. Made by ``open``; one owner."""

    def __init__(
        self,
        runtime: Runtime,
        disk: Disk,
        config: BookieConfig,
        bookie: BookieId,
        index_store: IndexStore,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._bookie = bookie
        self.files = FileSet(disk, config.read_cache_bytes)
        self.log = WriteLog(self.files, config, bookie, self)
        self.states = LedgerRecords()
        self.index = TieredIndex(index_store)
        self.tail = TailCache(config.tail_cache_bytes)
        self.listener = StorageListener()
        self.damages: list[Damage] = []
        self.sealed_logs: list[int] = []
        """Logs before the one that is being written, oldest first."""
        self.sorted: dict[int, SortedFile] = {}
        self._sequence = 0
        self._checkpoint_at = config.index_rows_max
        self.on_tasks_due: Callable[[], None] = lambda: None
        """Called when a log was sealed, or the index has much in memory."""
        self._highest_number = 0
        self.entry_count = 0
        self.entry_bytes = 0

    async def open(self, *, must_exist: bool = False) -> None:
        """Replays what is there and begins a new log file.

        Raises ForeignDataError, CorruptionError (the log that must exist is gone), DiskFullError,
        DiskFailedError.
        """
        await self.files.prepare()
        opened = await recover(self.files, self.index, self._bookie, self._config.boot_id)
        if must_exist and opened.last_log is None:
            raise CorruptionError(LOG_GONE)
        self.states = states = opened.states
        self.damages = opened.damages
        self._highest_number = opened.highest_number
        self.sealed_logs = opened.logs
        self.sorted = opened.sorted
        self._sequence = max(self.index.store.sequence, states.manifest.index_sequence)
        for ledger_id in states.tombstones:
            self.index.drop(ledger_id)
        if opened.damages:
            states.limbo.begin(None)
        states.settle()
        states.boot_id = self._config.boot_id
        # Files that are lost are no longer asked for, from the very snapshot on that says limbo.
        states.manifest.log_floor = min(opened.logs, default=self._highest_number + 1)
        states.manifest.sorted_files = {one.number: one.end for one in opened.sorted.values()}
        await self.log.open(opened.last_log)
        await remove_leftovers(self.files, opened)

    async def aclose(self) -> None:
        """Writes what is pending, marks the end as orderly, closes. Safe to repeat."""
        if self.log.failure is None:
            if self.index.store.is_durable and self.log.current.end > _LAST_LOG_BYTES:
                self.log.roll_next()
            self.log.append_state(clean_end_record())
        is_orderly = self.log.failure is None
        await self.log.aclose()
        if is_orderly and self.index.store.is_durable:
            await self._last_checkpoint()
        await self.files.aclose()
        await self.index.store.close()

    async def _last_checkpoint(self) -> None:
        """With the log closed, the index covers it to its end: a start reads its last file only."""
        self._sequence += 1
        try:
            await self.index.checkpoint(self.log.number + 1, self._sequence)
        except (DiskFullError, DiskFailedError):
            return  # then the next start reads the log instead

    async def abandon(self) -> None:
        """Closes the files of a storage that could not be opened. Safe to repeat."""
        await self.log.aclose()
        await self.files.aclose()
        await self.index.store.close()

    # --- adding ---------------------------------------------------------------------------------

    def add(self, ledger: LedgerRecord, entry: bytes, connection: Answerer, answer: bytes) -> None:
        """Appends an entry that the caller checked; the answer goes out when it is durable."""
        group = self.log.open_group()
        _, entry_id, lac, _ = ENTRY_HEADER.unpack_from(entry)
        size = len(entry)
        offset = group.body_bytes + RECORD_HEADER_BYTES
        group.buffers += (RECORD_HEADER.pack(size, crc32c(entry)), entry)
        group.adds.append((ledger, entry_id, lac, offset, size))
        group.body_bytes = offset + size
        group.count += 1
        outbox = group.outbox_of(connection)
        outbox.answers.append(answer)
        outbox.request_bytes += size
        self.log.kick()
        if ledger.polls:
            self.hear(ledger, lac)

    def hear(self, ledger: LedgerRecord, lac: int) -> None:
        """Wakes who waits for a LAC as soon as it is heard of.

        What an entry says of those before it is true, whether or not the entry itself will be
        durable; after a crash the LAC may be a lower one that is true as well.
        """
        if self._advance(ledger, lac) and ledger.polls:
            self.listener.ledgers_advanced([ledger])

    def create_ledger(self, ledger_id: int, master_key: bytes, *, is_proven: bool) -> LedgerRecord:
        """State for a ledger seen for the first time, journaled before what follows."""
        ledger = self.states.create(ledger_id, master_key)
        ledger.is_proven = is_proven
        self.states.settle_ledger(ledger)
        self.log.append_state(ledger.encode())
        return ledger

    def prove(self, ledger: LedgerRecord) -> None:
        """The ledger's metadata was seen to name this bookie."""
        if not ledger.is_proven:
            ledger.is_proven = True
            self.states.settle_ledger(ledger)
            self.log.append_state(ledger.encode())

    def fence(self, ledger: LedgerRecord, on_durable: OnDurable) -> None:
        """No plain add is taken from now on; ``on_durable`` when no crash can undo that."""
        ledger.is_fenced = True
        ledger.takes_adds = False
        if ledger.is_fence_durable:
            on_durable(None)
            return

        def durable(error: RhumblineError | None) -> None:
            if error is None:
                ledger.is_fence_durable = True
            on_durable(error)

        self.log.append_state(ledger.encode(), durable)

    async def fence_durably(self, ledger: LedgerRecord) -> None:
        """``fence``, and waits. Raises what the log failed with."""
        waiting = WaitingAdds()
        self.fence(ledger, waiting)
        await waiting.done

    def write_lac(self, ledger: LedgerRecord, body: bytes, on_durable: OnDurable) -> None:
        """Keeps an explicit LAC: the last body, and the highest LAC. It is in no hurry."""
        ledger.lac_body = body
        self.hear(ledger, lac_of_body(body))
        self.log.append_state(ledger.encode(), on_durable, is_urgent=False)

    def when_durable(self, on_durable: OnDurable) -> None:
        """Calls back when all that was appended before is durable."""
        self.log.append_state(self.states.manifest.encode(), on_durable)

    def _advance(self, ledger: LedgerRecord, lac: int) -> bool:
        if lac <= ledger.lac:
            return False
        ledger.lac = lac
        ledger.lac_changed_ms = self._runtime.clock.wall_ms()
        return True

    # --- reading --------------------------------------------------------------------------------

    def last_entry(self, ledger_id: int) -> int:
        """The highest entry id held of a ledger; NO_ENTRY when there is none."""
        last = self.index.last(ledger_id)
        return NO_ENTRY if last is None else last

    def find(self, ledger_id: int, entry_id: int) -> Location:
        """Where an entry is.

        Raises NoSuchEntryError, NoSuchLedgerError (it was never here), UnknownStateError (it may
        have been).
        """
        location = self.index.find(ledger_id, entry_id)
        if location is not None and self.is_held(ledger_id):
            return location
        raise self.absence(ledger_id)

    def absence(self, ledger_id: int) -> RhumblineError:
        """What to say of an entry that is not here."""
        if self.states.limbo.covers(ledger_id):
            return UnknownStateError(f"ledger {ledger_id} is in limbo here")
        if ledger_id not in self.states.ledgers:
            return NoSuchLedgerError(f"no ledger {ledger_id} here")
        return NoSuchEntryError(f"ledger {ledger_id} has no such entry here")

    def cached(self, location: Location) -> bytes | None:
        """The entry if it is in the tail cache."""
        return self.tail.get(location.position, location.length)

    async def read(self, ledger_id: int, entry_id: int, location: Location) -> bytes:
        """The entry from its file, verified.

        Raises CorruptionError, DiskFailedError (both mean "unknown"), or as ``find`` when the
        ledger was deleted meanwhile.
        """
        while True:
            try:
                return await self.read_from_file(ledger_id, entry_id, location)
            except FileGoneError:
                moved = self.find(ledger_id, entry_id)
                if moved == location:
                    raise CorruptionError(
                        f"the file of ledger {ledger_id} entry {entry_id} is missing"
                    ) from None
                location = moved

    async def read_run(
        self,
        ledger_id: int,
        first: int,
        count_max: int,
        bytes_max: int,
        *,
        may_be_empty: bool = False,
    ) -> list[bytes | memoryview]:
        """Consecutive entries from ``first`` on, verified: at least one, and those close behind it.

        At most ``count_max``, and those behind the first fit into ``bytes_max`` with it; none at
        all when it ``may_be_empty`` and the first alone does not fit. Raises as ``find`` and
        ``read`` of the first one.
        """
        location = self.find(ledger_id, first)
        if may_be_empty and location.length > bytes_max:
            return []
        entry = self.cached(location)
        if entry is not None:
            return [entry]
        find = self.index.find
        run = run_from(location, lambda at: find(ledger_id, first + at), count_max, bytes_max)
        if len(run) > 1:
            try:
                data = await self.files.read_span(*span_of(run))
                return entries_in(data, ledger_id, first, run)
            except FileGoneError:
                location = self.find(ledger_id, first)  # moved, or deleted
        return [await self.read(ledger_id, first, location)]

    async def read_from_file(self, ledger_id: int, entry_id: int, location: Location) -> bytes:
        """As ``read``, of just this place. Raises FileGoneError when the file is not there."""
        entry = await self.files.read_record(location)
        if ENTRY_HEADER.unpack_from(entry)[:2] != (ledger_id, entry_id):
            raise CorruptionError(f"another entry stands where {ledger_id}:{entry_id} belongs")
        return entry

    # --- maintenance ----------------------------------------------------------------------------

    def wall_ms(self) -> int:
        """The time of day."""
        return self._runtime.clock.wall_ms()

    def is_held(self, ledger_id: int) -> bool:
        """Whether entries of the ledger count: it is known, or its state may have been lost."""
        states = self.states
        if ledger_id in states.ledgers:
            return True
        return ledger_id not in states.tombstones and states.limbo.covers(ledger_id)

    def delete_ledger(self, ledger_id: int) -> None:
        """Forgets a ledger that is gone from the metadata, leaving a tombstone."""
        record = self.states.delete(ledger_id, self._runtime.clock.wall_ms())

        def durable(error: RhumblineError | None) -> None:
            if error is None:
                self.index.drop(ledger_id)

        self.log.append_state(record, durable)

    async def journal(self, record: bytes) -> None:
        """Appends a state record and waits until it is durable. Raises what the log failed with."""
        waiting = WaitingAdds()
        self.log.append_state(record, waiting)
        await waiting.done

    async def write_manifest(self) -> None:
        """Journals which files count. The index on disk is the one that it will ask for."""
        self.states.manifest.index_sequence = self.index.store.sequence
        await self.journal(self.states.manifest.encode())

    async def checkpoint(self) -> None:
        """Makes the index durable, over all sealed logs. One at a time."""
        covered = self.sealed_logs[-1] + 1 if self.sealed_logs else 1
        covered = max(covered, self.index.store.covered_log)
        self._sequence += 1
        await self.index.checkpoint(covered, self._sequence)

    def new_sorted_file(self) -> SortedFileWriter:
        """A writer for a sorted file with a number and generation of its own."""
        number = self.next_file_number()
        return SortedFileWriter(self.files, self._bookie, number, self.next_generation())

    # --- what the log asks and tells ------------------------------------------------------------

    def next_file_number(self) -> int:
        """See LogOwner."""
        self._highest_number += 1
        return self._highest_number

    def next_generation(self) -> int:
        """See LogOwner."""
        return self._runtime.random.getrandbits(64)

    def snapshot(self) -> Iterator[bytes]:
        """See LogOwner."""
        return self.states.snapshot()

    def group_durable(self, group: CommitGroup, position: int, body: bytes) -> None:
        """See LogOwner."""
        self.tail.put(position, body)
        now_ms = self._runtime.clock.wall_ms()
        advanced = take_rows(group.adds, position, self.index.recent.entries_of, now_ms)
        self.entry_count += len(group.adds)
        if self.entry_count >= self._checkpoint_at:
            self._checkpoint_at = self.entry_count + self._config.index_rows_max
            self.on_tasks_due()
        self.entry_bytes += len(body)
        for connection, outbox in group.outboxes.items():
            connection.answered(outbox)
        for callback in group.callbacks:
            callback(None)
        if advanced:
            self.listener.ledgers_advanced(advanced)

    def group_refused(self, group: CommitGroup, error: RhumblineError) -> None:
        """See LogOwner."""
        for connection, outbox in group.outboxes.items():
            connection.refused(outbox, error)
        if isinstance(error, DiskFullError):
            self.listener.space_ran_out(error)
        for callback in group.callbacks:
            callback(error)

    def file_sealed(self, number: int) -> None:
        """See LogOwner."""
        self.files.seal(number)
        self.sealed_logs.append(number)
        self.on_tasks_due()

    def log_failed(self, error: RhumblineError) -> None:
        """See LogOwner."""
        self.listener.log_failed(error)

"""A bookie's storage: the write log, the index over it, the state of ledgers, and reads.

An entry becomes readable when it is durable, so a crash cannot take back what was served. Answers
are three-valued (rules BKE-1, BKE-2): an entry; NoSuchEntryError or NoSuchLedgerError if that is
certain; otherwise an error that means "unknown".
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
from .log.commit_group import CommitGroup, DurabilityWaiter, OnDurable, ResponseSink
from .log.file_set import FileGoneError, FileSet
from .log.group_rows import index_group_entries
from .log.index_reconciliation import reconcile, remove_leftovers
from .log.log_format import RECORD_HEADER, RECORD_HEADER_BYTES
from .log.replay import Damage
from .log.sorted_file import SortedFile, SortedFileWriter
from .log.tail_cache import TailCache
from .log.write_log import WriteLog
from .storage_listener import StorageListener

LOG_MISSING = (
    "the write log of this bookie is missing, so the entries that it acknowledged are lost here; "
    "format an empty directory as a new bookie"
)

_LAST_LOG_BYTES = 4 << 20
"""Limit of the last log after an orderly shutdown, in bytes: the next start reads that log."""


class Storage:
    """The durable data of one bookie. ``open`` must be called first; it has a single owner."""

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
        """Numbers of the logs before the current one, oldest first."""
        self.sorted: dict[int, SortedFile] = {}
        self._sequence = 0
        self._checkpoint_at = config.index_rows_max
        self.on_maintenance_due: Callable[[], None] = lambda: None
        """Called when a log was sealed, or the index has many rows in memory."""
        self._highest_number = 0
        self.entry_count = 0
        self.entry_bytes = 0

    async def open(self, *, must_exist: bool = False) -> None:
        """Replays the files and begins a new log file.

        Raises ForeignDataError, CorruptionError (no log, though ``must_exist``), DiskFullError,
        DiskFailedError.
        """
        await self.files.prepare()
        opened = await reconcile(self.files, self.index, self._bookie, self._config.boot_id)
        if must_exist and opened.last_log is None:
            raise CorruptionError(LOG_MISSING)
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
        states.refresh_accepts_adds()
        states.boot_id = self._config.boot_id
        # The manifest drops lost files in the same snapshot that records the limbo.
        states.manifest.log_floor = min(opened.logs, default=self._highest_number + 1)
        states.manifest.sorted_files = {file.number: file.end for file in opened.sorted.values()}
        await self.log.open(opened.last_log)
        await remove_leftovers(self.files, opened)

    async def aclose(self) -> None:
        """Writes pending data, marks the shutdown as orderly and closes. Safe to repeat."""
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
        """Checkpoints the index up to the end of the closed log, which shortens the next start."""
        self._sequence += 1
        try:
            await self.index.checkpoint(self.log.number + 1, self._sequence)
        except (DiskFullError, DiskFailedError):
            return  # the next start replays more of the log instead

    async def abandon(self) -> None:
        """Closes the files of a storage that could not be opened. Safe to repeat."""
        await self.log.aclose()
        await self.files.aclose()
        await self.index.store.close()

    # --- adding ---------------------------------------------------------------------------------

    def add(
        self, ledger: LedgerRecord, entry: bytes, connection: ResponseSink, response: bytes
    ) -> None:
        """Appends an entry that the caller checked; the response is sent when it is durable."""
        group = self.log.open_group()
        _, entry_id, lac, _ = ENTRY_HEADER.unpack_from(entry)
        size = len(entry)
        offset = group.body_bytes + RECORD_HEADER_BYTES
        group.buffers += (RECORD_HEADER.pack(size, crc32c(entry)), entry)
        group.adds.append((ledger, entry_id, lac, offset, size))
        group.body_bytes = offset + size
        group.count += 1
        outbox = group.outbox_of(connection)
        outbox.responses.append(response)
        outbox.request_bytes += size
        self.log.kick()
        if ledger.polls:
            self.raise_lac(ledger, lac)

    def raise_lac(self, ledger: LedgerRecord, lac: int) -> None:
        """Raises the ledger's LAC and wakes the long polls that wait for it (rule BKE-13).

        The entry that carries the LAC need not be durable: the entries up to the LAC are confirmed
        in any case. After a crash the LAC may be lower, which is correct as well.
        """
        if self._store_lac(ledger, lac) and ledger.polls:
            self.listener.ledgers_advanced([ledger])

    def create_ledger(self, ledger_id: int, master_key: bytes, *, is_proven: bool) -> LedgerRecord:
        """Creates and journals the state of a new ledger. Later records follow it in the log."""
        ledger = self.states.create(ledger_id, master_key)
        ledger.is_proven = is_proven
        self.states.refresh_accepts_adds_of(ledger)
        self.log.append_state(ledger.encode())
        return ledger

    def mark_proven(self, ledger: LedgerRecord) -> None:
        """Records that the ledger's metadata names this bookie (rule BKE-6)."""
        if not ledger.is_proven:
            ledger.is_proven = True
            self.states.refresh_accepts_adds_of(ledger)
            self.log.append_state(ledger.encode())

    def fence(self, ledger: LedgerRecord, on_durable: OnDurable) -> None:
        """Refuses plain adds from now on; calls ``on_durable`` when no crash can undo that."""
        ledger.is_fenced = True
        ledger.accepts_adds = False
        if ledger.is_fence_durable:
            on_durable(None)
            return

        def durable(error: RhumblineError | None) -> None:
            if error is None:
                ledger.is_fence_durable = True
            on_durable(error)

        self.log.append_state(ledger.encode(), durable)

    async def fence_durably(self, ledger: LedgerRecord) -> None:
        """Fences the ledger and waits until that is durable. Raises the failure of the log."""
        waiting = DurabilityWaiter()
        self.fence(ledger, waiting)
        await waiting.done

    def write_lac(self, ledger: LedgerRecord, body: bytes, on_durable: OnDurable) -> None:
        """Journals an explicit LAC: the last body and the highest LAC, with the next write."""
        ledger.lac_body = body
        self.raise_lac(ledger, lac_of_body(body))
        self.log.append_state(ledger.encode(), on_durable, is_urgent=False)

    def when_durable(self, on_durable: OnDurable) -> None:
        """Calls back when everything that was appended before is durable."""
        self.log.append_state(self.states.manifest.encode(), on_durable)

    def _store_lac(self, ledger: LedgerRecord, lac: int) -> bool:
        if lac <= ledger.lac:
            return False
        ledger.lac = lac
        ledger.lac_changed_ms = self._runtime.clock.wall_ms()
        return True

    # --- reading --------------------------------------------------------------------------------

    def last_entry(self, ledger_id: int) -> int:
        """Return the highest entry id of a ledger here, NO_ENTRY if there is none."""
        last = self.index.last(ledger_id)
        return NO_ENTRY if last is None else last

    def find(self, ledger_id: int, entry_id: int) -> Location:
        """Return the location of an entry.

        Raises NoSuchEntryError, NoSuchLedgerError (it was never here), UnknownStateError (it may
        have been here).
        """
        location = self.index.find(ledger_id, entry_id)
        if location is not None and self.is_held(ledger_id):
            return location
        raise self.absence(ledger_id)

    def absence(self, ledger_id: int) -> RhumblineError:
        """Return the error for an entry that is not here."""
        if self.states.limbo.covers(ledger_id):
            return UnknownStateError(f"ledger {ledger_id} is in limbo here")
        if ledger_id not in self.states.ledgers:
            return NoSuchLedgerError(f"no ledger {ledger_id} here")
        return NoSuchEntryError(f"ledger {ledger_id} has no such entry here")

    def cached(self, location: Location) -> bytes | None:
        """Return the entry if it is in the tail cache."""
        return self.tail.get(location.position, location.length)

    async def read(self, ledger_id: int, entry_id: int, location: Location) -> bytes:
        """Return the entry from its file, verified.

        Raises CorruptionError, DiskFailedError (both mean "unknown"), or as ``find`` if the ledger
        was deleted meanwhile.
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
        """Return consecutive entries from ``first`` on, verified, that one disk read can fetch.

        The result has at most ``count_max`` entries. The first entry is always returned, unless
        ``may_be_empty`` is set and it alone exceeds ``bytes_max``; the others fit into
        ``bytes_max`` together with it. Raises as ``find`` and ``read`` of the first entry.
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
                location = self.find(ledger_id, first)  # it moved, or the ledger was deleted
        return [await self.read(ledger_id, first, location)]

    async def read_from_file(self, ledger_id: int, entry_id: int, location: Location) -> bytes:
        """Reads an entry at this location only. Raises as ``read``, or FileGoneError."""
        entry = await self.files.read_record(location)
        if ENTRY_HEADER.unpack_from(entry)[:2] != (ledger_id, entry_id):
            raise CorruptionError(f"found another entry in place of {ledger_id}:{entry_id}")
        return entry

    # --- maintenance ----------------------------------------------------------------------------

    def wall_ms(self) -> int:
        """Return the wall-clock time in milliseconds."""
        return self._runtime.clock.wall_ms()

    def is_held(self, ledger_id: int) -> bool:
        """Return whether the ledger is known here, or its state may have been lost (limbo)."""
        states = self.states
        if ledger_id in states.ledgers:
            return True
        return ledger_id not in states.tombstones and states.limbo.covers(ledger_id)

    def delete_ledger(self, ledger_id: int) -> None:
        """Deletes a ledger and leaves a tombstone (rule BKE-22)."""
        record = self.states.delete(ledger_id, self._runtime.clock.wall_ms())

        def durable(error: RhumblineError | None) -> None:
            if error is None:
                self.index.drop(ledger_id)

        self.log.append_state(record, durable)

    async def journal(self, record: bytes) -> None:
        """Appends a state record and waits until it is durable. Raises the failure of the log."""
        waiting = DurabilityWaiter()
        self.log.append_state(record, waiting)
        await waiting.done

    async def write_manifest(self) -> None:
        """Journals the files in use. From now on a start requires the current index on disk."""
        self.states.manifest.index_sequence = self.index.store.sequence
        await self.journal(self.states.manifest.encode())

    async def checkpoint(self) -> None:
        """Makes the index durable up to the last sealed log. One call at a time."""
        covered = self.sealed_logs[-1] + 1 if self.sealed_logs else 1
        covered = max(covered, self.index.store.covered_log)
        self._sequence += 1
        await self.index.checkpoint(covered, self._sequence)

    def new_sorted_file(self) -> SortedFileWriter:
        """Return a writer for a sorted file with a new number and generation."""
        number = self.next_file_number()
        return SortedFileWriter(self.files, self._bookie, number, self.next_generation())

    # --- LogOwner -------------------------------------------------------------------------------

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
        advanced = index_group_entries(group.adds, position, self.index.recent.entries_of, now_ms)
        self.entry_count += len(group.adds)
        if self.entry_count >= self._checkpoint_at:
            self._checkpoint_at = self.entry_count + self._config.index_rows_max
            self.on_maintenance_due()
        self.entry_bytes += len(body)
        for connection, outbox in group.outboxes.items():
            connection.deliver(outbox)
        for callback in group.callbacks:
            callback(None)
        if advanced:
            self.listener.ledgers_advanced(advanced)

    def group_refused(self, group: CommitGroup, error: RhumblineError) -> None:
        """See LogOwner."""
        for connection, outbox in group.outboxes.items():
            connection.reject(outbox, error)
        if isinstance(error, DiskFullError):
            self.listener.space_ran_out(error)
        for callback in group.callbacks:
            callback(error)

    def file_sealed(self, number: int) -> None:
        """See LogOwner."""
        self.files.seal(number)
        self.sealed_logs.append(number)
        self.on_maintenance_due()

    def log_failed(self, error: RhumblineError) -> None:
        """See LogOwner."""
        self.listener.log_failed(error)

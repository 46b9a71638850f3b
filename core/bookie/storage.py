"""A bookie's storage: the write log, the index over it, the state of ledgers, and reads.

An entry becomes readable when it is durable, so a crash cannot take back what was served. Answers
are three-valued (rules BKE-1, BKE-2): an entry; NoSuchEntryError or NoSuchLedgerError if that is
certain; otherwise an error that means "unknown".
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator

from ..protocol.bookie_id import BookieId
from ..protocol.errors import (
    CorruptionError,
    DiskFailedError,
    DiskFullError,
    ForeignDataError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
    UnknownStateError,
)
from ..protocol.ledger_metadata import NO_ENTRY
from ..runtime.disk import Disk
from ..runtime.event_log import EventLog
from ..runtime.metadata_store import VALUE_BYTES_MAX
from ..runtime.runtime import Runtime
from ..wire.entry import ENTRY_HEADER
from ..wire.v2 import ADD_KEY_BYTES
from .config import BookieConfig
from .index.contiguous_read import entries_in, run_from, span_of
from .index.entry_index import MemoryIndex
from .index.index_directory import IndexDirectory
from .index.index_file import DataFile, IndexFile, Pause
from .index.ledger_entries import LedgerEntries, Location
from .index.tiered_index import NotInMemoryError, TieredIndex
from .ledger_records import (
    LedgerRecord,
    LedgerRecords,
    clean_end_record,
    lac_of_body,
    limbo_records,
)
from .log.commit_group import AddSink, CommitGroup, DurabilityWaiter, OnDurable, WaitingAdd
from .log.file_rows import read_rows
from .log.file_set import FileGoneError, FileSet
from .log.group_rows import index_group_entries
from .log.log_format import LOG_KIND, OFFSET_BITS
from .log.replay import Damage
from .log.sorted_file import SortedFile, SortedFileWriter
from .log.tail_cache import TailCache
from .log.write_log import WriteLog
from .start.index_reconciliation import rank_of, reconcile, remove_leftovers, yield_now
from .start.startup import open_files, read_header
from .storage_listener import StorageListener

LOG_MISSING = (
    "the write log of this bookie is missing, so the entries that it acknowledged are lost here; "
    "format an empty directory as a new bookie"
)

_LOG = EventLog(__name__)

_LAST_LOG_BYTES = 4 << 20
"""Limit of the last log after an orderly shutdown, in bytes: the next start reads that log."""


async def _lend_nothing() -> bool:
    return False


class Storage:
    """The durable data of one bookie. ``open`` must be called first; it has a single owner."""

    def __init__(
        self,
        runtime: Runtime,
        disk: Disk,
        config: BookieConfig,
        bookie: BookieId,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self.bookie = bookie
        self.files = FileSet(disk, config.read_cache_bytes)
        self.log = WriteLog(self.files, config, bookie, self)
        self.states = LedgerRecords()
        self.index = TieredIndex(config.index_cache_bytes)
        self.index.on_damage = self._index_damaged
        self.index_files = IndexDirectory(disk, bookie)
        self.tail = TailCache(config.tail_cache_bytes)
        self.listener = StorageListener()
        self.damages: list[Damage] = []
        self.sealed_logs: list[int] = []
        """Numbers of the logs before the current one, oldest first."""
        self.sorted: dict[int, SortedFile] = {}
        """Sorted files by number; those with older entries come first."""
        self.damaged_indexes: dict[int, None] = {}
        """Numbers of the data files whose index files must be rebuilt."""
        self.data_files: dict[int, DataFile] = {}
        """The data files that do not change, by number, except those with a damaged header."""
        self.on_maintenance_due: Callable[[], None] = lambda: None
        """Called when a log was sealed, or an index file is damaged."""
        self.on_space_needed: Callable[[], Awaitable[bool]] = _lend_nothing
        """Called when a state record does not fit; returns whether space was freed for it."""
        self.is_lost: Callable[[int], bool] = lambda number: False
        """Returns whether the sorted file with a number lay in a data directory that has failed."""
        self.directory_of_file: Callable[[int], str] = lambda number: ""
        """Returns the data directory in use that has the file with a number; "" for any other."""
        self.on_log_began: Callable[[], None] = lambda: None
        """Called when the log continues in a new file."""
        self._highest_number = 0
        self.entry_count = 0
        self.entry_bytes = 0

    async def open(
        self,
        *,
        must_exist: bool = False,
        limbo_reason: Callable[[int], str | None] = lambda _: None,
    ) -> None:
        """Replays the files and begins a new log file.

        ``limbo_reason`` gets the position at which the log ends, and returns why acknowledged data
        may be missing after it (None: nothing is known to be missing).

        Raises ForeignDataError, CorruptionError (no log, though ``must_exist``), DiskFullError,
        DiskFailedError.
        """
        await self.files.prepare()
        await self.index_files.prepare()
        boot_id = self._config.boot_id
        opened = await open_files(self.files, self.bookie, boot_id, was_used=must_exist)
        if must_exist and opened.last_log is None:
            raise CorruptionError(LOG_MISSING)
        number, end = (0, 0) if opened.last_log is None else opened.last_log.place
        reason = limbo_reason(number << OFFSET_BITS | end)
        if reason is not None:
            opened.damages.append(Damage(number, end, end, reason))
        await reconcile(self.files, self.index, self.index_files, self.bookie, opened)
        self.states = states = opened.states
        self.damages = opened.damages
        self._highest_number = opened.highest_number
        self.sealed_logs = opened.logs
        self.sorted = opened.sorted
        self.data_files = {
            number: found for number, found in opened.data_files.items() if found is not None
        }
        for ledger_id in states.tombstones:
            self.index.drop(ledger_id)
        if opened.damages:
            states.limbo.begin()
        states.finish_replay()
        states.boot_id = boot_id
        # The manifest drops lost files in the same snapshot that records the limbo.
        states.manifest.log_floor = min(opened.logs, default=self._highest_number + 1)
        states.manifest.sorted_files = {file.number: file.end for file in opened.sorted.values()}
        await self.files.remove_unnamed(LOG_KIND)  # a log that was being prepared
        await self.log.open(opened.last_log)
        await remove_leftovers(self.files, self.index_files, opened)

    async def aclose(self) -> None:
        """Writes pending data, marks the shutdown as orderly and closes. Safe to repeat."""
        if self.log.failure is None:
            if self.log.current.end > _LAST_LOG_BYTES:
                self.log.roll_next()
            self.log.append_state(clean_end_record())
        is_orderly = self.log.failure is None
        await self.log.aclose()
        if is_orderly:
            await self._write_last_indexes()
        await self._close_files()

    async def _write_last_indexes(self) -> None:
        """Writes the index files of sealed logs, which shortens the next start."""
        try:
            await self.write_indexes()
        except (DiskFullError, DiskFailedError):
            return  # the next start reads these logs instead

    async def abandon(self) -> None:
        """Closes the files of a storage that could not be opened. Safe to repeat."""
        await self.log.aclose()
        await self._close_files()

    async def _close_files(self) -> None:
        await self.files.aclose()
        await self.index.aclose()

    # --- adding ---------------------------------------------------------------------------------

    def add(
        self, ledger: LedgerRecord, entry: bytes, sink: AddSink, add: WaitingAdd | None = None
    ) -> None:
        """Appends an entry that the caller checked; ``sink`` gets ``add`` when it is durable.

        If ``add`` is None, the sink gets the entry's key, from which the response to a v2 add is
        encoded. Most v2 adds reach the group without this call (``ClientConnection``).
        """
        group = self.log.open_group()
        _, entry_id, lac, _ = ENTRY_HEADER.unpack_from(entry)
        outbox = group.outbox_of(sink)
        group.append_entry(ledger, entry_id, lac, entry, outbox)
        outbox.adds.append(bytes(entry[:ADD_KEY_BYTES]) if add is None else add)
        outbox.has_requests = outbox.has_requests or add is not None
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

    def create_ledger(
        self, ledger_id: int, master_key: bytes, *, is_proven: bool, metadata: bytes = b""
    ) -> LedgerRecord:
        """Creates and journals the state of a new ledger. Later records follow it in the log.

        ``metadata`` is kept as the copy of the ledger's metadata.
        """
        ledger = self.states.create(ledger_id, master_key)
        ledger.is_proven = is_proven
        self.states.refresh_accepts_adds_of(ledger)
        self._keep_copy(ledger, metadata)
        self.log.append_state(ledger.encode())
        return ledger

    def mark_proven(self, ledger: LedgerRecord, metadata: bytes = b"") -> None:
        """Records that the ledger's metadata names this bookie (rule BKE-6)."""
        if not ledger.is_proven:
            ledger.is_proven = True
            self.states.refresh_accepts_adds_of(ledger)
            self._keep_copy(ledger, metadata)
            self.log.append_state(ledger.encode())

    def refresh_copy(self, ledger: LedgerRecord, metadata: bytes) -> None:
        """Journals a newer copy of a ledger's metadata (rule BAK-1)."""
        self._keep_copy(ledger, metadata)
        self.log.append_state(ledger.encode(), is_urgent=False)

    def _keep_copy(self, ledger: LedgerRecord, metadata: bytes) -> None:
        """Journals a copy of the metadata; the caller journals the ledger's record after it."""
        if 0 < len(metadata) <= VALUE_BYTES_MAX:
            record = self.states.keep_copy(ledger.ledger_id, metadata)
            self.log.append_state(record, is_urgent=False)

    def fence(self, ledger: LedgerRecord, on_durable: OnDurable) -> None:
        """Refuses plain adds from now on; calls ``on_durable`` when no crash can undo that."""
        if not ledger.is_fenced:
            _LOG.info("ledger fenced", bookie=self.bookie, ledger=ledger.ledger_id)
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
        """Journals the highest explicit LAC and its body, with the next write."""
        ledger.take_lac_body(body)
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
        have been here), NotInMemoryError (a kind of that) if ``locate`` would read it from disk.
        """
        location = self.index.find(ledger_id, entry_id) if self.is_held(ledger_id) else None
        if location is not None:
            return location
        raise self.absence(ledger_id)

    async def locate(self, ledger_id: int, entry_id: int) -> Location:
        """Return the location of an entry, after reading from the index files if necessary.

        Raises as ``find``, except NotInMemoryError; DiskFailedError.
        """
        if self.is_held(ledger_id):
            location = await self.index.locate(ledger_id, entry_id)
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

    def directory_of(self, location: Location) -> str:
        """Return the data directory that must respond for a read; "" for the bookie's own one."""
        return self.directory_of_file(location.position >> OFFSET_BITS)

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
                moved = await self.locate(ledger_id, entry_id)
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
        following_in: str | None = None,
    ) -> list[bytes | memoryview]:
        """Return consecutive entries from ``first`` on, verified, that one disk read can fetch.

        The result has at most ``count_max`` entries. The first entry is always returned, unless
        ``following_in`` names the directory of earlier ones: then the result is empty if the first
        entry is in another directory, or alone exceeds ``bytes_max``. The others fit into
        ``bytes_max`` together with it. Raises as ``find`` and ``read`` of the first entry.
        """
        location = await self.locate(ledger_id, first)
        if following_in is not None and (
            location.length > bytes_max or self.directory_of(location) != following_in
        ):
            return []
        entry = self.cached(location)
        if entry is not None:
            return [entry]

        def following(at: int) -> Location | None:
            try:
                return self.index.find(ledger_id, first + at)
            except NotInMemoryError:
                return None

        run = run_from(location, following, count_max, bytes_max)
        if len(run) > 1:
            try:
                data = await self.files.read_span(*span_of(run))
                return entries_in(data, ledger_id, first, run)
            except FileGoneError:
                location = await self.locate(ledger_id, first)  # it moved, or was deleted
        return [await self.read(ledger_id, first, location)]

    async def read_from_file(self, ledger_id: int, entry_id: int, location: Location) -> bytes:
        """Reads an entry at this location only. Raises as ``read``, or FileGoneError."""
        entry = await self.files.read_record(location)
        if ENTRY_HEADER.unpack_from(entry)[:2] != (ledger_id, entry_id):
            raise CorruptionError(
                f"{self.files.place_of(location.position)}: found another entry in place of "
                f"{ledger_id}:{entry_id}"
            )
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

    async def delete_durably(self, ledger_id: int) -> None:
        """Deletes a ledger, and waits until its tombstone is durable and its rows are dropped.

        Raises the failure of the log.
        """
        await self.journal(self.states.delete(ledger_id, self._runtime.clock.wall_ms()))
        self.index.drop(ledger_id)

    def recreate_ledger(self, ledger_id: int, master_key: bytes) -> LedgerRecord:
        """Lifts the tombstone of a ledger whose surplus copies were returned (rule BKE-31).

        The ledger is closed, so it is created with a fence.
        """
        del self.states.tombstones[ledger_id]
        ledger = self.states.create(ledger_id, master_key)
        ledger.is_fenced = True

        def durable(error: RhumblineError | None) -> None:
            if error is None:
                ledger.is_fence_durable = True

        self.log.append_state(ledger.encode(), durable)
        return ledger

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
        """Journals the files in use. Raises the failure of the log."""
        await self.journal(self.states.manifest.encode())

    async def write_indexes(self, pause: Pause = yield_now) -> None:
        """Writes the index files of the sealed logs whose rows are in memory.

        One call at a time. Raises DiskFullError, DiskFailedError; the rows then stay in memory.
        """
        for number, rows in sorted(self.index.sealed_tiers.items()):
            data_file = self.data_files.get(number)
            if data_file is not None:
                await self._write_index(data_file, rows.columns(), pause)

    async def _write_index(
        self,
        data_file: DataFile,
        columns: Iterable[tuple[int, LedgerEntries]],
        pause: Pause,
    ) -> None:
        number = data_file.number
        rank = rank_of(number, self.sorted.get(number))
        written = await self.index_files.write(data_file, columns, pause)
        if number in self.data_files:
            await self.index.add_file(*written, rank, number)
        else:  # the data file was compacted meanwhile
            await written[0].file.close()
            await self.index_files.remove([number])

    async def rebuild_indexes(self, pause: Pause = yield_now) -> None:
        """Rebuilds the damaged index files from their data files. One call at a time.

        If a data file is damaged too, entries may be lost that nothing names any more, so limbo
        begins. Raises DiskFullError, DiskFailedError; a repeated call continues.
        """
        while self.damaged_indexes:
            number = next(iter(self.damaged_indexes))
            data_file = self.data_files.get(number)
            if data_file is not None:
                await self._rebuild_index(data_file, pause)
            self.damaged_indexes.pop(number, None)

    async def _rebuild_index(self, data_file: DataFile, pause: Pause) -> None:
        async def throttle(_: int) -> None:
            await pause()

        kind, number, _, end = data_file
        rows, damages = MemoryIndex(), list[Damage]()
        try:
            header = await read_header(self.files, kind, number, self.bookie)
            if header is None:
                raise CorruptionError(f"the header of file {number} is damaged")
            rows, scan = await read_rows(self.files, header, end, throttle)
            damages = scan.damages
        except (FileNotFoundError, CorruptionError, ForeignDataError) as error:
            damages = [Damage(number, 0, end, str(error))]
        if number not in self.data_files:
            return  # it was compacted meanwhile
        if damages:
            # The index file must not be in use, or durable, before the limbo is.
            self.damages += damages
            await self.begin_limbo()
        await self._write_index(data_file, rows.columns(), pause)

    def _index_damaged(self, file: IndexFile, error: RhumblineError) -> None:
        self.damages.append(Damage(file.number, 0, 0, str(error)))
        self.damaged_indexes[file.number] = None
        self.on_maintenance_due()

    async def begin_limbo(self) -> None:
        """Puts all ledgers in limbo: acknowledged data may be lost (rule BKE-16)."""
        self.states.limbo.begin()
        self.states.refresh_accepts_adds()
        for record in list(limbo_records(self.states.limbo)):
            await self.journal(record)

    def new_sorted_file(self) -> SortedFileWriter:
        """Return a writer for a sorted file with a new number and generation."""
        number = self.next_file_number()
        return SortedFileWriter(self.files, self.bookie, number, self.next_generation())

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
        self.entry_bytes += len(body)
        for sink, outbox in group.outboxes.items():
            sink.deliver(outbox)
        for callback in group.callbacks:
            callback(None)
        if advanced:
            self.listener.ledgers_advanced(advanced)

    def group_refused(self, group: CommitGroup, error: RhumblineError) -> None:
        """See LogOwner."""
        self._refuse_adds(group, error)
        for callback in group.callbacks:
            callback(error)

    def adds_refused(self, group: CommitGroup, error: RhumblineError) -> None:
        """See LogOwner."""
        self._refuse_adds(group, error)
        for callback in group.callbacks:
            callback(None)

    def _refuse_adds(self, group: CommitGroup, error: RhumblineError) -> None:
        for sink, outbox in group.outboxes.items():
            sink.reject(outbox, error)
        if isinstance(error, DiskFullError):
            self.listener.space_ran_out(error)

    async def lend_space(self) -> bool:
        """See LogOwner."""
        return await self.on_space_needed()

    def file_sealed(self, data_file: DataFile) -> None:
        """See LogOwner."""
        self.files.seal(data_file.number)
        self.data_files[data_file.number] = data_file
        self.index.seal(data_file.number)
        self.sealed_logs.append(data_file.number)
        self.on_maintenance_due()
        self.on_log_began()

    def log_failed(self, error: RhumblineError) -> None:
        """See LogOwner."""
        self.listener.log_failed(error)

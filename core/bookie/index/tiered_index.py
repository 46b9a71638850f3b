"""The entry index of a storage: rows in memory over one index file for each unchanging data file.

The rows of the log that is being written, and of sealed logs whose index file is not written yet,
are in memory. All other rows are in index files, whose directories are in memory. A lookup goes
from the newest file to the oldest, and the first row found counts.

The index says where an entry is, never whether (rule BKE-19): "not here" means that every file that
could have the entry said so with verified bytes. If a block is damaged, the result is unknown.

For each ledger the index keeps the highest entry id and a bit for each file that may have rows of
it. Ledgers in the same files share that number, so a ledger takes about 250 bytes. A bit may remain
after its file was replaced; then the directory of the file says that it has no such ledger.
"""

import asyncio
import heapq
from array import array
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import gt, or_

from ...protocol.errors import RhumblineError, UnknownStateError
from .block_cache import IndexBlockCache
from .entry_index import IndexedEntry, MemoryIndex
from .index_blocks import IndexBlock
from .index_file import IndexFile, LedgerColumns
from .ledger_entries import Location

_LEDGERS_PER_STEP = 2_000
_FILE_LISTS_MAX = 10_000
_SHARED_BY_MIN = 4
"""Number of ledgers in the same files, on average, from which on they share the bits."""


class NotInMemoryError(UnknownStateError):
    """The row is in a block that must be read from disk first; see ``TieredIndex.locate``."""


class TieredIndex:
    """Rows in memory by log, newest first, over index files, newest first."""

    def __init__(self, cache_bytes_max: int = 0) -> None:
        self.recent = MemoryIndex()
        """Rows of the log that is being written."""
        self.files: dict[int, IndexFile] = {}
        """Index files by the number of their data file."""
        self.on_damage: Callable[[IndexFile, RhumblineError], None] = lambda file, error: None
        """Called when a block cannot be read, once for each file."""
        self._sealed: dict[int, MemoryIndex] = {}
        self._tiers = [self.recent]
        self._cache = IndexBlockCache(cache_bytes_max)
        self._slots: list[IndexFile | None] = []
        self._free_slots: list[int] = []
        self._bits: dict[int, int] = {}
        self._lasts: dict[int, int] = {}
        self._lists: dict[int, list[IndexFile]] = {}
        self._serial = 0
        self._version = 0

    # --- lookups --------------------------------------------------------------------------------

    def find(self, ledger_id: int, entry_id: int) -> Location | None:
        """Return the location of an entry, None if it is certain that no file has it.

        Raises NotInMemoryError if that is not known without reading from disk.
        """
        for tier in self._tiers:
            found = tier.find(ledger_id, entry_id)
            if found is not None:
                return found
        for file in self._files_with(ledger_id, entry_id):
            at = file.block_at(ledger_id, entry_id)
            if at >= 0:
                block = self._cache.get(file.serial, at)
                if block is None:
                    raise NotInMemoryError(f"{file.file.path}: block {at} is not in memory")
                found = block.find(ledger_id, entry_id)
                if found is not None:
                    return found
        return None

    async def locate(
        self, ledger_id: int, entry_id: int, *, except_file: int = 0
    ) -> Location | None:
        """Return the location of an entry, None if it is certain that no file has it.

        ``except_file`` is the number of a data file that is left out. Raises DamagedBlockError or
        DiskFailedError if a file that may have the entry cannot be asked.
        """
        while True:
            version, failure = self._version, None
            for number, tier in [(0, self.recent), *sorted(self._sealed.items(), reverse=True)]:
                found = tier.find(ledger_id, entry_id)
                if found is not None and (not number or number != except_file):
                    return found
            for file in self._files_with(ledger_id, entry_id):
                at = file.block_at(ledger_id, entry_id)
                if at < 0 or file.number == except_file:
                    continue
                try:
                    found = (await self._block(file, at)).find(ledger_id, entry_id)
                except RhumblineError as error:
                    failure = error
                    continue
                if found is not None:
                    return found
            if version == self._version:
                if failure is not None:
                    raise failure
                return None

    def last(self, ledger_id: int) -> int | None:
        """Return the highest entry id of a ledger, or None."""
        lasts = [tier.last(ledger_id) for tier in self._tiers]
        lasts.append(self._lasts.get(ledger_id))
        return max((last for last in lasts if last is not None), default=None)

    async def page(self, ledger_id: int, first: int, limit: int) -> list[IndexedEntry]:
        """Return at most ``limit`` rows of one ledger from entry id ``first`` on, rising.

        Raises DamagedBlockError, DiskFailedError.
        """
        while True:
            version = self._version
            try:
                found = await self._rows_from(ledger_id, first, limit)
            except RhumblineError:
                if version == self._version:
                    raise
                continue
            if version == self._version:
                break
        for tier in reversed(self._tiers):
            for row in tier.page(ledger_id, first, limit):
                found[row.entry_id] = row
        return [found[entry_id] for entry_id in sorted(found)[:limit]]

    async def _rows_from(self, ledger_id: int, first: int, limit: int) -> dict[int, IndexedEntry]:
        """Return the rows of files with the ``limit`` lowest ids from ``first`` on, and others.

        Reads the blocks of all files in the order of their lowest ids, until the rest is higher.
        """
        found: dict[int, IndexedEntry] = {}
        ranks: dict[int, int] = {}
        files = self._files_with(ledger_id, first)
        iterators = [file.blocks_from(ledger_id, first) for file in files]
        waiting: list[tuple[int, int, int]] = []

        def wait_for_next(which: int) -> None:
            following = next(iterators[which], None)
            if following is not None:
                heapq.heappush(waiting, (following[1], which, following[0]))

        for which in range(len(files)):
            wait_for_next(which)
        while waiting:
            lowest, which, at = heapq.heappop(waiting)
            if len(found) >= limit and lowest > sorted(found)[limit - 1]:
                break
            block = await self._block(files[which], at)
            for entry_id, position, length in block.rows_of(ledger_id).page(first, limit):
                if ranks.get(entry_id, which) >= which:
                    ranks[entry_id] = which
                    found[entry_id] = IndexedEntry(ledger_id, entry_id, position, length)
            wait_for_next(which)
        return found

    def ledgers(self) -> list[int]:
        """Return the ids of all ledgers that may have rows, in no order, some perhaps twice."""
        found = list(self._bits)
        for tier in self._tiers:
            found += tier.ledgers()
        return found

    @property
    def row_count(self) -> int:
        """Number of rows, counting those that are in several files once for each."""
        rows = sum(tier.row_count for tier in self._tiers)
        return rows + sum(file.row_count for file in self.files.values())

    def _files_with(self, ledger_id: int, entry_id: int) -> list[IndexFile]:
        """Return the files that may have rows of a ledger from ``entry_id`` on, newest first."""
        bits = self._bits.get(ledger_id)
        if bits is None or entry_id > self._lasts[ledger_id]:
            return []
        found = self._lists.get(bits)
        if found is None:
            files = [file for slot, file in enumerate(self._slots) if bits >> slot & 1]
            found = sorted((file for file in files if file), key=_rank_of, reverse=True)
            if len(self._lists) >= _FILE_LISTS_MAX:
                self._lists.clear()
            self._lists[bits] = found
        return found

    async def _block(self, file: IndexFile, at: int) -> IndexBlock:
        """Return a block from the cache or the disk. Raises DamagedBlockError, DiskFailedError."""
        block = self._cache.get(file.serial, at)
        if block is not None:
            return block
        try:
            block = await file.load(at)
        except RhumblineError as error:
            self.note_damage(file, error)
            raise
        self._cache.put(file.serial, at, block)
        return block

    def note_damage(self, file: IndexFile, error: RhumblineError) -> None:
        """Reports a damaged index file to the owner, once, if it is still in use."""
        if self.files.get(file.number) is file and not file.is_damaged:
            file.is_damaged = True
            self.on_damage(file, error)

    # --- changes --------------------------------------------------------------------------------

    def put(self, rows: Sequence[IndexedEntry]) -> None:
        """Adds or replaces rows of the log that is being written, in order."""
        self.recent.put(rows)

    def drop(self, ledger_id: int) -> None:
        """Removes a deleted ledger."""
        for tier in self._tiers:
            tier.drop(ledger_id)
        self._bits.pop(ledger_id, None)
        self._lasts.pop(ledger_id, None)

    def seal(self, number: int, rows: MemoryIndex | None = None) -> None:
        """Keeps the rows of a log that was sealed until its index file is added."""
        if rows is None:
            rows, self.recent = self.recent, MemoryIndex()
        self._sealed[number] = rows
        self._changed()

    @property
    def sealed_tiers(self) -> dict[int, MemoryIndex]:
        """Rows in memory by the number of their sealed log."""
        return self._sealed

    @property
    def ledger_bits(self) -> dict[int, int]:
        """Ledger id -> a bit for the slot of each index file that may have rows of the ledger."""
        return self._bits

    async def add_file(
        self, file: IndexFile, columns: LedgerColumns, rank: tuple[int, int], replaced: int = 0
    ) -> None:
        """Adds the index file of a data file, in place of its rows in memory, or of another file.

        ``replaced`` is the number of the data file whose place the new one takes.
        """
        old = self.files.get(replaced)
        self._serial += 1
        file.serial, file.rank, file.slot = self._serial, rank, self._reserve_slot()
        bit = 1 << file.slot
        with_bit: dict[int, int] = {}
        ledgers, lasts = columns
        for start in range(0, len(ledgers), _LEDGERS_PER_STEP):
            step = slice(start, start + _LEDGERS_PER_STEP)
            self._add_ledgers(ledgers[step], lasts[step], bit, with_bit)
            await asyncio.sleep(0)
        self.files[file.number] = self._slots[file.slot] = file
        self._sealed.pop(file.number, None)
        if old is not None:
            self._retire(old)
        self._changed()
        if old is not None:
            await self._free_slot(old, columns)

    def _add_ledgers(
        self, ledgers: "array[int]", lasts: "array[int]", bit: int, with_bit: dict[int, int]
    ) -> None:
        """Sets a file's bit in its ledgers and raises their highest entry ids.

        ``with_bit`` maps bits to the same bits with the file's bit, so that ledgers share them,
        unless most of them are in different files. There is no bytecode for each ledger, since a
        start adds all ledgers of all files.
        """
        before = list(map(self._bits.get, ledgers, repeat(0)))
        distinct = dict.fromkeys(before)
        if len(distinct) > len(before) // _SHARED_BY_MIN:
            after = map(or_, before, repeat(bit))
        else:
            for bits in distinct:
                with_bit.setdefault(bits, bits | bit)
            after = map(with_bit.__getitem__, before)
        self._bits.update(zip(ledgers, after, strict=True))
        known = list(map(self._lasts.get, ledgers, repeat(-1)))
        highest = map(max, known, lasts) if any(map(gt, known, lasts)) else lasts
        self._lasts.update(zip(ledgers, highest, strict=True))

    async def remove_file(self, number: int) -> None:
        """Removes the index file of a data file without live rows, if there is one."""
        file = self.files.get(number)
        self._sealed.pop(number, None)
        if file is not None:
            self._retire(file)
        self._changed()
        if file is not None:
            await self._free_slot(file, None)

    def _reserve_slot(self) -> int:
        """Return a slot that no file uses, which stays reserved until it is freed."""
        slot = self._free_slots.pop() if self._free_slots else len(self._slots)
        if slot == len(self._slots):
            self._slots.append(None)
        return slot

    def _retire(self, file: IndexFile) -> None:
        """Takes a file out of use. Its slot is not reused before its bits are cleared."""
        self._slots[file.slot] = None
        if self.files.get(file.number) is file:
            del self.files[file.number]

    async def _free_slot(self, file: IndexFile, columns: LedgerColumns | None) -> None:
        """Clears the bits of a file out of use, in the ledgers that still have rows."""
        mask = ~(1 << file.slot)
        shared: dict[int, int] = {}
        for count, ledger_id in enumerate(() if columns is None else columns.ledgers):
            bits = self._bits.get(ledger_id)
            if bits is not None:
                self._bits[ledger_id] = shared.setdefault(bits, bits & mask)
            if count % _LEDGERS_PER_STEP == 0:
                await asyncio.sleep(0)
        self._free_slots.append(file.slot)
        await file.file.close()

    def _changed(self) -> None:
        """Notes that rows or files were added or removed: lookups that wait start again."""
        sealed = sorted(self._sealed.items(), reverse=True)
        self._tiers = [self.recent, *(tier for _, tier in sealed)]
        self._lists.clear()
        self._version += 1

    async def aclose(self) -> None:
        """Closes all index files. Safe to repeat."""
        files, self.files = self.files, {}
        for file in files.values():
            await file.file.close()


def _rank_of(file: IndexFile) -> tuple[int, int]:
    return file.rank

"""The compactor: rewrites sealed files grouped by ledger, without deleted and replaced entries.

Compaction turns a sealed log into a sorted file, which frees its space and makes catch-up reads
sequential, and rewrites a sorted file that is mostly garbage. Both take the same steps. A crash
between any two steps leaves every entry where a start finds it (rule BKE-18):

1. the new file, its index file and their names are durable;
2. the manifest names the new file in place of the old one, durably;
3. the old file and its index file are removed.

Every record of the old file is copied unless it is provably garbage (live_rows.py). If a part of
the old file cannot be read, the file is kept until each entry that its index names there has a
verified copy in another file.

Each entry is parsed once and then handled as part of an array; its bytes are copied together with
their record header. Memory is limited: the file is sorted slice by slice, and each entry takes 20
bytes in addition to the slice. The work pauses about every millisecond (duty_cycle.py).
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from ...protocol.errors import CorruptionError, DiskFailedError, RhumblineError
from ..index.index_file import DataFile, IndexFile, LedgerColumns
from ..index.ledger_entries import LedgerEntries
from ..log.log_format import (
    GROUP_HEADER_BYTES,
    LOG_KIND,
    OFFSET_BITS,
    SORTED_KIND,
    decode_group_header,
)
from ..log.sorted_file import GROUP_BYTES, SortedFile, SortedFileWriter
from ..start.index_reconciliation import rank_of
from .duty_cycle import DutyCycle
from .live_rows import ROWS_AT_ONCE, LiveRows, is_ascending

if TYPE_CHECKING:
    from ..storage import Storage

SLICE_BYTES = 16 << 20
_CHECKED_AT_ONCE = 1 << 20
_LEDGER_COST = 2  # cost of visiting a ledger, in rows
_RUN_COST = 20  # cost of copying a run, in rows


class Compactor:
    """Rewrites one file at a time; calls must not overlap."""

    def __init__(
        self,
        storage: "Storage",
        duty_cycle: DutyCycle | None = None,
        slice_bytes: int = SLICE_BYTES,
    ) -> None:
        self._storage = storage
        self._duty_cycle = DutyCycle() if duty_cycle is None else duty_cycle
        self._slice_bytes = slice_bytes
        self._cost = 0
        self._unreferenced_files: list[int] = []
        """Files of manifests that could not be journaled."""
        self.written_bytes = 0
        self.removed_count = 0

    async def compact_log(self, number: int) -> bool:
        """Rewrites the oldest sealed log, which the index must cover; returns False if damaged.

        Raises DiskFullError, DiskFailedError; a repeated call starts from the beginning.
        """
        storage = self._storage
        assert number == storage.states.manifest.log_floor, "the oldest log is compacted first"
        age = max((known.age for known in storage.sorted.values()), default=0) + 1
        if not await self._rewrite(LOG_KIND, number, age):
            return False
        storage.sealed_logs.remove(number)
        await self._remove(LOG_KIND, number)
        return True

    async def compact_sorted_file(self, number: int) -> bool:
        """Rewrites a sorted file; returns False if it is damaged. Raises as ``compact_log``."""
        storage = self._storage
        if not await self._rewrite(SORTED_KIND, number, storage.sorted[number].age):
            return False
        del storage.sorted[number]
        await self._remove(SORTED_KIND, number)
        return True

    async def _rewrite(self, kind: int, number: int, age: int) -> bool:
        """Performs steps 1 and 2; returns False if data that is still needed cannot be read."""
        storage = self._storage
        self._duty_cycle.begin()
        live = LiveRows(storage, kind, number, self._slice_bytes)
        await live.read(self._duty_cycle)
        if not live.is_whole and not await self._is_rest_elsewhere(number, live):
            return False
        new = await self._write_sorted(kind, number, live, age) if live.ledgers else None
        try:
            await self._write_manifest(number, new)
        except RhumblineError:
            if new is not None:
                # Not removed yet: the snapshot of a log that began meanwhile may name the file.
                self._unreferenced_files.append(new.known.number)
                await new.index_file.file.close()
            raise
        storage.data_files.pop(number, None)
        if new is None:
            await storage.index.remove_file(number)
        else:
            storage.data_files[new.known.number] = new.index_file.data_file
            storage.sorted[new.known.number] = new.known
            await storage.index.add_file(new.index_file, new.ledgers, rank_of(0, new.known), number)
        return True

    async def _is_rest_elsewhere(self, number: int, live: LiveRows) -> bool:
        """Return whether each entry in the unreadable parts of a file has a copy in another one.

        What nothing names any more was lost when the index file was built from the damaged file;
        limbo began then.
        """
        storage = self._storage
        file = storage.index.files.get(number)
        try:
            for ledger_id, rows in [] if file is None else await file.columns():
                found = live.ledgers.get(ledger_id)
                held = () if found is None else set(found.ids)
                for entry_id in rows.ids if storage.is_held(ledger_id) else ():
                    if entry_id not in held and not await self._has_copy(
                        ledger_id, entry_id, number
                    ):
                        return False
                await self._duty_cycle.pause()
        except RhumblineError:
            return False  # the index file is damaged too; it is being rebuilt
        return True

    async def _has_copy(self, ledger_id: int, entry_id: int, number: int) -> bool:
        """Return whether another file than ``number`` has a copy of an entry, which is read."""
        storage = self._storage
        location = await storage.index.locate(ledger_id, entry_id, except_file=number)
        if location is None:
            return False
        await storage.read_from_file(ledger_id, entry_id, location)
        return True

    async def _write_sorted(self, kind: int, number: int, live: LiveRows, age: int) -> "_NewFile":
        """Performs step 1; the rows of ``live`` hold the new positions afterwards."""
        storage = self._storage
        writer = storage.new_sorted_file()
        try:
            await writer.begin(live.ledger_bytes, sum(map(len, live.ledgers.values())))
            await self._copy_slices(kind, number, live, writer)
            end = await writer.finish()
            data_file = DataFile(SORTED_KIND, writer.number, writer.generation, end)
            index, ledgers = await storage.index_files.write(
                data_file, _by_ledger(live), self._duty_cycle.pause
            )
        except RhumblineError:
            await storage.files.remove(SORTED_KIND, [writer.number])
            raise
        self.written_bytes += end
        known = SortedFile(writer.number, end, sum(live.ledger_bytes.values()), age)
        return _NewFile(known, index, ledgers)

    async def _copy_slices(
        self, kind: int, number: int, live: LiveRows, writer: SortedFileWriter
    ) -> None:
        done = dict.fromkeys(sorted(live.ledgers), 0)
        for start, end in live.slices:
            source = memoryview(await self._read(kind, number, start, end))
            base = number << OFFSET_BITS | start
            for ledger_id, at in done.items():
                await self._spend(_LEDGER_COST)
                rows = live.ledgers[ledger_id]
                stop = bisect_left(rows.positions, base + end - start, at)
                if stop > at:
                    done[ledger_id] = stop
                    is_in_order = ledger_id not in live.unordered
                    if not is_in_order:
                        _order(rows, at, stop)
                    part = range(at, stop)
                    await self._copy(source, base, rows, part, writer, is_in_order)
        assert all(at == len(live.ledgers[ledger_id]) for ledger_id, at in done.items())

    async def _write_manifest(self, old: int, new: "_NewFile | None") -> None:
        """Performs step 2, or restores the manifest if the journal fails.

        Raises DiskFullError, DiskFailedError.
        """
        storage, manifest = self._storage, self._storage.states.manifest
        if new is not None and storage.is_lost(new.known.number):
            raise DiskFailedError("the data directory of the new file has failed meanwhile")
        before = manifest.log_floor, manifest.sorted_files
        if manifest.log_floor == old:
            later = (log for log in storage.sealed_logs if log > old)
            manifest.log_floor = next(later, storage.log.number)
        files = [known for number, known in storage.sorted.items() if number != old]
        if new is not None:
            files.append(new.known)
        files.sort(key=lambda known: known.age)
        manifest.sorted_files = {known.number: known.end for known in files}
        try:
            await storage.write_manifest()
        except RhumblineError:
            manifest.log_floor, manifest.sorted_files = before
            raise

    async def _remove(self, kind: int, number: int) -> None:
        """Performs step 3, also for unreferenced files, which the manifest does not name by now."""
        storage = self._storage
        await storage.files.remove(kind, [number])
        self.removed_count += 1
        unreferenced, self._unreferenced_files = self._unreferenced_files, []
        if unreferenced:
            await storage.files.remove(SORTED_KIND, unreferenced)
        await storage.index_files.remove([number, *unreferenced])

    async def _read(self, kind: int, number: int, start: int, end: int) -> bytes:
        """Reads a slice and verifies its groups again, so that the copied bytes are intact."""
        file = await self._storage.files.open(kind, number)
        source = await file.read(start, end - start)
        view = memoryview(source)
        at = checked = 0
        while at < end - start:
            group = decode_group_header(source, at)
            at += GROUP_HEADER_BYTES
            if group is None or crc32c(view[at : at + group.length]) != group.crc:
                raise CorruptionError(f"file {number} changed during its compaction")
            at += group.length
            if at - checked > _CHECKED_AT_ONCE:
                checked = at
                await self._duty_cycle.pause()
        return source

    async def _copy(
        self,
        source: memoryview,
        base: int,
        rows: LedgerEntries,
        span: range,
        writer: SortedFileWriter,
        is_in_order: bool,
    ) -> None:
        """Copies the rows of one ledger in one slice and records their new positions."""
        start, stop = span.start, span.stop
        while start < stop:
            part = rows.part(start, min(start + ROWS_AT_ONCE, stop))
            while len(part) > 1 and sum(part.lengths) > GROUP_BYTES:
                part = part.part(0, len(part) // 2)
            end = start + len(part)
            rows.positions[start:end] = writer.add(source, base, part, is_in_order=is_in_order)
            start = end
            if writer.is_full:
                await writer.flush()
                await self._duty_cycle.pause()
            await self._spend(len(part) + _RUN_COST)

    async def _spend(self, cost: int) -> None:
        """Pauses when the cost since the last pause, in rows, reaches that of a slice."""
        self._cost += cost
        if self._cost >= ROWS_AT_ONCE:
            self._cost = 0
            await self._duty_cycle.pause()


class _NewFile(NamedTuple):
    """A durable sorted file that the manifest does not name yet, and its index file."""

    known: SortedFile
    index_file: IndexFile
    ledgers: LedgerColumns


def _by_ledger(live: LiveRows) -> Iterator[tuple[int, LedgerEntries]]:
    """Yield the rows of each ledger by id, rising, and drop them from ``live``."""
    for ledger_id in sorted(live.ledgers):
        rows = live.ledgers.pop(ledger_id)
        if ledger_id in live.unordered:
            _order(rows, 0, len(rows))
        rows.last = rows.ids[-1]
        yield ledger_id, rows


def _order(rows: LedgerEntries, start: int, stop: int) -> None:
    """Sorts the rows from ``start`` to ``stop`` by entry id."""
    if not is_ascending(rows.ids[start:stop]):
        order = sorted(range(start, stop), key=rows.ids.__getitem__)
        for column in (rows.ids, rows.positions, rows.lengths):
            column[start:stop] = array(column.typecode, [column[at] for at in order])

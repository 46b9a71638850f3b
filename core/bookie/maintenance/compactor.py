"""The compactor: rewrites sealed files grouped by ledger, without deleted and replaced entries.

Compaction turns a sealed log into a sorted file, which frees its space and makes catch-up reads
sequential, and rewrites a sorted file that is mostly garbage. Both take the same steps. A crash
between any two steps leaves every entry where the index, old or new, finds it (rule BKE-18):

1. the new file and its name are durable;
2. the manifest names it, durably: from now on a rebuild of the index reads it;
3. the index points to it, durably: from now on the old file is not needed;
4. the manifest no longer names the old file, durably, and requires an index of step 3 or later;
5. the old file is removed.

Each entry is parsed once and then handled as part of an array; its bytes are copied together with
their record header. Memory is limited: the file is sorted slice by slice, and each entry takes 20
bytes beside the slice. The work pauses about every millisecond (duty_cycle.py).
"""

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from crc32c import crc32c

from ...protocol.errors import CorruptionError, RhumblineError
from ..index.ledger_entries import LedgerEntries
from ..log.log_format import (
    GROUP_HEADER_BYTES,
    LOG_KIND,
    OFFSET_BITS,
    SORTED_KIND,
    decode_group_header,
)
from ..log.sorted_file import GROUP_BYTES, SortedFile, SortedFileWriter
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
        assert number < storage.index.store.covered_log, "the index must cover the log"
        if not await self._rewrite(LOG_KIND, number):
            return False
        floor = next((log for log in storage.sealed_logs if log > number), storage.log.number)
        await self._write_manifest(floor, storage.states.manifest.sorted_files)
        storage.sealed_logs.remove(number)
        await self._remove(LOG_KIND, number)
        return True

    async def compact_sorted_file(self, number: int) -> bool:
        """Rewrites a sorted file; returns False if it is damaged. Raises as ``compact_log``."""
        storage = self._storage
        if not await self._rewrite(SORTED_KIND, number):
            return False
        manifest = storage.states.manifest
        others = {name: end for name, end in manifest.sorted_files.items() if name != number}
        await self._write_manifest(manifest.log_floor, others)
        del storage.sorted[number]
        await self._remove(SORTED_KIND, number)
        return True

    async def _rewrite(self, kind: int, number: int) -> bool:
        """Performs steps 1 to 3; returns False if data that is still needed cannot be read."""
        storage = self._storage
        self._duty_cycle.begin()
        live = LiveRows(storage, kind, number, self._slice_bytes)
        await live.read(self._duty_cycle)
        if live.ledgers:
            await self._write_sorted(kind, number, live)
            await self._move_index_rows(number, live.ledgers)
        await storage.checkpoint()
        return live.is_whole or not self._is_still_needed(number)

    async def _write_sorted(self, kind: int, number: int, live: LiveRows) -> None:
        """Performs steps 1 and 2; the rows of ``live`` hold the new positions afterwards."""
        storage = self._storage
        writer = storage.new_sorted_file()
        try:
            await writer.begin(live.ledger_bytes, live.slices[-1][1])
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
            written = await writer.finish()
        except RhumblineError:
            await storage.files.remove(SORTED_KIND, [writer.number])
            raise
        self.written_bytes += written
        manifest = storage.states.manifest
        try:
            await self._write_manifest(
                manifest.log_floor, {**manifest.sorted_files, writer.number: written}
            )
        except RhumblineError:
            # Not removed yet: the snapshot of a log that began meanwhile may name the file.
            self._unreferenced_files.append(writer.number)
            raise
        storage.sorted[writer.number] = SortedFile(writer.number, written, live.ledger_bytes)

    async def _write_manifest(self, log_floor: int, sorted_files: dict[int, int]) -> None:
        """Changes the manifest durably, or restores it if the journal fails.

        Raises DiskFullError, DiskFailedError.
        """
        storage, manifest = self._storage, self._storage.states.manifest
        before = manifest.log_floor, manifest.sorted_files
        manifest.log_floor, manifest.sorted_files = log_floor, sorted_files
        try:
            await storage.write_manifest()
        except RhumblineError:
            manifest.log_floor, manifest.sorted_files = before
            raise

    async def _remove(self, kind: int, number: int) -> None:
        """Performs step 5, also for unreferenced files, which the manifest does not name by now."""
        files = self._storage.files
        await files.remove(kind, [number])
        self.removed_count += 1
        unreferenced, self._unreferenced_files = self._unreferenced_files, []
        if unreferenced:
            await files.remove(SORTED_KIND, unreferenced)

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

    async def _move_index_rows(self, old_number: int, ledgers: dict[int, LedgerEntries]) -> None:
        """Points the index to the new positions, except for rows that have left the old file."""
        while ledgers:
            ledger_id, rows = ledgers.popitem()
            for start in range(0, len(rows), ROWS_AT_ONCE):
                part = rows.part(start, start + ROWS_AT_ONCE)
                _order(part, 0, len(part))
                part.last = part.ids[-1]
                self._storage.index.move(ledger_id, old_number, part)
                await self._duty_cycle.pause()

    def _is_still_needed(self, number: int) -> bool:
        """Return whether the index points to the file at all; reads the whole index."""
        index = self._storage.index
        for ledger_id in index.ledgers():
            first = 0
            while page := index.page(ledger_id, first, 10_000):
                if any(row.position >> OFFSET_BITS == number for row in page):
                    return True
                first = page[-1].entry_id + 1
        return False


def _order(rows: LedgerEntries, start: int, stop: int) -> None:
    """Sorts the rows from ``start`` to ``stop`` by entry id."""
    if not is_ascending(rows.ids[start:stop]):
        order = sorted(range(start, stop), key=rows.ids.__getitem__)
        for column in (rows.ids, rows.positions, rows.lengths):
            column[start:stop] = array(column.typecode, [column[at] for at in order])

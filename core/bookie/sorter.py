"""The sorter: rewrites sealed files grouped by ledger, leaving out what was deleted or replaced.

The same steps serve a sealed log (so that its space comes back and catch-up reads are sequential)
and a sorted file in which much is garbage. A crash between any two leaves all entries where an
index, old or new, finds them:

1. the new file and its name are durable;
2. the manifest names it, durably: from now on a rebuild reads it;
3. the index points to it, durably: from now on the old file is not needed;
4. the manifest no longer names the old file, durably, and asks for an index of step 3 or later;
5. the old file is removed.

Memory is bounded: entries are collected by slices of the sorted order, one pass over the old file
for each.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..protocol.errors import CorruptionError, RhumblineError
from ..wire.entry import ENTRY_HEADER
from .groups import (
    FILE_HEADER_BYTES,
    LOG_KIND,
    OFFSET_BITS,
    OFFSET_MASK,
    SORTED_KIND,
    decode_file_header,
    iterate_records,
)
from .index import IndexedEntry, Location
from .replay import OnGroup, scan_file
from .sorted_file import SortedFile, SortedFileWriter

if TYPE_CHECKING:
    from .storage import Storage

SLICE_BYTES = 32 << 20
_ENTRY_OVERHEAD_BYTES = 16


class Sorter:
    """Rewrites one file at a time; the caller sees to that."""

    def __init__(self, storage: "Storage", slice_bytes: int = SLICE_BYTES) -> None:
        self._storage = storage
        self._slice_bytes = slice_bytes
        self.written_bytes = 0
        self.removed_count = 0

    async def sort_log(self, number: int) -> bool:
        """Rewrites the oldest sealed log, which the index must cover; False: it is damaged.

        Raises DiskFullError, DiskFailedError; a repeat begins anew.
        """
        storage = self._storage
        assert number == storage.states.manifest.log_floor, "logs go oldest first"
        assert number < storage.index.store.covered_log, "the index has to cover it"
        if not await self._rewrite(LOG_KIND, number):
            return False
        storage.states.manifest.log_floor = next(
            (log for log in storage.sealed_logs if log > number), storage.log.number
        )
        await storage.write_manifest()
        storage.sealed_logs.remove(number)
        await storage.files.remove(LOG_KIND, [number])
        self.removed_count += 1
        return True

    async def compact(self, number: int) -> bool:
        """Rewrites a sorted file; False: it is damaged. Raises as ``sort_log``."""
        storage = self._storage
        if not await self._rewrite(SORTED_KIND, number):
            return False
        del storage.states.manifest.sorted_files[number]
        await storage.write_manifest()
        del storage.sorted[number]
        await storage.files.remove(SORTED_KIND, [number])
        self.removed_count += 1
        return True

    async def _rewrite(self, kind: int, number: int) -> bool:
        """Steps 1 to 3. False: something that is still needed cannot be read."""
        storage = self._storage
        rows, is_whole = await self._live_rows(kind, number)
        if rows:
            writer = await self._write_sorted(kind, number, rows)
            moved = writer.rows
        else:
            moved = []
        await storage.move(number, moved)
        await storage.checkpoint()
        return is_whole or not self._is_still_needed(number)

    async def _live_rows(self, kind: int, number: int) -> tuple[list[IndexedEntry], bool]:
        """Rows of the file that the index still points to, sorted; and whether all was readable."""
        index = self._storage.index
        found: list[IndexedEntry] = []

        def on_group(offset: int, body: bytes) -> None:
            base = number << OFFSET_BITS | offset
            for start, entry, is_state in iterate_records(body):
                if is_state:
                    continue
                ledger_id, entry_id, _, _ = ENTRY_HEADER.unpack_from(entry)
                location = Location(base + start, len(entry))
                if index.find(ledger_id, entry_id) == location and self._storage.is_held(ledger_id):
                    found.append(IndexedEntry(ledger_id, entry_id, *location))

        is_whole = await self._scan(kind, number, on_group)
        found.sort()
        return found, is_whole

    async def _scan(self, kind: int, number: int, on_group: OnGroup) -> bool:
        storage = self._storage
        file = await storage.files.open(kind, number)
        try:
            header = decode_file_header(await file.read(0, FILE_HEADER_BYTES), file.path)
        except CorruptionError:
            return False
        scan = await scan_file(file, header, await file.size(), on_group)
        return not scan.damages

    async def _write_sorted(
        self, kind: int, number: int, rows: Sequence[IndexedEntry]
    ) -> SortedFileWriter:
        storage = self._storage
        ledger_bytes: dict[int, int] = {}
        for row in rows:
            ledger_bytes[row.ledger_id] = ledger_bytes.get(row.ledger_id, 0) + row.length
        writer = storage.new_sorted_file()
        try:
            await writer.begin(ledger_bytes, 0)
            for part in self._slices(rows):
                await self._copy(kind, number, part, writer)
            end = await writer.finish()
        except RhumblineError:
            await storage.files.remove(SORTED_KIND, [writer.number])
            raise
        self.written_bytes += end
        storage.sorted[writer.number] = SortedFile(writer.number, end, ledger_bytes)
        storage.states.manifest.sorted_files[writer.number] = end
        await storage.write_manifest()
        return writer

    def _slices(self, rows: Sequence[IndexedEntry]) -> Iterator[Sequence[IndexedEntry]]:
        start, size = 0, 0
        for at, row in enumerate(rows):
            if size and size + row.length > self._slice_bytes:
                yield rows[start:at]
                start, size = at, 0
            size += row.length + _ENTRY_OVERHEAD_BYTES
        yield rows[start:]

    async def _copy(
        self, kind: int, number: int, rows: Sequence[IndexedEntry], writer: SortedFileWriter
    ) -> None:
        """One pass over the old file for the entries of one slice."""
        wanted: dict[int, bytes | None] = {row.position & OFFSET_MASK: None for row in rows}

        def on_group(offset: int, body: bytes) -> None:
            for start, entry, _ in iterate_records(body):
                if offset + start in wanted:
                    wanted[offset + start] = entry

        await self._scan(kind, number, on_group)
        for row in rows:
            entry = wanted[row.position & OFFSET_MASK]
            if entry is None:
                raise CorruptionError(f"file {number} changed while it was sorted")
            await writer.add(row.ledger_id, row.entry_id, entry)
        await asyncio.sleep(0)

    def _is_still_needed(self, number: int) -> bool:
        """Whether the index points to the file at all; a walk over everything."""
        index = self._storage.index
        for ledger_id in index.ledgers():
            first = 0
            while page := index.page(ledger_id, first, 10_000):
                if any(row.position >> OFFSET_BITS == number for row in page):
                    return True
                first = page[-1].entry_id + 1
        return False

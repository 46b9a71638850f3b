"""The sorter: rewrites sealed files grouped by ledger, leaving out what was deleted or replaced.

The same steps serve a sealed log (so that its space comes back and catch-up reads are sequential)
and a sorted file in which much is garbage. A crash between any two leaves all entries where an
index, old or new, finds them:

1. the new file and its name are durable;
2. the manifest names it, durably: from now on a rebuild reads it;
3. the index points to it, durably: from now on the old file is not needed;
4. the manifest no longer names the old file, durably, and asks for an index of step 3 or later;
5. the old file is removed.

An entry is handled once to find it, as part of an array from then on, and its bytes are copied with
the record around them. Memory is bounded: the file is sorted in slices, each in order by itself,
and beside a slice there are 20 bytes for each entry. The work is done in steps of a millisecond
with pauses between (pacing.py).
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
from .live_rows import ROWS_AT_ONCE, LiveRows, rises

if TYPE_CHECKING:
    from ..storage import Storage

SLICE_BYTES = 16 << 20
_CHECKED_AT_ONCE = 1 << 20
_LEDGER_COST = 2  # in rows
_RUN_COST = 20


class Compactor:
    """Rewrites one file at a time; the caller sees to that."""

    def __init__(
        self, storage: "Storage", pace: DutyCycle | None = None, slice_bytes: int = SLICE_BYTES
    ) -> None:
        self._storage = storage
        self._pace = DutyCycle() if pace is None else pace
        self._slice_bytes = slice_bytes
        self._cost = 0
        self._unnamed: list[int] = []
        """Written for manifests that the journal did not take."""
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
        floor = next((log for log in storage.sealed_logs if log > number), storage.log.number)
        await self._name(floor, storage.states.manifest.sorted_files)
        storage.sealed_logs.remove(number)
        await self._remove(LOG_KIND, number)
        return True

    async def compact(self, number: int) -> bool:
        """Rewrites a sorted file; False: it is damaged. Raises as ``sort_log``."""
        storage = self._storage
        if not await self._rewrite(SORTED_KIND, number):
            return False
        manifest = storage.states.manifest
        others = {one: end for one, end in manifest.sorted_files.items() if one != number}
        await self._name(manifest.log_floor, others)
        del storage.sorted[number]
        await self._remove(SORTED_KIND, number)
        return True

    async def _rewrite(self, kind: int, number: int) -> bool:
        """Steps 1 to 3. False: something that is still needed cannot be read."""
        storage = self._storage
        self._pace.begin()
        live = LiveRows(storage, kind, number, self._slice_bytes)
        await live.read(self._pace)
        if live.ledgers:
            await self._write_sorted(kind, number, live)
            await self._move(number, live.ledgers)
        await storage.checkpoint()
        return live.is_whole or not self._is_still_needed(number)

    async def _write_sorted(self, kind: int, number: int, live: LiveRows) -> None:
        """Steps 1 and 2; the rows of ``live`` say the new places afterwards."""
        storage = self._storage
        writer = storage.new_sorted_file()
        try:
            await writer.begin(live.ledger_bytes, live.slices[-1][1])
            done = dict.fromkeys(sorted(live.ledgers), 0)
            for start, end in live.slices:
                source = memoryview(await self._read(kind, number, start, end))
                base = number << OFFSET_BITS | start
                for ledger_id, at in done.items():
                    await self._spent(_LEDGER_COST)
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
            await self._name(manifest.log_floor, {**manifest.sorted_files, writer.number: written})
        except RhumblineError:
            # Not removed at once: a log that began meanwhile may have named it in its snapshot.
            self._unnamed.append(writer.number)
            raise
        storage.sorted[writer.number] = SortedFile(writer.number, written, live.ledger_bytes)

    async def _name(self, log_floor: int, sorted_files: dict[int, int]) -> None:
        """Has the manifest name these files, durably. If the journal does not take that, it names
        what it did, for the repeat. Raises DiskFullError, DiskFailedError."""
        storage, manifest = self._storage, self._storage.states.manifest
        before = manifest.log_floor, manifest.sorted_files
        manifest.log_floor, manifest.sorted_files = log_floor, sorted_files
        try:
            await storage.write_manifest()
        except RhumblineError:
            manifest.log_floor, manifest.sorted_files = before
            raise

    async def _remove(self, kind: int, number: int) -> None:
        """Step 5, also for the files that a manifest was refused for: this one is without them."""
        files = self._storage.files
        await files.remove(kind, [number])
        self.removed_count += 1
        unnamed, self._unnamed = self._unnamed, []
        if unnamed:
            await files.remove(SORTED_KIND, unnamed)

    async def _read(self, kind: int, number: int, start: int, end: int) -> bytes:
        """A slice, its groups verified again: what is copied has to be what was read before."""
        file = await self._storage.files.open(kind, number)
        source = await file.read(start, end - start)
        view = memoryview(source)
        at = checked = 0
        while at < end - start:
            group = decode_group_header(source, at)
            at += GROUP_HEADER_BYTES
            if group is None or crc32c(view[at : at + group.length]) != group.crc:
                raise CorruptionError(f"file {number} changed while it was sorted")
            at += group.length
            if at - checked > _CHECKED_AT_ONCE:
                checked = at
                await self._pace.pause()
        return source

    async def _copy(
        self,
        source: memoryview,
        base: int,
        rows: LedgerEntries,
        places: range,
        writer: SortedFileWriter,
        is_in_order: bool,
    ) -> None:
        """Copies the rows of one ledger in one slice; notes their new positions."""
        start, stop = places.start, places.stop
        while start < stop:
            part = rows.part(start, min(start + ROWS_AT_ONCE, stop))
            while len(part) > 1 and sum(part.lengths) > GROUP_BYTES:
                part = part.part(0, len(part) // 2)
            end = start + len(part)
            rows.positions[start:end] = writer.add(source, base, part, is_in_order=is_in_order)
            start = end
            if writer.is_full:
                await writer.flush()
                await self._pace.pause()
            await self._spent(len(part) + _RUN_COST)

    async def _spent(self, cost: int) -> None:
        """Pauses when the costs since the last pause, in rows, come to what a slice may cost."""
        self._cost += cost
        if self._cost >= ROWS_AT_ONCE:
            self._cost = 0
            await self._pace.pause()

    async def _move(self, old_number: int, ledgers: dict[int, LedgerEntries]) -> None:
        """Has the index point to the new places, where it still points to the old file."""
        while ledgers:
            ledger_id, rows = ledgers.popitem()
            for start in range(0, len(rows), ROWS_AT_ONCE):
                part = rows.part(start, start + ROWS_AT_ONCE)
                _order(part, 0, len(part))
                part.last = part.ids[-1]
                self._storage.index.move(ledger_id, old_number, part)
                await self._pace.pause()

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


def _order(rows: LedgerEntries, start: int, stop: int) -> None:
    """Sorts some of the rows by id."""
    if not rises(rows.ids[start:stop]):
        order = sorted(range(start, stop), key=rows.ids.__getitem__)
        for column in (rows.ids, rows.positions, rows.lengths):
            column[start:stop] = array(column.typecode, [column[at] for at in order])

"""The tiered index of a storage: recent rows in memory over the rows of the last checkpoint.

Every change goes to the memory tier ``recent``. A checkpoint freezes that tier, writes it to the
store in one transaction, together with the log number that it covers, and starts a new tier.
Reads search the newest tier first. Invariant: a row of a newer tier replaces that of an older one.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ..log.log_format import OFFSET_BITS
from .entry_index import EntryIndex, IndexedEntry, LedgerEntries, Location, MemoryIndex


class IndexStore(EntryIndex, Protocol):
    """The lowest tier, which is changed by checkpoints only."""

    @property
    def is_durable(self) -> bool:
        """True if the index survives a restart."""
        ...

    @property
    def covered_log(self) -> int:
        """The index is complete for logs with lower numbers; 0 if it must be rebuilt."""
        ...

    @property
    def sequence(self) -> int:
        """The number of the last checkpoint."""
        ...

    async def apply(
        self,
        columns: Iterable[tuple[int, LedgerEntries]],
        drops: Sequence[int],
        covered_log: int,
        sequence: int,
    ) -> None:
        """Drops ledgers, then puts rows and stores both numbers, durably and atomically.

        ``columns`` may be consumed in another thread, while ledgers are dropped from its source.
        """
        ...

    async def clear(self) -> None:
        """Removes all rows, so that the index can be rebuilt."""
        ...

    async def close(self) -> None:
        """Closes the index. Safe to repeat."""
        ...


class MemoryIndexStore(MemoryIndex):
    """A store in memory, rebuilt at each start; used by the simulator and tests."""

    is_durable = False

    def __init__(self) -> None:
        super().__init__()
        self.covered_log = self.sequence = 0

    async def apply(
        self,
        columns: Iterable[tuple[int, LedgerEntries]],
        drops: Sequence[int],
        covered_log: int,
        sequence: int,
    ) -> None:
        """See IndexStore."""
        for ledger_id in drops:
            self.drop(ledger_id)
        self.update(columns)
        self.covered_log, self.sequence = covered_log, sequence

    async def clear(self) -> None:
        """See IndexStore."""
        self._ledgers.clear()
        self.covered_log = self.sequence = 0

    async def close(self) -> None:
        """See IndexStore."""


class TieredIndex:
    """Three tiers: ``recent``, the frozen tier of a running checkpoint, and the store."""

    def __init__(self, store: IndexStore) -> None:
        self.store = store
        self.recent = MemoryIndex()
        self._frozen: MemoryIndex | None = None
        self._dropped: dict[int, None] = {}  # ledgers that the store still holds
        self._being_dropped: dict[int, None] = {}

    def find(self, ledger_id: int, entry_id: int) -> Location | None:
        """See EntryIndex."""
        found = self.recent.find(ledger_id, entry_id)
        if found is None and self._frozen is not None:
            found = self._frozen.find(ledger_id, entry_id)
        if found is None and not self._is_dropped(ledger_id):
            found = self.store.find(ledger_id, entry_id)
        return found

    def last(self, ledger_id: int) -> int | None:
        """See EntryIndex."""
        lasts = [tier.last(ledger_id) for tier in self._tiers(ledger_id)]
        return max((last for last in lasts if last is not None), default=None)

    def page(self, ledger_id: int, first: int, limit: int) -> list[IndexedEntry]:
        """See EntryIndex."""
        found: dict[int, IndexedEntry] = {}
        for tier in reversed(self._tiers(ledger_id)):
            for row in tier.page(ledger_id, first, limit):
                found[row.entry_id] = row
        return [found[entry_id] for entry_id in sorted(found)[:limit]]

    def span(self, ledger_id: int, first: int, last: int) -> LedgerEntries:
        """See EntryIndex."""
        *newer, oldest = self._tiers(ledger_id)
        found = oldest.span(ledger_id, first, last)
        for tier in reversed(newer):
            found.update(tier.span(ledger_id, first, last))
        return found

    def ledgers(self) -> Iterator[int]:
        """See EntryIndex."""
        previous = -1
        tiers = [tier.ledgers() for tier in (self.recent, self._frozen, self.store) if tier]
        for ledger_id in heapq.merge(*tiers):
            if ledger_id != previous and self.last(ledger_id) is not None:
                yield ledger_id
            previous = ledger_id

    def put(self, rows: Sequence[IndexedEntry]) -> None:
        """See EntryIndex."""
        self.recent.put(rows)

    def move(self, ledger_id: int, old_number: int, rows: LedgerEntries) -> None:
        """Points rows to new positions, unless they have left the old file."""
        known = self.span(ledger_id, rows.ids[0], rows.last)
        if known.ids != rows.ids or not _all_in_file(known, old_number):
            rows = _rows_in_file(known, old_number, rows)
        self.recent.update([(ledger_id, rows)])

    def drop(self, ledger_id: int) -> None:
        """See EntryIndex."""
        self.recent.drop(ledger_id)
        if self._frozen is not None:
            self._frozen.drop(ledger_id)
        self._dropped[ledger_id] = None

    async def checkpoint(self, covered_log: int, sequence: int) -> None:
        """Writes all rows that were put until now to the store. One call at a time.

        Raises DiskFullError, DiskFailedError; the next checkpoint then includes the same rows.
        """
        assert self._frozen is None, "one checkpoint at a time"
        frozen, self._frozen, self.recent = self.recent, self.recent, MemoryIndex()
        self._being_dropped, self._dropped = self._dropped, {}
        try:
            drops = list(self._being_dropped)
            await self.store.apply(frozen.columns(), drops, covered_log, sequence)
        except BaseException:
            self._thaw(frozen)
            raise
        finally:
            self._frozen = None
            self._being_dropped = {}

    def _thaw(self, frozen: MemoryIndex) -> None:
        """Restores the tier of a failed checkpoint below the rows that were put since."""
        newer, self.recent = self.recent, frozen
        self._dropped = {**self._being_dropped, **self._dropped}
        self.recent.update(newer.columns())

    def _is_dropped(self, ledger_id: int) -> bool:
        return ledger_id in self._dropped or ledger_id in self._being_dropped

    def _tiers(self, ledger_id: int) -> list[EntryIndex]:
        """Return the tiers, newest first; without the store if the ledger was dropped."""
        tiers: list[EntryIndex] = [self.recent]
        if self._frozen is not None:
            tiers.append(self._frozen)
        if not self._is_dropped(ledger_id):
            tiers.append(self.store)
        return tiers


def _all_in_file(rows: LedgerEntries, number: int) -> bool:
    low, high = min(rows.positions), max(rows.positions)
    return low >> OFFSET_BITS == number == high >> OFFSET_BITS


def _rows_in_file(known: LedgerEntries, number: int, rows: LedgerEntries) -> LedgerEntries:
    """Return those ``rows`` whose ids ``known`` locates in this file."""
    found = LedgerEntries()
    for entry_id, position, length in zip(rows.ids, rows.positions, rows.lengths, strict=True):
        location = known.find(entry_id)
        if location is not None and location.position >> OFFSET_BITS == number:
            found.put(entry_id, position, length)
    return found

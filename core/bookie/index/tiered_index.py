"""The index as storage uses it: what is new in memory, over what the last checkpoint made durable.

``recent`` takes every change at once. A checkpoint freezes it, writes it to the store in one
transaction together with the log number that it covers, and starts another. Reads look at the
newest tier first. Invariant: a row of a newer tier replaces that of an older one.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ..log.log_format import OFFSET_BITS
from .entry_index import EntryIndex, IndexedEntry, LedgerEntries, Location, MemoryIndex


class IndexStore(EntryIndex, Protocol):
    """An index that holds what a checkpoint gave it."""

    @property
    def is_durable(self) -> bool:
        """Whether it is there after a restart."""
        ...

    @property
    def covered_log(self) -> int:
        """Entries of logs with lower numbers are in it; 0: it has to be rebuilt."""
        ...

    @property
    def sequence(self) -> int:
        """The number of the last checkpoint in it."""
        ...

    async def apply(
        self,
        columns: Iterable[tuple[int, LedgerEntries]],
        drops: Sequence[int],
        covered_log: int,
        sequence: int,
    ) -> None:
        """Drops ledgers, then puts each one's rows, notes the numbers: all durably, or nothing.

        ``columns`` may be consumed in another thread, while ledgers are dropped from its source.
        """
        ...

    async def clear(self) -> None:
        """Empties it, to be rebuilt."""
        ...

    async def close(self) -> None:
        """Releases it. Safe to repeat."""
        ...


class MemoryIndexStore(MemoryIndex):
    """A store that forgets: rebuilt at each start. The simulator's."""

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
    """``recent`` over ``frozen`` (while a checkpoint runs) over the store."""

    def __init__(self, store: IndexStore) -> None:
        self.store = store
        self.recent = MemoryIndex()
        self._frozen: MemoryIndex | None = None
        self._dropped: dict[int, None] = {}  # not yet dropped in the store
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
        """Has rows point to new places, where they still point into the old file."""
        known = self.span(ledger_id, rows.ids[0], rows.last)
        if known.ids != rows.ids or not _all_stand_in(known, old_number):
            rows = _those_that_stand_in(known, old_number, rows)
        self.recent.update([(ledger_id, rows)])

    def drop(self, ledger_id: int) -> None:
        """See EntryIndex."""
        self.recent.drop(ledger_id)
        if self._frozen is not None:
            self._frozen.drop(ledger_id)
        self._dropped[ledger_id] = None

    async def checkpoint(self, covered_log: int, sequence: int) -> None:
        """Makes the store hold all that was put until now. One at a time.

        Raises DiskFullError, DiskFailedError; then nothing is lost, and the next one does it all.
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
        """Puts what was being written back under what has come since."""
        newer, self.recent = self.recent, frozen
        self._dropped = {**self._being_dropped, **self._dropped}
        self.recent.update(newer.columns())

    def _is_dropped(self, ledger_id: int) -> bool:
        return ledger_id in self._dropped or ledger_id in self._being_dropped

    def _tiers(self, ledger_id: int) -> list[EntryIndex]:
        """Newest first; the store only where it still holds."""
        tiers: list[EntryIndex] = [self.recent]
        if self._frozen is not None:
            tiers.append(self._frozen)
        if not self._is_dropped(ledger_id):
            tiers.append(self.store)
        return tiers


def _all_stand_in(rows: LedgerEntries, number: int) -> bool:
    low, high = min(rows.positions), max(rows.positions)
    return low >> OFFSET_BITS == number == high >> OFFSET_BITS


def _those_that_stand_in(known: LedgerEntries, number: int, rows: LedgerEntries) -> LedgerEntries:
    """Those ``rows`` whose ids ``known`` has in this file."""
    found = LedgerEntries()
    for entry_id, position, length in zip(rows.ids, rows.positions, rows.lengths, strict=True):
        location = known.find(entry_id)
        if location is not None and location.position >> OFFSET_BITS == number:
            found.put(entry_id, position, length)
    return found

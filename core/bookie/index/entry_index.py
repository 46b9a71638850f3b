"""The entry index: maps (ledger, entry) to a location. A cache that the logs can rebuild.

A position is one integer of file number and offset of the entry's bytes (log_format.OFFSET_BITS).
For every implementation, the last put of an id wins, ids may arrive in any order, and a ledger
without entries is not in the index.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from .ledger_entries import LedgerEntries, Location

__all__ = ["EntryIndex", "IndexedEntry", "LedgerEntries", "Location", "MemoryIndex", "add_missing"]


class IndexedEntry(NamedTuple):
    """One row of the index."""

    ledger_id: int
    entry_id: int
    position: int
    length: int


class EntryIndex(Protocol):
    """An entry index. Reads do not block (memory or mapped pages); changes come in batches."""

    def find(self, ledger_id: int, entry_id: int) -> Location | None:
        """Return the location of an entry, or None."""
        ...

    def last(self, ledger_id: int) -> int | None:
        """Return the highest entry id of a ledger, or None."""
        ...

    def page(self, ledger_id: int, first: int, limit: int) -> list[IndexedEntry]:
        """Return at most ``limit`` rows of one ledger from entry id ``first`` on, rising."""
        ...

    def span(self, ledger_id: int, first: int, last: int) -> LedgerEntries:
        """Return a copy of the rows of one ledger with ids from ``first`` to ``last``."""
        ...

    def ledgers(self) -> Iterator[int]:
        """Yield the ids of all ledgers that have entries, rising."""
        ...

    def put(self, rows: Sequence[IndexedEntry]) -> None:
        """Adds or replaces rows, in order."""
        ...

    def drop(self, ledger_id: int) -> None:
        """Removes all rows of a ledger, if there are any."""
        ...


class MemoryIndex:
    """An index in memory: the rows since the last checkpoint, or all rows in the simulator."""

    def __init__(self) -> None:
        self._ledgers: dict[int, LedgerEntries] = {}

    def entries_of(self, ledger_id: int) -> LedgerEntries:
        """Return the rows of a ledger. The caller must add a row at once if there are none."""
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            entries = self._ledgers[ledger_id] = LedgerEntries()
        return entries

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return sum(len(entries) for entries in self._ledgers.values())

    def find(self, ledger_id: int, entry_id: int) -> Location | None:
        """See EntryIndex."""
        entries = self._ledgers.get(ledger_id)
        return None if entries is None else entries.find(entry_id)

    def last(self, ledger_id: int) -> int | None:
        """See EntryIndex."""
        entries = self._ledgers.get(ledger_id)
        return None if entries is None else entries.last

    def page(self, ledger_id: int, first: int, limit: int) -> list[IndexedEntry]:
        """See EntryIndex."""
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            return []
        return [IndexedEntry(ledger_id, *row) for row in entries.page(first, limit)]

    def span(self, ledger_id: int, first: int, last: int) -> LedgerEntries:
        """See EntryIndex."""
        entries = self._ledgers.get(ledger_id)
        return LedgerEntries() if entries is None else entries.span(first, last)

    def ledgers(self) -> Iterator[int]:
        """See EntryIndex."""
        return iter(sorted(self._ledgers))

    def columns(self) -> Iterator[tuple[int, LedgerEntries]]:
        """Yield all ledgers with their rows, rising, uncopied; ledgers may be dropped meanwhile."""
        for ledger_id in sorted(self._ledgers):
            entries = self._ledgers.get(ledger_id)
            if entries is not None:
                yield ledger_id, entries

    def update(self, columns: Iterable[tuple[int, LedgerEntries]]) -> None:
        """Adds or replaces the rows of each ledger at once."""
        for ledger_id, entries in columns:
            if entries:
                self.entries_of(ledger_id).update(entries)

    def rows(self) -> Iterator[IndexedEntry]:
        """Yield all rows, ordered by ledger and entry."""
        for ledger_id, entries in self.columns():
            for row in entries.page(0, len(entries)):
                yield IndexedEntry(ledger_id, *row)

    def put(self, rows: Sequence[IndexedEntry]) -> None:
        """See EntryIndex."""
        for ledger_id, entry_id, position, length in rows:
            self.entries_of(ledger_id).put(entry_id, position, length)

    def drop(self, ledger_id: int) -> None:
        """See EntryIndex."""
        self._ledgers.pop(ledger_id, None)


_ROWS_AT_ONCE = 10_000


def add_missing(index: EntryIndex, older: MemoryIndex) -> None:
    """Puts the rows of ``older`` that ``index`` does not have, in parts of limited size."""
    rows = older.rows()
    while part := list(islice(rows, _ROWS_AT_ONCE)):
        index.put([row for row in part if index.find(row.ledger_id, row.entry_id) is None])

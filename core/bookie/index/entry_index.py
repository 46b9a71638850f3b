"""An entry index in memory: maps (ledger, entry) to a location.

A position is one integer of file number and offset of the entry's bytes (log_format.OFFSET_BITS).
The last put of an id wins, ids may arrive in any order, and a ledger without entries is not in the
index.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .ledger_entries import LedgerEntries, Location

__all__ = ["IndexedEntry", "LedgerEntries", "Location", "MemoryIndex"]


class IndexedEntry(NamedTuple):
    """One row of the index."""

    ledger_id: int
    entry_id: int
    position: int
    length: int


class MemoryIndex:
    """The rows of one file, or of several."""

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
        """Return the location of an entry, or None."""
        entries = self._ledgers.get(ledger_id)
        return None if entries is None else entries.find(entry_id)

    def last(self, ledger_id: int) -> int | None:
        """Return the highest entry id of a ledger, or None."""
        entries = self._ledgers.get(ledger_id)
        return None if entries is None else entries.last

    def page(self, ledger_id: int, first: int, limit: int) -> list[IndexedEntry]:
        """Return at most ``limit`` rows of one ledger from entry id ``first`` on, rising."""
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            return []
        return [IndexedEntry(ledger_id, *row) for row in entries.page(first, limit)]

    def ledgers(self) -> Iterator[int]:
        """Yield the ids of all ledgers that have entries, rising."""
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
        """Adds or replaces rows, in order."""
        for ledger_id, entry_id, position, length in rows:
            self.entries_of(ledger_id).put(entry_id, position, length)

    def drop(self, ledger_id: int) -> None:
        """Removes all rows of a ledger, if there are any."""
        self._ledgers.pop(ledger_id, None)

"""The entry index: (ledger, entry) -> where its bytes are. A cache: the logs can rebuild it.

A position is one integer, file number and offset of the entry's bytes (groups.OFFSET_BITS). What
holds for every implementation: the last put of an id wins, ids may come in any order, and a ledger
without entries is not in it.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol


class Location(NamedTuple):
    """Where an entry is: ``position`` of its bytes and their count."""

    position: int
    length: int


class IndexedEntry(NamedTuple):
    """One row of the index."""

    ledger_id: int
    entry_id: int
    position: int
    length: int


class EntryIndex(Protocol):
    """Reads are immediate (memory or mapped pages); changes come in batches."""

    def find(self, ledger_id: int, entry_id: int) -> Location | None:
        """Where the entry is, or None."""
        ...

    def last(self, ledger_id: int) -> int | None:
        """The highest entry id of the ledger, or None when it has none."""
        ...

    def page(self, ledger_id: int, first: int, limit: int) -> list[IndexedEntry]:
        """At most ``limit`` rows of one ledger from entry id ``first`` on, rising."""
        ...

    def ledgers(self) -> Iterator[int]:
        """Every ledger that has entries, rising."""
        ...

    def put(self, rows: Sequence[IndexedEntry]) -> None:
        """Adds or replaces rows, in order."""
        ...

    def drop(self, ledger_id: int) -> None:
        """Forgets all entries of a ledger. No error if there are none."""
        ...


class LedgerEntries:
    """The rows of one ledger in three parallel arrays, rising by entry id: 20 bytes an entry."""

    __slots__ = ("_ids", "_lengths", "_positions", "last")

    def __init__(self) -> None:
        self._ids = array("q")
        self._positions = array("Q")
        self._lengths = array("I")
        self.last = -1
        """The highest entry id; -1 while there is none."""

    def __len__(self) -> int:
        return len(self._ids)

    def put(self, entry_id: int, position: int, length: int) -> None:
        """Adds or replaces a row: at once at the end, by moving the rest elsewhere."""
        if entry_id > self.last:
            self._ids.append(entry_id)
            self._positions.append(position)
            self._lengths.append(length)
            self.last = entry_id
            return
        at = bisect_left(self._ids, entry_id)
        if self._ids[at] == entry_id:
            self._positions[at] = position
            self._lengths[at] = length
            return
        self._ids.insert(at, entry_id)
        self._positions.insert(at, position)
        self._lengths.insert(at, length)

    def find(self, entry_id: int) -> Location | None:
        """The row of an entry id, or None."""
        at = bisect_left(self._ids, entry_id)
        if at == len(self._ids) or self._ids[at] != entry_id:
            return None
        return Location(self._positions[at], self._lengths[at])

    def page(self, first: int, limit: int) -> list[tuple[int, int, int]]:
        """(entry id, position, length) from ``first`` on."""
        start = bisect_left(self._ids, first)
        stop = start + limit
        return list(
            zip(
                self._ids[start:stop],
                self._positions[start:stop],
                self._lengths[start:stop],
                strict=True,
            )
        )


class MemoryIndex:
    """The index in memory: the simulator's, and what was added since the last checkpoint."""

    def __init__(self) -> None:
        self._ledgers: dict[int, LedgerEntries] = {}

    def entries_of(self, ledger_id: int) -> LedgerEntries:
        """The rows of a ledger, made when there are none yet (the caller adds one at once)."""
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            entries = self._ledgers[ledger_id] = LedgerEntries()
        return entries

    @property
    def row_count(self) -> int:
        """How many entries are in it."""
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

    def ledgers(self) -> Iterator[int]:
        """See EntryIndex."""
        return iter(sorted(self._ledgers))

    def rows(self) -> Iterator[IndexedEntry]:
        """Everything, by ledger and entry."""
        for ledger_id in sorted(self._ledgers):
            entries = self._ledgers.get(ledger_id)
            if entries is None:
                continue  # dropped meanwhile
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
    """Puts those rows of ``older`` whose ids ``index`` does not have; never many in memory."""
    rows = older.rows()
    while part := list(islice(rows, _ROWS_AT_ONCE)):
        index.put([row for row in part if index.find(row.ledger_id, row.entry_id) is None])

"""The rows of one ledger in an index, stored by column, so that many rows are handled at once.

This module is separate from entry_index because it is compiled with mypyc.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple


class Location(NamedTuple):
    """The location of an entry: the position of its bytes (file and offset) and their count."""

    position: int
    length: int


class LedgerEntries:
    """Three parallel arrays, ordered by entry id: 20 bytes per entry."""

    __slots__ = ("ids", "last", "lengths", "positions")

    def __init__(self) -> None:
        self.ids = array("q")
        self.positions = array("Q")
        self.lengths = array("I")
        self.last = -1
        """The highest entry id, -1 if there is none."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_dense(self) -> bool:
        """True if no id between the first and the last is missing."""
        ids = self.ids
        return not ids or ids[-1] - ids[0] + 1 == len(ids)

    def put(self, entry_id: int, position: int, length: int) -> None:
        """Adds or replaces a row. Appending is fast; an insertion moves the rows after it."""
        if entry_id > self.last:
            self.ids.append(entry_id)
            self.positions.append(position)
            self.lengths.append(length)
            self.last = entry_id
            return
        at = bisect_left(self.ids, entry_id)
        if self.ids[at] == entry_id:
            self.positions[at] = position
            self.lengths[at] = length
            return
        self.ids.insert(at, entry_id)
        self.positions.insert(at, position)
        self.lengths.insert(at, length)

    def update(self, newer: "LedgerEntries") -> None:
        """Adds or replaces rows, with one slice assignment if no other row lies between them."""
        if not newer.ids:
            return
        start = bisect_left(self.ids, newer.ids[0])
        stop = bisect_right(self.ids, newer.last, start)
        if start == stop or newer.is_dense or self.ids[start:stop] == newer.ids:
            self.ids[start:stop] = newer.ids
            self.positions[start:stop] = newer.positions
            self.lengths[start:stop] = newer.lengths
            self.last = self.ids[-1]
            return
        for row in zip(newer.ids, newer.positions, newer.lengths, strict=True):
            self.put(*row)

    def find(self, entry_id: int) -> Location | None:
        """Return the location of an entry, or None."""
        at = bisect_left(self.ids, entry_id)
        if at == len(self.ids) or self.ids[at] != entry_id:
            return None
        return Location(self.positions[at], self.lengths[at])

    def part(self, start: int, stop: int) -> "LedgerEntries":
        """Return a copy of the rows from index ``start`` to ``stop`` in the arrays."""
        part = LedgerEntries()
        part.ids = self.ids[start:stop]
        part.positions = self.positions[start:stop]
        part.lengths = self.lengths[start:stop]
        part.last = part.ids[-1] if part.ids else -1
        return part

    def span(self, first: int, last: int) -> "LedgerEntries":
        """Return a copy of the rows with ids from ``first`` to ``last``."""
        start = bisect_left(self.ids, first)
        return self.part(start, bisect_right(self.ids, last, start))

    def page(self, first: int, limit: int) -> list[tuple[int, int, int]]:
        """Return (entry id, position, length) of at most ``limit`` rows from ``first`` on."""
        start = bisect_left(self.ids, first)
        stop = start + limit
        return list(
            zip(
                self.ids[start:stop],
                self.positions[start:stop],
                self.lengths[start:stop],
                strict=True,
            )
        )

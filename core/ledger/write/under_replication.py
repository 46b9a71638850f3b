"""Which confirmed entries a bookie has not confirmed: remembered as ranges, handed to repair."""

from itertools import pairwise
from typing import NamedTuple

from ...protocol.bookie_id import BookieId

RANGES_MAX = 256
"""Ranges kept by bookie and fragment; above it neighbours are joined: too much, never less."""


class MissingRange(NamedTuple):
    """Entries that ``bookie`` should hold as a member of the fragment, and perhaps does not."""

    ledger_id: int
    fragment_first_entry_id: int
    bookie: BookieId
    ranges: tuple[tuple[int, int], ...]


class UnderReplication:
    """The holes of one ledger that nobody has been told of yet."""

    __slots__ = ("_by_place", "_ledger_id")

    def __init__(self, ledger_id: int) -> None:
        self._ledger_id = ledger_id
        self._by_place: dict[tuple[int, BookieId], list[list[int]]] = {}

    def __len__(self) -> int:
        return len(self._by_place)

    def add(self, fragment_first: int, bookie: BookieId, entry_id: int, *, stride: int) -> None:
        """``bookie`` misses the entry. Ids at most ``stride`` apart are one range (striping)."""
        ranges = self._by_place.setdefault((fragment_first, bookie), [])
        for known in reversed(ranges):
            if known[0] - stride <= entry_id <= known[1] + stride:
                known[0] = min(known[0], entry_id)
                known[1] = max(known[1], entry_id)
                return
            if known[1] < entry_id:
                break
        ranges.append([entry_id, entry_id])
        ranges.sort()
        if len(ranges) > RANGES_MAX:
            gaps = [(b[0] - a[1], i) for i, (a, b) in enumerate(pairwise(ranges))]
            _, narrowest = min(gaps)
            ranges[narrowest][1] = ranges.pop(narrowest + 1)[1]

    def take(self) -> list[MissingRange]:
        """All holes found since the last call."""
        found = [
            MissingRange(self._ledger_id, first, bookie, tuple((a, b) for a, b in sorted(ranges)))
            for (first, bookie), ranges in self._by_place.items()
        ]
        self._by_place.clear()
        return found

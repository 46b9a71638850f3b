"""Records which confirmed entries a bookie has not stored, as ranges, until they are reported."""

from itertools import pairwise

from ...protocol.bookie_id import BookieId
from ..missing_range import MissingRange

RANGES_MAX = 256
"""Ranges kept per bookie and fragment. Above it, neighboring ranges are merged: the report then
names entries that are not missing, but never omits one that is."""


class UnderReplication:
    """The missing entries of one ledger that have not been reported yet."""

    __slots__ = ("_ledger_id", "_ranges")

    def __init__(self, ledger_id: int) -> None:
        self._ledger_id = ledger_id
        self._ranges: dict[tuple[int, BookieId], list[list[int]]] = {}

    def __len__(self) -> int:
        return len(self._ranges)

    def add(self, fragment_first: int, bookie: BookieId, entry_id: int, *, stride: int) -> None:
        """Records that ``bookie`` lacks the entry.

        Ids that are at most ``stride`` apart form one range, since a bookie of a striped ledger
        holds only some of the entries in between.
        """
        ranges = self._ranges.setdefault((fragment_first, bookie), [])
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
        """Returns and clears everything recorded since the last call."""
        found = [
            MissingRange(self._ledger_id, first, bookie, tuple((a, b) for a, b in sorted(ranges)))
            for (first, bookie), ranges in self._ranges.items()
        ]
        self._ranges.clear()
        return found

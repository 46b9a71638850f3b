"""The ledgers of which a bookie has lost copies, as it publishes them (rule DSK-5).

The text form is a list of ledger ids and ranges, such as ``3,7-9``, or ``all`` if the list would be
too long. Text that does not parse means all ledgers: a copy only counts if it is known to be there.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .availability import runs_of

RANGES_MAX = 2_000
"""The longest list; every client of the cluster reads it."""

_IDS_MAX = 1_000_000
_ALL = "all"
_RANGE = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class LostLedgers:
    """Some ledgers, or all of them."""

    ids: frozenset[int] = frozenset()
    are_all: bool = False
    """True if any ledger may have lost copies."""

    def __bool__(self) -> bool:
        return self.are_all or bool(self.ids)

    def covers(self, ledger_id: int) -> bool:
        """Return whether copies of the ledger may be lost."""
        return self.are_all or ledger_id in self.ids


NONE_LOST = LostLedgers()
ALL_LOST = LostLedgers(are_all=True)


def encode(ledgers: Iterable[int]) -> str:
    """Return the text form; empty if there are no ledgers."""
    ids = sorted(set(ledgers))
    runs = list(runs_of(ids))
    if len(runs) > RANGES_MAX or len(ids) > _IDS_MAX:
        return _ALL
    return ",".join(
        str(first) if count == 1 else f"{first}-{first + count - 1}" for first, count in runs
    )


def decode(text: str) -> LostLedgers:
    """Return the ledgers that a text form names."""
    if not text:
        return NONE_LOST
    ids: set[int] = set()
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            return ALL_LOST
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or len(ids) + last - first >= _IDS_MAX:
            return ALL_LOST
        ids.update(range(first, last + 1))
    return LostLedgers(frozenset(ids))

"""The part of a ledger's metadata on which its durability depends. Pure.

Thousands of ledgers have the same bookies and the same quorum, hence the same layout, and are
judged once. Entry n of a part uses write set number n modulo the number of its write sets.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.ledger_metadata import (
    NAMESPACE_KEY,
    STREAM_KEY,
    LedgerMetadata,
    LedgerState,
)
from ...core.protocol.quorum import Quorum
from ...core.protocol.recovery import quorums_from


class LayoutPart(NamedTuple):
    """Entries of a ledger with the same bookies and the same quorum."""

    bookies: tuple[BookieId, ...]
    """By ensemble index; sorted if every entry is on all of them."""
    quorum: Quorum
    used: int
    """Bit mask of the write sets that have entries. All of them if the part is open, because only
    the writer knows the number of its entries."""
    is_open: bool

    @property
    def turns(self) -> int:
        """The number of write sets."""
        return turns_of(self.quorum)


class LedgerLayout(NamedTuple):
    """The properties of a ledger on which its durability depends, besides the bookies."""

    parts: tuple[LayoutPart, ...]
    state: LedgerState
    writing: LayoutPart | None
    """The part that gets the next entry; None if the ledger is closed."""
    allowed: tuple[str, ...]
    """The regions that may hold copies; () for all."""
    rule: tuple[tuple[str, int], ...]
    """The spread rule that new members must obey (rule PLC-29), by level."""

    @property
    def is_open(self) -> bool:
        """True if the end of the ledger is not decided."""
        return self.state is not LedgerState.CLOSED

    def bookies(self) -> frozenset[BookieId]:
        """Return every bookie that a part names."""
        return frozenset(bookie for part in self.parts for bookie in part.bookies)


EntryCounts = tuple[int, ...]
"""The number of entries by part and write set, one part after the other."""


def layout_of(metadata: LedgerMetadata) -> tuple[LedgerLayout, EntryCounts]:
    """Return the layout of a ledger, and the number of entries in each write set of its parts.

    The entries of an open last fragment are not counted.
    """
    found: dict[LayoutPart, list[int]] = {}
    for fragment, count in zip(metadata.fragments, entry_counts(metadata), strict=True):
        for start, entries, quorum in parts_by_r(metadata, fragment.first_entry_id, count):
            counts = stripe_counts(start, entries, turns_of(quorum))
            used = sum(1 << index for index, number in enumerate(counts) if number)
            part = LayoutPart(_canonical(fragment.bookies, quorum), _shared(quorum), used, False)
            known = found.setdefault(part, [0] * len(counts))
            found[part] = [a + b for a, b in zip(known, counts, strict=True)]
    writing = None
    if metadata.state is not LedgerState.CLOSED:
        last = metadata.last_fragment
        for quorum in quorums_from(metadata, last.first_entry_id):
            turns = turns_of(quorum)
            bookies = _canonical(last.bookies, quorum)
            writing = LayoutPart(bookies, _shared(quorum), (1 << turns) - 1, True)
            found.setdefault(writing, [0] * turns)
    rule = metadata.spread_rule()
    layout = LedgerLayout(
        tuple(found),
        metadata.state,
        writing,
        metadata.allowed_regions(),
        tuple(sorted(rule.items())) if rule else (),
    )
    return layout, tuple(number for counts in found.values() for number in counts)


def stream_of(metadata: LedgerMetadata) -> str | None:
    """Return the stream that a ledger belongs to, as ``namespace/stream``, or None."""
    stream = metadata.custom.get(STREAM_KEY)
    if stream is None:
        return None
    namespace = metadata.custom.get(NAMESPACE_KEY, b"")
    return f"{namespace.decode(errors='replace')}/{stream.decode(errors='replace')}"


def entry_counts(metadata: LedgerMetadata) -> list[int]:
    """Return the number of entries of each fragment; 0 for an open last fragment."""
    firsts = [fragment.first_entry_id for fragment in metadata.fragments]
    end = metadata.last_entry_id + 1 if metadata.state is LedgerState.CLOSED else firsts[-1]
    return [after - first for first, after in zip(firsts, [*firsts[1:], end], strict=True)]


def parts_by_r(
    metadata: LedgerMetadata, first: int, count: int
) -> Iterator[tuple[int, int, Quorum]]:
    """Yield (first entry, number of entries, quorum) of each part of a fragment with one R."""
    if count == 0:
        return
    starts = [first, *(start for start, _ in metadata.r_ranges() if first < start < first + count)]
    for start, end in pairwise([*starts, first + count]):
        yield start, end - start, metadata.quorum_at(start)


def stripe_counts(first: int, count: int, turns: int) -> list[int]:
    """Return how many of ``count`` entries from ``first`` on use each of ``turns`` write sets.

    The cost does not depend on ``count``.
    """
    whole, rest = divmod(count, turns)
    found = [whole] * turns
    for offset in range(rest):
        found[(first + offset) % turns] += 1
    return found


def turns_of(quorum: Quorum) -> int:
    """Return the number of different write sets of an ensemble."""
    return quorum.ensemble_size if quorum.ensemble_size > quorum.write_quorum else 1


def _canonical(bookies: Sequence[BookieId], quorum: Quorum) -> tuple[BookieId, ...]:
    return tuple(bookies) if turns_of(quorum) > 1 else tuple(sorted(bookies))


@lru_cache(maxsize=256)
def _shared(quorum: Quorum) -> Quorum:
    """Return one object for equal quorums, so that layouts share it."""
    return quorum

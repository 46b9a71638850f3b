"""Decides the metadata of one ledger from the inventories of all bookies (rules BAK-3 and BAK-4).

All open ledgers are fenced when inventories are taken, so nothing is acknowledged any more. An
entry is kept if it may have been acknowledged: the bookies that hold it, together with those that
may have held it, satisfy P. An entry of which it is certain that it was never acknowledged is not
kept, since an earlier recovery may have ended the ledger before it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..core.protocol.bookie_id import BookieId, Region
from ..core.protocol.errors import CorruptionError
from ..core.protocol.ledger_metadata import (
    MOVING_KEY,
    NO_ENTRY,
    Fragment,
    LedgerMetadata,
    LedgerState,
)
from ..core.protocol.quorum import Quorum
from ..core.wire.ledger_metadata import decode
from .inventory import EndFacts, HeldLedger, HeldRange

_RANKS = {LedgerState.OPEN: 0, LedgerState.IN_RECOVERY: 1, LedgerState.CLOSED: 2}


class Holder(NamedTuple):
    """A bookie with what it holds of the ledger."""

    bookie: BookieId
    held: HeldLedger


@dataclass(frozen=True, slots=True)
class FoundLedger:
    """The decision about one ledger."""

    metadata: LedgerMetadata
    """Closed."""
    facts: EndFacts | None
    """The facts of its last entry; None if it is empty, or if they are unknown."""
    missing: tuple[HeldRange, ...] = ()
    """Entries below the end that no bookie holds."""
    was_decided: bool = False
    """True if the end was decided now, and not read from a copy of closed metadata."""
    may_have_ended_later: bool = False
    """True if the next entry may have been acknowledged by bookies that are lost or in limbo."""


def newest_metadata(
    ledger_id: int, holders: Sequence[Holder], base: LedgerMetadata | None
) -> LedgerMetadata | None:
    """Return the newest known metadata: of the copies on bookies, and of ``base`` in a backup.

    A state never goes back, and a closed ledger only returns more copies. An open ledger gains
    fragments, but a change of its ensemble replaces the last one if no entry of it was confirmed.
    So of two copies whose last fragments begin at the same entry, the one counts whose R changed
    last, or else the one of which more members hold entries, because the writer sent them to the
    newest ensemble.
    """
    known = [] if base is None else [base]
    for holder in holders:
        if holder.held.metadata:
            try:
                found = decode(ledger_id, holder.held.metadata)
                found.r_ranges()  # raises CorruptionError
                known.append(found)
            except CorruptionError:
                continue
    by_bookie = {holder.bookie: holder.held for holder in holders}
    held_up_to = _held_up_to(holders)

    def age(metadata: LedgerMetadata) -> tuple[int, ...]:
        last = metadata.last_fragment
        r_from, r = metadata.r_ranges()[-1]
        quorum = metadata.quorum_at(last.first_entry_id)
        used = sum(
            _Stored(quorum, index, last, held_up_to).any_on(by_bookie.get(bookie))
            for index, bookie in enumerate(last.bookies)
        )
        rank = _RANKS[metadata.state]
        return rank, metadata.return_count, last.first_entry_id, r_from, used, -r

    return max(known, key=age, default=None)


def find_ledger(
    newest: LedgerMetadata,
    holders: Sequence[Holder],
    regions: Mapping[BookieId, Region],
    lost: Collection[BookieId],
) -> FoundLedger:
    """Return the closed metadata of a ledger.

    ``regions`` are those of the known bookies. ``lost`` are bookies without an inventory.
    """
    if newest.state is LedgerState.CLOSED:
        end, facts = newest.last_entry_id, _facts_at(newest.last_entry_id, holders)
        closed, may_have_ended_later = newest, False
    else:
        end, may_have_ended_later = decided_end(newest, holders, regions, lost)
        facts = _facts_at(end, holders)
        closed = newest.closed(end, 0 if facts is None else facts.length_bytes)
    custom = {key: value for key, value in closed.custom.items() if key != MOVING_KEY}
    closed = replace(closed, custom=custom)
    return FoundLedger(
        _with_present_members(closed, holders, regions, lost),
        facts,
        missing_ranges(holders, end),
        newest.state is not LedgerState.CLOSED,
        may_have_ended_later,
    )


def decided_end(
    metadata: LedgerMetadata,
    holders: Sequence[Holder],
    regions: Mapping[BookieId, Region],
    lost: Collection[BookieId],
) -> tuple[int, bool]:
    """Return the last entry that is kept, and whether more may have been acknowledged (rule BAK-3).

    Everything up to the LAC was acknowledged, whether or not a bookie holds it. Lost bookies and
    those in limbo may have held any later entry, also if ``metadata`` does not name them: the
    newest ensemble may be one that only they knew.
    """
    end = max((holder.held.lac for holder in holders), default=NO_ENTRY)
    held_up_to = _held_up_to(holders)
    silent = {*lost, *(holder.bookie for holder in holders if holder.held.is_in_limbo)}
    while True:
        entry_id = end + 1
        quorum = metadata.quorum_at(entry_id)
        having = {holder.bookie for holder in holders if holder.held.holds(entry_id)}
        possible = having | silent
        spread = {regions.get(bookie, f"unknown region of {bookie}") for bookie in possible}
        is_possible = len(possible) >= quorum.ack_quorum and len(spread) >= quorum.min_regions
        if not is_possible or entry_id > held_up_to:
            return end, is_possible
        end = entry_id


def _held_up_to(holders: Sequence[Holder]) -> int:
    return max((holder.held.last_entry_id for holder in holders), default=NO_ENTRY)


def missing_ranges(holders: Sequence[Holder], last: int) -> tuple[HeldRange, ...]:
    """Return the entries from 0 to ``last`` that no bookie holds."""
    missing: list[HeldRange] = []
    next_id = 0
    for first, end in sorted(part for holder in holders for part in holder.held.ranges):
        if first > last:
            break
        if first > next_id:
            missing.append(HeldRange(next_id, first - 1))
        next_id = max(next_id, end + 1)
    if next_id <= last:
        missing.append(HeldRange(next_id, last))
    return tuple(missing)


def _facts_at(entry_id: int, holders: Sequence[Holder]) -> EndFacts | None:
    found = (
        facts for holder in holders for facts in holder.held.tail if facts.entry_id == entry_id
    )
    return next(found, None)


def _with_present_members(
    closed: LedgerMetadata,
    holders: Sequence[Holder],
    regions: Mapping[BookieId, Region],
    lost: Collection[BookieId],
) -> LedgerMetadata:
    """Replace members that hold nothing by bookies that hold their entries (rule BAK-4).

    Repair may have moved copies since the metadata was copied. Of several such bookies, one in the
    region with the fewest other members is preferred.
    """
    by_bookie = {holder.bookie: holder.held for holder in holders}
    fragments = []
    for fragment, last in _fragments(closed, closed.last_entry_id):
        bookies = list(fragment.bookies)
        for index, bookie in enumerate(fragment.bookies):
            stored = _Stored(closed.quorum_at(fragment.first_entry_id), index, fragment, last)
            if stored.is_nothing() or (bookie not in lost and stored.any_on(by_bookie.get(bookie))):
                continue
            others = [regions.get(other) for other in bookies if other != bookie]
            spare = [
                holder.bookie
                for holder in holders
                if holder.bookie not in bookies and stored.all_on(holder.held)
            ]
            if spare:
                bookies[index] = min(spare, key=lambda one: others.count(regions.get(one)))
        fragments.append(Fragment(fragment.first_entry_id, tuple(bookies)))
    return replace(closed, fragments=tuple(fragments))


def _fragments(metadata: LedgerMetadata, end: int) -> Iterator[tuple[Fragment, int]]:
    """Yield each fragment with its last entry id; ``end`` is the last one of the ledger."""
    lasts = [after.first_entry_id - 1 for after in metadata.fragments[1:]]
    yield from zip(metadata.fragments, (*lasts, end), strict=True)


class _Stored(NamedTuple):
    """The entries that one member of a fragment should store."""

    quorum: Quorum
    member: int
    fragment: Fragment
    last: int

    def _runs(self) -> Iterator[tuple[int, int]]:
        return self.quorum.entries_of(self.member, self.fragment.first_entry_id, self.last)

    def is_nothing(self) -> bool:
        return next(self._runs(), None) is None

    def all_on(self, held: HeldLedger) -> bool:
        return all(held.holds_all(*run) for run in self._runs())

    def any_on(self, held: HeldLedger | None) -> bool:
        return held is not None and any(held.holds_any(*run) for run in self._runs())

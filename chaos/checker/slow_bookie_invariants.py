"""Invariants of writers that leave slow bookies: not too often, and for nothing weaker."""

from collections.abc import Iterator
from itertools import pairwise

from ...core.ledger.slow_departure import SlowDeparture
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.ledger_metadata import LedgerMetadata
from ...core.protocol.quorum import QuorumView
from .run_record import RunRecord, invariant


@invariant("L23")
def writers_leave_slow_bookies_rarely(record: RunRecord) -> Iterator[str]:
    """Two departures of one writer from slow bookies are ``slow_hold_ms`` apart, the next ones
    twice as long, and so on, up to 16 times."""
    by_ledger: dict[int, list[SlowDeparture]] = {}
    for departure in record.slow_departures:
        by_ledger.setdefault(departure.ledger_id, []).append(departure)
    for ledger_id, departures in by_ledger.items():
        for number, (before, after) in enumerate(pairwise(departures)):
            hold_ms = record.slow_hold_ms * 2 ** min(number, 4)
            gap_ms = (after.at - before.at) * 1000
            if gap_ms < hold_ms - 1:  # rounding of loop times
                yield (
                    f"the writer of ledger {ledger_id} left {before.bookie} and, after "
                    f"{gap_ms:.0f} ms of {hold_ms}, {after.bookie}"
                )


@invariant("L24")
def slow_bookies_are_left_for_nothing_weaker(record: RunRecord) -> Iterator[str]:
    """An ensemble without a slow bookie is legal, in as many regions as before, and robust or not
    fragile if it was so before. Only one member is replaced."""
    for departure in record.slow_departures:
        metadata = next(
            version.metadata
            for version in record.ledgers[departure.ledger_id]
            if version.metadata is not None
            and any(part.bookies == departure.after for part in version.metadata.fragments)
        )
        first = max(
            part.first_entry_id for part in metadata.fragments if part.bookies == departure.after
        )
        before = _strength(record, metadata, first, departure.before)
        after = _strength(record, metadata, first, departure.after)
        if not after[0] or any(new < old for old, new in zip(before, after, strict=True)):
            yield f"{departure}: (legal, robust, not fragile, regions) {before} became {after}"
        changed = sum(a != b for a, b in zip(departure.before, departure.after, strict=True))
        if changed != 1:
            yield f"{departure} replaced {changed} members"


def _strength(
    record: RunRecord, metadata: LedgerMetadata, first: int, bookies: tuple[BookieId, ...]
) -> tuple[bool, bool, bool, int]:
    regions = [record.regions.get(bookie) for bookie in bookies]
    view = QuorumView(metadata.quorum_at(first), regions)
    return view.is_legal(), view.is_robust(), not view.is_fragile(), len(set(regions))

"""The end of a ledger has every entry that may be acknowledged, and none that cannot be."""

from rhumbline.core.protocol.bookie_id import BookieId, Region, check_region
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire.ledger_metadata import encode
from rhumbline.rebuild.inventory import HeldLedger, HeldRange
from rhumbline.rebuild.ledger_ends import (
    Holder,
    decided_end,
    find_ledger,
    missing_ranges,
    newest_metadata,
)

A, B, C, D, E = (BookieId(f"{name}@0000000{n}") for n, name in enumerate("abcde"))
REGIONS: dict[BookieId, Region] = {
    bookie: check_region(name)
    for bookie, name in zip((A, B, C, D), ("x", "x", "y", "z"), strict=True)
}
OPEN = LedgerMetadata(1, 3, 3, 2, (Fragment(0, (A, B, C)),), custom={"rhumbline.r": b"0:2"})

STRIPED = LedgerMetadata(1, 4, 3, 2, (Fragment(0, (A, B, C, D)),))


def holder(bookie: BookieId, last: int, lac: int = -1, *, limbo: bool = False) -> Holder:
    ranges = (HeldRange(0, last),) if last >= 0 else ()
    return Holder(bookie, HeldLedger(1, ranges, lac, is_in_limbo=limbo))


def test_an_entry_that_satisfies_the_predicate_is_kept_and_one_that_does_not_is_not() -> None:
    held = [holder(A, 9), holder(B, 8), holder(C, 7)]
    assert decided_end(OPEN, held, REGIONS, ()) == (7, False), "A and B are in one region"
    held = [holder(A, 9), holder(B, 5), holder(C, 8)]
    assert decided_end(OPEN, held, REGIONS, ()) == (8, False)


def test_lost_bookies_and_those_in_limbo_may_have_acknowledged() -> None:
    held = [holder(A, 9), holder(B, 5)]
    assert decided_end(OPEN, held, REGIONS, (C,)) == (9, False)
    held = [holder(A, 9), holder(B, 5), holder(C, 5, limbo=True)]
    assert decided_end(OPEN, held, REGIONS, ()) == (9, False)


def test_a_lost_bookie_may_be_of_an_ensemble_that_only_it_knew() -> None:
    held = [holder(A, 9), holder(B, 5), holder(C, 5)]
    assert decided_end(OPEN, held, REGIONS, (D,)) == (9, False)


def test_entries_that_only_lost_bookies_held_hide_none_and_are_reported() -> None:
    behind = Holder(A, HeldLedger(1, (HeldRange(0, 3), HeldRange(6, 7)), -1))
    found = find_ledger(OPEN, [behind], REGIONS, (B, C))
    assert (found.metadata.last_entry_id, found.may_have_ended_later) == (7, True)
    assert found.missing == (HeldRange(4, 5),)
    empty = find_ledger(OPEN, [], REGIONS, (A, B, C))
    assert (empty.metadata.last_entry_id, empty.may_have_ended_later) == (-1, True)


def test_everything_up_to_the_lac_was_acknowledged() -> None:
    held = [holder(A, 3, lac=6), holder(B, -1)]
    assert decided_end(OPEN, held, REGIONS, ()) == (6, False)
    assert missing_ranges(held, 6) == (HeldRange(4, 6),)


def test_a_closed_copy_decides_and_the_newest_copy_counts() -> None:
    changed = OPEN.with_fragment(4, (A, B, D))
    copies = [
        Holder(A, HeldLedger(1, (HeldRange(0, 9),), metadata=encode(OPEN))),
        Holder(D, HeldLedger(1, (HeldRange(4, 9),), metadata=encode(changed))),
        Holder(B, HeldLedger(1, metadata=b"damaged")),
    ]
    assert newest_metadata(1, copies, None) == changed
    closed = changed.closed(6, 60)
    assert newest_metadata(1, copies, closed) == closed
    found = find_ledger(closed, copies, REGIONS, ())
    assert (found.metadata.last_entry_id, found.was_decided) == (6, False)
    assert newest_metadata(1, [], None) is None


def striped(bookie: BookieId, index: int, last: int, metadata: LedgerMetadata) -> Holder:
    """A member of ``STRIPED`` at an index, with all its entries and a copy of the metadata."""
    runs = Quorum(4, 3, 2).entries_of(index, 0, last)
    ranges = tuple(HeldRange(*run) for run in runs)
    return Holder(bookie, HeldLedger(1, ranges, metadata=encode(metadata)))


def test_of_two_ensembles_from_the_same_entry_the_one_that_holds_entries_counts() -> None:
    changed = STRIPED.with_fragment(0, (E, B, C, D))
    copies = [
        striped(B, 1, 9, STRIPED),
        striped(C, 2, 9, STRIPED),
        striped(D, 3, 9, STRIPED),
        striped(E, 0, 9, changed),
    ]
    assert newest_metadata(1, [Holder(A, HeldLedger(1)), *copies], None) == changed
    assert newest_metadata(1, copies[::-1], STRIPED) == changed


def test_of_two_copies_with_the_same_fragments_the_one_whose_r_changed_last_counts() -> None:
    opened = OPEN.with_fragment(4, (A, B, D))
    lowered = opened.with_r(4, 1)
    held = (HeldRange(0, 9),)
    copies = [
        Holder(bookie, HeldLedger(1, held, 3, metadata=encode(metadata)))
        for bookie, metadata in ((A, opened), (B, lowered), (D, opened))
    ]
    for order in (copies, copies[::-1]):
        assert newest_metadata(1, order, None) == lowered
    later = opened.with_fragment(7, (A, B, C))
    assert newest_metadata(1, copies, later) == later
    without_d = [holder(A, 9, 3), holder(B, 9, 3), holder(D, 3, 3)]
    assert decided_end(lowered, without_d, REGIONS, ()) == (9, False)
    assert decided_end(opened, without_d, REGIONS, ()) == (3, False), "A and B are in one region"


def test_a_bookie_that_holds_the_entries_of_a_striped_member_replaces_it() -> None:
    closed = STRIPED.closed(9, 90)
    others = [striped(B, 1, 9, STRIPED), striped(C, 2, 9, STRIPED), striped(D, 3, 9, STRIPED)]
    found = find_ledger(closed, [*others, striped(E, 0, 9, STRIPED)], REGIONS, (A,))
    assert found.metadata.fragments == (Fragment(0, (E, B, C, D)),)
    behind = striped(E, 0, 7, STRIPED)  # without entry 8
    assert find_ledger(closed, [*others, behind], REGIONS, (A,)).metadata == closed
    elsewhere = striped(E, 1, 9, STRIPED)
    assert find_ledger(closed, [*others, elsewhere], REGIONS, (A,)).metadata == closed


def test_a_member_that_stores_none_of_the_entries_stays() -> None:
    closed = STRIPED.closed(0, 9)  # entry 0 is stored by A, B and C
    others = [striped(A, 0, 0, STRIPED), striped(B, 1, 0, STRIPED), striped(C, 2, 0, STRIPED)]
    assert find_ledger(closed, [*others, striped(E, 0, 0, STRIPED)], REGIONS, ()).metadata == closed


def test_of_several_bookies_the_one_in_another_region_replaces_a_member() -> None:
    closed = OPEN.closed(9, 90)
    regions = {**REGIONS, E: REGIONS[A]}
    copies = [holder(A, 9), holder(B, 9), holder(E, 9), holder(D, 9)]
    found = find_ledger(closed, copies, regions, (C,))
    assert found.metadata.fragments == (Fragment(0, (A, B, D)),)


def test_copies_that_repair_has_moved_are_found() -> None:
    closed = OPEN.closed(9, 90)
    found = find_ledger(closed, [holder(A, 9), holder(B, 9), holder(D, 9)], REGIONS, ())
    assert found.metadata.state is LedgerState.CLOSED
    assert found.metadata.fragments == (Fragment(0, (A, B, D)),)

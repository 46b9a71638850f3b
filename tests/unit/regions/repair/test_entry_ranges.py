"""Which entries repair looks at, who should have them, and what a list lacks: against counting."""

from random import Random

import pytest

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire.availability import Availability, Group, decode, encode, runs_of
from rhumbline.regions.durability import entry_counts
from rhumbline.regions.repair.entry_ranges import EntryRange, missing_runs, settled_spans, share_of

ABC = tuple(BookieId(name) for name in "abc")
ABD = tuple(BookieId(name) for name in "abd")


def ledger(*fragments: Fragment) -> LedgerMetadata:
    return LedgerMetadata(7, 3, 3, 2, fragments or (Fragment(0, ABC),))


def ranges(metadata: LedgerMetadata) -> list[tuple[int, int]]:
    return [(span.first, span.last) for span in settled_spans(metadata)]


def test_only_what_nobody_may_still_move_is_settled() -> None:
    two = ledger(Fragment(0, ABC), Fragment(10, ABD))
    assert ranges(ledger()) == []
    assert ranges(two) == [(0, 9)]
    assert ranges(two.in_recovery()) == []
    assert ranges(two.closed(14, 100)) == [(0, 9), (10, 14)]
    assert ranges(two.closed(9, 100)) == [(0, 9)], "a last fragment without entries"
    assert ranges(ledger().closed(-1, 0)) == []


def test_the_largest_r_of_a_fragment_counts_for_its_place() -> None:
    metadata = ledger(Fragment(0, ABC), Fragment(10, ABD)).with_r(0, 2).with_r(5, 1).with_r(10, 1)
    assert [span.quorum.min_regions for span in settled_spans(metadata.closed(20, 0))] == [2, 1]


def test_counts_and_bytes_are_shares_of_the_ledger() -> None:
    closed = ledger(Fragment(0, ABC), Fragment(10, ABD)).closed(39, 4000)
    assert entry_counts(closed) == [10, 30]
    assert share_of(closed, 10) == 1000
    assert share_of(ledger(), 10) == 0
    assert entry_counts(ledger(Fragment(0, ABC), Fragment(10, ABD))) == [10, 0]


def listed(ids: list[int]) -> Availability:
    return decode(encode(runs_of(sorted(ids))))


@pytest.mark.parametrize("quorum", [Quorum(3, 3, 2), Quorum(3, 2, 2), Quorum(5, 2, 2)], ids=str)
@pytest.mark.parametrize("number", range(20))
def test_what_a_list_lacks_is_found_entry_by_entry(quorum: Quorum, number: int) -> None:
    random = Random(number)
    members = tuple(BookieId(f"b{i}") for i in range(quorum.ensemble_size))
    first = random.randrange(50)
    span = EntryRange(Fragment(first, members), first + random.randrange(80), quorum)
    for index in range(quorum.ensemble_size):
        there = [entry for entry in range(200) if random.random() < 0.7]
        found = [
            entry
            for start, end in missing_runs(span, index, listed(there))
            for entry in range(start, end + 1)
        ]
        assert found == [
            entry
            for entry in range(span.first, span.last + 1)
            if index in quorum.write_set(entry) and entry not in there
        ]


def test_periodic_groups_of_other_bookies_lists_are_understood() -> None:
    found = Availability([Group(0, 8, 1, 2), Group(20, 20, 5, 0)])
    assert list(found.runs()) == [(0, 1), (2, 1), (4, 1), (6, 1), (8, 1), (20, 5)]
    assert list(found.missing(3, 26)) == [(3, 3), (5, 5), (7, 7), (9, 19), (25, 26)]
    assert list(found.missing(20, 24)) == []
    assert list(Availability([]).missing(3, 4)) == [(3, 4)]

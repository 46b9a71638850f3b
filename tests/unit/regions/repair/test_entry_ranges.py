"""Settled entries, and the entries that a list lacks, compared with a check of each entry."""

from random import Random

import pytest

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire.availability import Availability, Group, decode, encode, runs_of
from rhumbline.regions.durability.ledger_layout import entry_counts
from rhumbline.regions.repair.entry_ranges import (
    EntryRange,
    estimate_bytes,
    missing_runs,
    settled_ranges,
)

ABC = tuple(BookieId(name) for name in "abc")
ABD = tuple(BookieId(name) for name in "abd")


def ledger(*fragments: Fragment) -> LedgerMetadata:
    return LedgerMetadata(7, 3, 3, 2, fragments or (Fragment(0, ABC),))


def ranges(metadata: LedgerMetadata) -> list[tuple[int, int]]:
    return [(entry_range.first, entry_range.last) for entry_range in settled_ranges(metadata)]


def test_only_entries_that_cannot_move_any_more_are_settled() -> None:
    two = ledger(Fragment(0, ABC), Fragment(10, ABD))
    assert ranges(ledger()) == []
    assert ranges(two) == [(0, 9)]
    assert ranges(two.in_recovery()) == []
    assert ranges(two.closed(14, 100)) == [(0, 9), (10, 14)]
    assert ranges(two.closed(9, 100)) == [(0, 9)], "a last fragment without entries"
    assert ranges(ledger().closed(-1, 0)) == []


def test_largest_r_of_a_fragment_applies_to_all_of_it() -> None:
    metadata = ledger(Fragment(0, ABC), Fragment(10, ABD)).with_r(0, 2).with_r(5, 1).with_r(10, 1)
    assert [
        entry_range.quorum.min_regions for entry_range in settled_ranges(metadata.closed(20, 0))
    ] == [2, 1]


def test_counts_and_bytes_are_shares_of_the_ledger() -> None:
    closed = ledger(Fragment(0, ABC), Fragment(10, ABD)).closed(39, 4000)
    assert entry_counts(closed) == [10, 30]
    assert estimate_bytes(closed, 10) == 1000
    assert estimate_bytes(ledger(), 10) == 0
    assert entry_counts(ledger(Fragment(0, ABC), Fragment(10, ABD))) == [10, 0]


def listed(ids: list[int]) -> Availability:
    return decode(encode(runs_of(sorted(ids))))


@pytest.mark.parametrize("quorum", [Quorum(3, 3, 2), Quorum(3, 2, 2), Quorum(5, 2, 2)], ids=str)
@pytest.mark.parametrize("number", range(20))
def test_missing_runs_agree_with_a_check_of_each_entry(quorum: Quorum, number: int) -> None:
    random = Random(number)
    members = tuple(BookieId(f"b{i}") for i in range(quorum.ensemble_size))
    first = random.randrange(50)
    last = first + random.randrange(80)
    entry_range = EntryRange(Fragment(first, members), last, quorum, quorum, quorum.min_regions)
    for index in range(quorum.ensemble_size):
        stored = [entry for entry in range(200) if random.random() < 0.7]
        found = [
            entry
            for start, end in missing_runs(entry_range, index, listed(stored))
            for entry in range(start, end + 1)
        ]
        assert found == [
            entry
            for entry in range(entry_range.first, entry_range.last + 1)
            if index in quorum.write_set(entry) and entry not in stored
        ]


def test_periodic_groups_in_lists_are_decoded() -> None:
    found = Availability([Group(0, 8, 1, 2), Group(20, 20, 5, 0)])
    assert list(found.runs()) == [(0, 1), (2, 1), (4, 1), (6, 1), (8, 1), (20, 5)]
    assert list(found.missing(3, 26)) == [(3, 3), (5, 5), (7, 7), (9, 19), (25, 26)]
    assert list(found.missing(20, 24)) == []
    assert list(Availability([]).missing(3, 4)) == [(3, 4)]

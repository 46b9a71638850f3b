"""Missing entries as ranges: merging neighbours, the bound, and the report."""

from rhumbline.core.ledger.missing_range import MissingRange
from rhumbline.core.ledger.write.under_replication import UnderReplication
from rhumbline.core.protocol.bookie_id import BookieId

B0, B1 = BookieId("b0@00000000"), BookieId("b1@00000000")


def ranges_of(*entry_ids: int, stride: int = 1) -> tuple[tuple[int, int], ...]:
    missing = UnderReplication(7)
    for entry_id in entry_ids:
        missing.add(0, B0, entry_id, stride=stride)
    (found,) = missing.take()
    return found.ranges


def test_ids_that_follow_each_other_form_one_range() -> None:
    assert ranges_of(3) == ((3, 3),)
    assert ranges_of(3, 4, 5) == ((3, 5),)
    assert ranges_of(5, 4, 3) == ((3, 5),)
    assert ranges_of(3, 3, 3) == ((3, 3),)
    assert ranges_of(3, 4, 5, 4) == ((3, 5),)


def test_ids_further_apart_than_the_stride_are_separate_ranges_in_order() -> None:
    assert ranges_of(3, 5) == ((3, 3), (5, 5))
    assert ranges_of(5, 3) == ((3, 3), (5, 5))
    assert ranges_of(3, 6, stride=3) == ((3, 6),)
    assert ranges_of(3, 7, stride=3) == ((3, 3), (7, 7))
    assert ranges_of(7, 3, stride=3) == ((3, 3), (7, 7))
    assert ranges_of(6, 3, stride=3) == ((3, 6),)
    assert ranges_of(20, 3, 10, 4, 11, 21) == ((3, 4), (10, 11), (20, 21))


def test_id_between_ranges_joins_the_later_one_of_two() -> None:
    assert ranges_of(3, 7, 5, stride=2) == ((3, 3), (5, 7))


def test_only_the_narrowest_gap_is_closed_above_the_bound() -> None:
    ids = [10 * i for i in range(256)]
    assert len(ranges_of(*ids)) == 256
    found = ranges_of(*ids, 1005)
    assert len(found) == 256
    assert (1000, 1005) in found
    assert found[0] == (0, 0)
    assert found[-1] == (2550, 2550)
    ties = ranges_of(*(10 * i for i in range(257)))
    assert ties[:2] == ((0, 10), (20, 20))
    assert len(ties) == 256


def test_each_fragment_and_bookie_has_its_own_ranges() -> None:
    missing = UnderReplication(7)
    assert len(missing) == 0
    missing.add(0, B0, 3, stride=1)
    missing.add(0, B1, 4, stride=1)
    missing.add(5, B0, 5, stride=1)
    assert len(missing) == 3
    assert missing.take() == [
        MissingRange(7, 0, B0, ((3, 3),)),
        MissingRange(7, 0, B1, ((4, 4),)),
        MissingRange(7, 5, B0, ((5, 5),)),
    ]
    assert len(missing) == 0
    assert missing.take() == []

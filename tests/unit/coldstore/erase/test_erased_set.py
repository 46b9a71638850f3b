"""Erased positions are counted right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.coldstore.erase.erased_set import (
    ErasedRecords,
    ErasedSet,
    find_set,
    half_open_ranges,
)
from rhumbline.core.protocol.errors import CorruptionError

positions = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 9)))


def sets_of(erased: set[tuple[int, int]]) -> list[ErasedSet]:
    """Each entry has two sets of five records."""
    found = []
    for entry in range(5):
        for slot in (0, 5):
            slots = [s for e, s in erased if e == entry and slot <= s < slot + 5]
            if slots:
                found.append(ErasedSet(entry, slot, 5, 7, half_open_ranges(slots)))
    return found


@given(positions)
def test_positions_are_counted(erased: set[tuple[int, int]]) -> None:
    sets = sets_of(erased)
    records = ErasedRecords(sets)
    assert records.count == len(erased) == sum(one.erased_count for one in sets)
    assert records.entry_ids() == sorted(entry for entry, _ in erased)
    assert [ErasedSet.decode(one.encoded()) for one in sets] == sets
    for entry in range(6):
        slots = {slot for begin, end in records.ranges_in(entry) for slot in range(begin, end)}
        assert slots == {slot for other, slot in erased if other == entry}
        for slot in range(11):
            assert records.before(entry, slot) == sum(one < (entry, slot) for one in erased)
            found = find_set(sets, entry, slot)
            assert found == next((one for one in sets if one.holds(entry, slot)), None)
            if found is not None:
                assert found.keeps(slot, slot + 1) == ((entry, slot) not in erased)


@pytest.mark.parametrize("ranges", [[], [[3, 3]], [[4, 6], [5, 7]], [[1, 3]], [[8, 11]]])
def test_ranges_outside_of_the_set_are_damage(ranges: list[list[int]]) -> None:
    with pytest.raises(CorruptionError):
        ErasedSet.decode([1, 2, 8, 7, ranges])

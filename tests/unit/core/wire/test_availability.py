"""Lists of entries: round trips, and rejection of impossible groups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.errors import ProtocolError
from rhumbline.core.wire import availability


def ids(values: list[int]) -> availability.Availability:
    return availability.decode(availability.encode(availability.runs_of(values)))


@given(st.sets(st.integers(0, 60)))
def test_a_list_of_entries_round_trips(entries: set[int]) -> None:
    found = ids(sorted(entries))
    assert {entry for entry in range(-2, 70) if entry in found} == entries
    assert len(found) == len(entries)


def test_groups_with_a_period_are_decoded() -> None:
    group = bytes.fromhex("000000000000000400000000000000100000000200000006")
    header = bytes.fromhex("0000000000000001") + bytes(56)
    found = availability.decode(header + group)
    assert [entry for entry in range(30) if entry in found] == [4, 5, 10, 11, 16, 17]
    assert len(found) == 6


@pytest.mark.parametrize(
    "group",
    [
        (5, 4, 1, 1),  # ends before it starts
        (5, 5, 0, 0),  # holds nothing
        (5, 9, 1, 0),  # several runs without a period
        (5, 9, 1, 3),  # the last run is not one of them
        (5, 9, 3, 2),  # runs overlap
        (-5, -5, 1, 0),
        (5, 5, 1, -1),
    ],
)
def test_impossible_groups_are_rejected(group: tuple[int, int, int, int]) -> None:
    first, last, size, period = group
    data = b"".join(
        number.to_bytes(width, "big", signed=True)
        for number, width in ((first, 8), (last, 8), (size, 4), (period, 4))
    )
    with pytest.raises(ProtocolError):
        availability.decode(bytes.fromhex("0000000000000001") + bytes(56) + data)


def test_overlapping_groups_are_rejected() -> None:
    with pytest.raises(ProtocolError):
        availability.decode(availability.encode([(0, 3), (2, 2)]))

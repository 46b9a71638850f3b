"""DLSNs: round trips, order, and rejection of malformed values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.dlsn import FIRST_DLSN, Dlsn
from rhumbline.core.protocol.errors import InvalidArgumentError

parts = st.integers(0, 2**63 - 1)
dlsns = st.builds(Dlsn, parts, parts, parts)


@given(dlsns, dlsns)
def test_both_forms_round_trip_and_bytes_sort_like_positions(a: Dlsn, b: Dlsn) -> None:
    assert Dlsn.parse(str(a)) == a
    assert Dlsn.from_bytes(a.to_bytes()) == a
    assert (a < b) == (a.to_bytes() < b.to_bytes())
    assert (hash(a) == hash(b)) or a != b


@pytest.mark.parametrize("text", ["", "1", "1:2", "1:2:3:4", "-1:0:0", "a:b:c", f"1:{2**63}:0"])
def test_malformed_dlsns_are_rejected(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        Dlsn.parse(text)


@pytest.mark.parametrize("data", [b"", b"x" * 23, b"\xff" * 24])
def test_malformed_dlsn_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        Dlsn.from_bytes(data)


def test_the_first_position_is_the_first_slot_of_the_first_entry_of_segment_1() -> None:
    assert FIRST_DLSN == (1, 0, 0)


def test_the_bytes_are_three_big_endian_numbers() -> None:
    assert Dlsn(1, 2, 3).to_bytes() == b"".join(n.to_bytes(8, "big") for n in (1, 2, 3))
    assert Dlsn.from_bytes(bytes(24)) == Dlsn(0, 0, 0)
    with pytest.raises(InvalidArgumentError):
        Dlsn.from_bytes(bytes(25))


def test_text_may_be_surrounded_by_spaces_and_reach_the_largest_number() -> None:
    assert Dlsn.parse(f" {2**63 - 1}:0:{2**63 - 1}\n") == Dlsn(2**63 - 1, 0, 2**63 - 1)

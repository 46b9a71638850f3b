"""DLSNs: round trips, order, and rejection of malformed values."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.dlsn import FIRST_DLSN, STREAM_ID_CHARACTERS, Dlsn, dlsn_in
from rhumbline.core.protocol.errors import InvalidArgumentError, InvalidPositionError

parts = st.integers(0, 2**63 - 1)
stream_ids = st.text("0123456789abcdef", max_size=STREAM_ID_CHARACTERS)
dlsns = st.builds(dlsn_in, stream_ids, parts, parts, parts)


@given(dlsns, dlsns)
def test_both_forms_round_trip_and_bytes_sort_like_positions(a: Dlsn, b: Dlsn) -> None:
    for found in (Dlsn.parse(str(a)), Dlsn.from_bytes(a.to_bytes()), pickle.loads(pickle.dumps(a))):
        assert (found, found.stream_id) == (a, a.stream_id)
    if a != b:
        assert (a < b) == (a.to_bytes() < b.to_bytes())
    assert (hash(a) == hash(b)) or a != b


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1:2",
        "1:2:3:4",
        "-1:0:0",
        "a:b:c",
        f"1:{2**63}:0",
        "1:0:0@",
        "1:0:0@a b",
        f"1:0:0@{'a' * 13}",
    ],
)
def test_malformed_dlsns_are_rejected(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        Dlsn.parse(text)


@pytest.mark.parametrize(
    "data", [b"", b"x" * 23, b"\xff" * 24, bytes(24) + b"\xff", bytes(24) + b"a" * 13]
)
def test_malformed_dlsn_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        Dlsn.from_bytes(data)


def test_the_first_position_is_the_first_slot_of_the_first_entry_of_segment_1() -> None:
    assert FIRST_DLSN == (1, 0, 0)


def test_the_bytes_are_three_big_endian_numbers() -> None:
    assert Dlsn(1, 2, 3).to_bytes() == b"".join(n.to_bytes(8, "big") for n in (1, 2, 3))
    assert Dlsn.from_bytes(bytes(24)) == Dlsn(0, 0, 0)
    assert dlsn_in("9f86d081884c", 1, 2, 3).to_bytes() == Dlsn(1, 2, 3).to_bytes() + b"9f86d081884c"


def test_text_may_be_surrounded_by_spaces_and_reach_the_largest_number() -> None:
    assert Dlsn.parse(f" {2**63 - 1}:0:{2**63 - 1}\n") == Dlsn(2**63 - 1, 0, 2**63 - 1)


def test_position_of_another_stream_is_refused_and_one_without_a_stream_is_not() -> None:
    position = Dlsn.parse("3:1041:7@9f86d081884c")
    position.check_stream("orders", "9f86d081884c")
    position.in_stream("").check_stream("orders", "000000000000")
    position.check_stream("orders", "")
    with pytest.raises(InvalidPositionError, match="3:1041:7@9f86d081884c is of another stream"):
        position.check_stream("orders", "000000000000")
    assert str(position.in_stream("")) == "3:1041:7"
    assert position == Dlsn(3, 1041, 7)

"""DLSNs and bookie ids: round trips, order, and refusal of everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.bookie_id import (
    bookie_name,
    check_bookie_id,
    check_region,
    is_incarnate,
    mint_bookie_id,
)
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import InvalidArgumentError, error_classes

parts = st.integers(0, 2**63 - 1)
dlsns = st.builds(Dlsn, parts, parts, parts)


@given(dlsns, dlsns)
def test_both_forms_round_trip_and_bytes_sort_like_positions(a: Dlsn, b: Dlsn) -> None:
    assert Dlsn.parse(str(a)) == a
    assert Dlsn.from_bytes(a.to_bytes()) == a
    assert (a < b) == (a.to_bytes() < b.to_bytes())
    assert (hash(a) == hash(b)) or a != b


@pytest.mark.parametrize("text", ["", "1", "1:2", "1:2:3:4", "-1:0:0", "a:b:c", f"1:{2**63}:0"])
def test_what_is_no_dlsn_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        Dlsn.parse(text)


@pytest.mark.parametrize("data", [b"", b"x" * 23, b"\xff" * 24])
def test_what_is_no_dlsn_in_bytes_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        Dlsn.from_bytes(data)


def test_a_minted_id_names_its_incarnation() -> None:
    bookie = mint_bookie_id("eu-1", 0x1A2B3C4D)
    assert bookie == "eu-1@1a2b3c4d"
    assert bookie_name(bookie) == "eu-1"
    assert is_incarnate(bookie)
    assert not is_incarnate(check_bookie_id("127.0.0.1:3181"))


@pytest.mark.parametrize("name", ["", "readonly", "a b", "a@b", "ä", "x" * 201])
def test_odd_bookie_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        mint_bookie_id(name, 1)


@pytest.mark.parametrize("text", ["a@1", "a@1A2B3C4D", "a@1a2b3c4d5", "a#1a2b3c4d", "/x"])
def test_odd_bookie_ids_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        check_bookie_id(text)


@pytest.mark.parametrize("text", ["", "EU", "-a", "a/b", "x" * 64])
def test_odd_regions_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        check_region(text)


def test_error_codes_are_unique() -> None:
    assert error_classes()["stream-lost"].refresh

"""DLSNs: round trips, order, and rejection of malformed values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.dlsn import Dlsn
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

"""Registrations: Apache BookKeeper's bytes, round trips, and rejection of malformed values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.wire import registration as registrations
from rhumbline.core.wire.formats_pb2 import BookieServiceInfoFormat
from rhumbline.core.wire.registration import BookieAddress, Registration, parse_address

HERE = BookieId("bk-1@0011aaff")
ADDRESS = BookieId("127.0.0.1:24191")
REGISTERED = "32230a06626f6f6b696510ffbc011a093132372e302e302e31220a626f6f6b69652d727063"


@pytest.mark.parametrize("bookie", [ADDRESS, BookieId("bk-four")])
def test_a_registration_has_the_bytes_of_bookkeeper(bookie: BookieId) -> None:
    registration = Registration(bookie, "127.0.0.1", 24191)
    assert registrations.encode(registration).hex() == REGISTERED
    assert registrations.decode(bookie, bytes.fromhex(REGISTERED)) == registration


def test_an_empty_registration_means_that_the_id_is_the_address() -> None:
    assert registrations.decode(ADDRESS, b"").address == BookieAddress("127.0.0.1", 24191)
    with pytest.raises(CorruptionError):
        registrations.decode(HERE, b"")


def test_the_first_endpoint_of_the_bookie_protocol_counts() -> None:
    info = BookieServiceInfoFormat()
    info.endpoints.add(id=b"httpserver", port=8080, host=b"h0", protocol=b"http")
    info.endpoints.add(id=b"x", port=1, host=b"h1", protocol=b"bookie-rpc", extensions=[b"tls"])
    info.endpoints.add(id=b"bookie", port=2, host=b"h2", protocol=b"bookie-rpc")
    found = registrations.decode(HERE, info.SerializeToString())
    assert found.address == BookieAddress("h1", 1)


@given(
    host=st.from_regex(r"[a-z0-9.\-]{1,60}", fullmatch=True),
    port=st.integers(1, 65535),
    properties=st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=20),
        st.text(st.characters(codec="utf-8"), max_size=20),
        max_size=4,
    ),
)
def test_registrations_round_trip(host: str, port: int, properties: dict[str, str]) -> None:
    registration = Registration(HERE, host, port, properties)
    assert registrations.decode(HERE, registrations.encode(registration)) == registration


@pytest.mark.parametrize(
    ("text", "free"), [("12", 12), ("", 0), ("-1", 0), ("x", 0), ("9" * 20, 0)]
)
def test_free_space_is_a_number_or_unknown(text: str, free: int) -> None:
    assert Registration(HERE, "h", 1, {"free_bytes": text}).free_bytes == free


@pytest.mark.parametrize(
    ("host", "port"), [(b"", 1), (b"h", 0), (b"h", 65536), (b"\xff", 1), (b"a\nb", 1), (b"h", -1)]
)
def test_an_impossible_address_is_corrupt(host: bytes, port: int) -> None:
    info = BookieServiceInfoFormat()
    info.endpoints.add(id=b"bookie", port=port, host=host, protocol=b"bookie-rpc")
    with pytest.raises(CorruptionError):
        registrations.decode(HERE, info.SerializeToString())


def test_a_registration_without_a_bookie_endpoint_is_corrupt() -> None:
    info = BookieServiceInfoFormat()
    info.endpoints.add(id=b"httpserver", port=8080, host=b"h", protocol=b"http")
    with pytest.raises(CorruptionError):
        registrations.decode(HERE, info.SerializeToString())


def test_addresses_round_trip() -> None:
    for text in ("h:1", "10.0.0.1:65535", "[::1]:3181"):
        address = parse_address(text)
        assert address is not None
        assert str(address) == text
    for text in ("h", "h:", ":1", "h:0", "h:65536", "h:x", "::1", "h:1:2", "h:\u0661", "[]:1"):
        assert parse_address(text) is None

"""The AUTH handshake: the wanted bookie accepts, every other response is rejected."""

import pytest

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import BookieUnavailableError, ProtocolError
from rhumbline.core.wire import handshake

HERE = BookieId("bk-1@0011aaff")
THERE = BookieId("bk-1@0011ab00")


def test_the_wanted_bookie_accepts() -> None:
    assert handshake.decode_hello(handshake.encode_hello(HERE)) == HERE
    handshake.check_response(handshake.PLUGIN, handshake.encode_response(HERE, HERE), HERE)


def test_another_incarnation_is_unavailable_and_named_in_the_error() -> None:
    answer = handshake.encode_response(HERE, THERE)
    with pytest.raises(BookieUnavailableError, match=THERE):
        handshake.check_response(handshake.PLUGIN, answer, HERE)


def test_a_bookie_that_cannot_prove_its_id_is_unavailable() -> None:
    with pytest.raises(BookieUnavailableError, match="AuthDisabledPlugin"):
        handshake.check_response(handshake.APACHE_NO_AUTH_PLUGIN, b"", HERE)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x01\x00",
        b"\x02\x00bk-1",
        b"\x01\x01bk-1",  # an answer
        b"\x01\x00b k",
        b"\x01\x00\xff",
        b"\x01\x00" + b"x" * 300,
    ],
)
def test_malformed_hellos_are_rejected(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        handshake.decode_hello(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        handshake.encode_hello(HERE),
        handshake.encode_response(THERE, THERE),  # accepted, by another bookie
        bytes((1, 2)) + HERE.encode(),  # refused, by the wanted one
        bytes((1, 7)) + HERE.encode(),
    ],
)
def test_malformed_responses_are_rejected(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        handshake.check_response(handshake.PLUGIN, payload, HERE)

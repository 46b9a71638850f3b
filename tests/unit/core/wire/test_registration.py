"""Registrations, cookies and greetings: Apache's bytes, round trips, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import BookieUnavailableError, CorruptionError, ProtocolError
from rhumbline.core.wire import cookie as cookies
from rhumbline.core.wire import handshake
from rhumbline.core.wire import registration as registrations
from rhumbline.core.wire.cookie import Cookie
from rhumbline.core.wire.formats_pb2 import BookieServiceInfoFormat
from rhumbline.core.wire.registration import BookieAddress, Registration, parse_address

HERE = BookieId("bk-1@0011aaff")
THERE = BookieId("bk-1@0011ab00")
ADDRESS = BookieId("127.0.0.1:24191")
REGISTERED = "32230a06626f6f6b696510ffbc011a093132372e302e302e31220a626f6f6b69652d727063"
INSTANCE = "1e82fdf8-974a-4b95-80ea-aba530a10713"
COOKIE = Cookie(ADDRESS, "/d/journal", ("/d/ledgers",), INSTANCE, ("/d/ledgers",))
COOKIE_TEXT = (
    b'5\nbookieHost: "127.0.0.1:24191"\njournalDir: "/d/journal"\n'
    b'ledgerDirs: "1\\t/d/ledgers"\n'
    b'instanceId: "1e82fdf8-974a-4b95-80ea-aba530a10713"\nindexDirs: "1\\t/d/ledgers"\n'
)


# --- registrations ------------------------------------------------------------------------------


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
def test_an_address_that_cannot_be_is_corrupt(host: bytes, port: int) -> None:
    info = BookieServiceInfoFormat()
    info.endpoints.add(id=b"bookie", port=port, host=host, protocol=b"bookie-rpc")
    with pytest.raises(CorruptionError):
        registrations.decode(HERE, info.SerializeToString())


def test_a_registration_without_a_bookie_endpoint_is_corrupt() -> None:
    info = BookieServiceInfoFormat()
    info.endpoints.add(id=b"httpserver", port=8080, host=b"h", protocol=b"http")
    with pytest.raises(CorruptionError):
        registrations.decode(HERE, info.SerializeToString())


def test_addresses_are_read_as_they_are_written() -> None:
    for text in ("h:1", "10.0.0.1:65535", "[::1]:3181"):
        address = parse_address(text)
        assert address is not None
        assert str(address) == text
    for text in ("h", "h:", ":1", "h:0", "h:65536", "h:x", "::1", "h:1:2", "h:\u0661", "[]:1"):
        assert parse_address(text) is None


# --- cookies ------------------------------------------------------------------------------------


def test_a_cookie_has_the_text_of_bookkeeper() -> None:
    assert cookies.encode(COOKIE) == COOKIE_TEXT
    assert cookies.decode(COOKIE_TEXT) == COOKIE


texts = st.text(st.characters(codec="utf-8", exclude_characters="\t"), max_size=20)


@given(
    journal=st.text(st.characters(codec="utf-8"), max_size=20),
    ledgers=st.lists(texts, max_size=3),
    instance=st.none() | texts,
    index=st.none() | st.lists(texts, max_size=3).map(tuple),
)
def test_cookies_round_trip(
    journal: str, ledgers: list[str], instance: str | None, index: tuple[str, ...] | None
) -> None:
    cookie = Cookie(HERE, journal, tuple(ledgers), instance, index)
    assert cookies.decode(cookies.encode(cookie)) == cookie


def test_every_truncation_of_a_cookie_is_corrupt_or_lacks_optional_lines() -> None:
    for size in range(len(COOKIE_TEXT)):
        try:
            found = cookies.decode(COOKIE_TEXT[:size])
        except CorruptionError:
            continue
        assert (found.bookie_id, found.ledger_dirs) == (ADDRESS, COOKIE.ledger_dirs)
        assert found.instance_id in (None, INSTANCE)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        COOKIE_TEXT.replace(b"5\n", b"4\n"),
        COOKIE_TEXT.replace(b"1\\t/d/ledgers", b"2\\t/d/ledgers"),
        COOKIE_TEXT.replace(b"127.0.0.1:24191", b"no bookie"),
        COOKIE_TEXT.replace(b"journalDir", b"journalDirectory"),
        COOKIE_TEXT.replace(b"/d/journal", b"\\377"),
        COOKIE_TEXT + b"\xff",
        COOKIE_TEXT + b" " * 70_000,
    ],
)
def test_what_is_no_cookie_is_corrupt(text: bytes) -> None:
    with pytest.raises(CorruptionError):
        cookies.decode(text)


# --- greetings ----------------------------------------------------------------------------------


def test_the_wanted_bookie_accepts() -> None:
    assert handshake.decode_hello(handshake.encode_hello(HERE)) == HERE
    handshake.check_answer(handshake.PLUGIN, handshake.encode_answer(HERE, HERE), HERE)


def test_another_incarnation_is_unavailable_and_named() -> None:
    answer = handshake.encode_answer(HERE, THERE)
    with pytest.raises(BookieUnavailableError, match=THERE):
        handshake.check_answer(handshake.PLUGIN, answer, HERE)


def test_a_bookie_that_cannot_prove_its_id_is_unavailable() -> None:
    with pytest.raises(BookieUnavailableError, match="AuthDisabledPlugin"):
        handshake.check_answer(handshake.APACHE_NO_AUTH_PLUGIN, b"", HERE)


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
def test_what_is_no_hello_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        handshake.decode_hello(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        handshake.encode_hello(HERE),
        handshake.encode_answer(THERE, THERE),  # accepted, by another bookie
        bytes((1, 2)) + HERE.encode(),  # refused, by the wanted one
        bytes((1, 7)) + HERE.encode(),
    ],
)
def test_what_is_no_answer_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        handshake.check_answer(handshake.PLUGIN, payload, HERE)

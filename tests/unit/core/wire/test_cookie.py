"""Cookies: Apache BookKeeper's text, round trips, and rejection of malformed values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.wire import cookie as cookies
from rhumbline.core.wire.cookie import Cookie

HERE = BookieId("bk-1@0011aaff")
ADDRESS = BookieId("127.0.0.1:24191")
INSTANCE = "1e82fdf8-974a-4b95-80ea-aba530a10713"
COOKIE = Cookie(ADDRESS, "/d/journal", ("/d/ledgers",), INSTANCE, ("/d/ledgers",))
COOKIE_TEXT = (
    b'5\nbookieHost: "127.0.0.1:24191"\njournalDir: "/d/journal"\n'
    b'ledgerDirs: "1\\t/d/ledgers"\n'
    b'instanceId: "1e82fdf8-974a-4b95-80ea-aba530a10713"\nindexDirs: "1\\t/d/ledgers"\n'
)


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
def test_malformed_cookies_are_corrupt(text: bytes) -> None:
    with pytest.raises(CorruptionError):
        cookies.decode(text)

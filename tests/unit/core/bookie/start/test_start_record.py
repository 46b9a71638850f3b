"""The record of starts: its encoding, and how a directory compares with it."""

from dataclasses import replace

import pytest

from rhumbline.core.bookie.identity import Identity
from rhumbline.core.bookie.start.start_record import Freshness, StartRecord, compare, decode, encode
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError

FORMATTED = Identity(BookieId("b1@00c0ffee"), "cluster", Region("eu"), Region("r1"))
SECOND = replace(FORMATTED, was_opened=True, start=2, token="22", previous_token="11")


def record(start: int, token: str) -> StartRecord:
    return StartRecord(start, token, 0, "")


def test_encoded_record_is_decoded_unchanged() -> None:
    limbo = "the directory is an older copy"
    full = StartRecord(7, "0123456789abcdef", 5 << 40 | 17, limbo, "2f.1", is_final=True)
    assert decode(encode(full)) == full


def test_record_is_one_line_of_json_with_its_version_first() -> None:
    plain = StartRecord(7, "0123456789abcdef", 99, "why")
    assert encode(plain) == (
        b'{"v":1,"start":7,"token":"0123456789abcdef","end":99,"limbo":"why","marker":"",'
        b'"is_final":false}'
    )


def test_fields_of_a_record_have_a_fixed_order() -> None:
    """A record in another order was written by another program."""
    full = encode(StartRecord(1, "11", 0, "")).replace(b'"v":1,', b"")
    start, _, rest = full[1:].partition(b",")
    with pytest.raises(CorruptionError, match="damaged record of starts"):
        decode(b'{"v":1,' + rest[:-1] + b"," + start + b"}")


@pytest.mark.parametrize(
    ("identity", "stored", "expected"),
    [
        (FORMATTED, None, Freshness.CURRENT),
        (FORMATTED, record(1, "11"), Freshness.OLDER_COPY),
        (replace(FORMATTED, start=1, token="11"), None, Freshness.CURRENT),
        (SECOND, record(2, "22"), Freshness.CURRENT),
        (SECOND, record(1, "11"), Freshness.CURRENT),
        (SECOND, record(3, "33"), Freshness.OLDER_COPY),
        (SECOND, record(2, "2f"), Freshness.OLDER_COPY),
        (SECOND, record(1, "1f"), Freshness.NEWER_THAN_STORE),
        (SECOND, None, Freshness.NEWER_THAN_STORE),
    ],
    ids=[
        "never started",
        "copy from before the first start",
        "interrupted first start",
        "last start",
        "interrupted start",
        "later start",
        "another copy was started instead",
        "store with another history",
        "store without a record",
    ],
)
def test_directory_is_compared_with_the_record(
    identity: Identity, stored: StartRecord | None, expected: Freshness
) -> None:
    assert compare(identity, stored) is expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b'"v"',
        b'{"v":0,"start":1,"token":"11","end":0,"limbo":"","marker":"","is_final":false}',
        b'{"v":1,"start":1,"token":"","end":0,"limbo":"","marker":"","is_final":false}',
        b'{"v":1,"start":"1","token":"11","end":0,"limbo":"","marker":"","is_final":false}',
        b'{"v":1,"start":1,"token":"11","end":0,"marker":"","is_final":false}',
        b'{"v":1,"start":1,"token":"11","end":0,"limbo":"","marker":"","is_final":false,"more":1}',
        b'{"v":"x","start":1,"token":"11","end":0,"limbo":"","marker":"","is_final":false}',
    ],
)
def test_damaged_record_raises_corruption_error(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode(data)


def test_record_of_a_later_version_is_foreign() -> None:
    with pytest.raises(ForeignDataError, match="version 2"):
        decode(b'{"v":2}')

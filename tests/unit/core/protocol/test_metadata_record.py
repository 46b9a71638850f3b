"""Records of the metadata store: exact text, and rejection of everything that is almost right."""

import pytest

from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError
from rhumbline.core.protocol.metadata_record import (
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_version,
)

FIELDS: dict[str, type | tuple[type, ...]] = {"a": int, "b": (str, type(None))}


def decode(data: bytes) -> dict[str, object]:
    return decode_metadata_record("thing x", data, version=2, fields=FIELDS)


def test_a_record_is_one_line_of_json_without_spaces() -> None:
    assert encode_metadata_record(2, {"a": 1, "b": "x"}) == b'{"v":2,"a":1,"b":"x"}'
    assert decode(b'{"v":2,"a":1,"b":"x"}') == {"a": 1, "b": "x"}


def test_a_field_may_have_one_of_several_types() -> None:
    assert decode(b'{"b": null, "a": -5, "v": 2}') == {"a": -5, "b": None}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "thing x: not JSON"),
        (b"\xff", "thing x: not JSON"),
        (b"[" * 100_000, "thing x: not JSON"),
        (b"7", "thing x: not a versioned record"),
        (b"[2]", "thing x: not a versioned record"),
        (b'{"a":1,"b":"x"}', "thing x: not a versioned record"),
        (b'{"v":"2","a":1,"b":"x"}', "thing x: not a versioned record"),
        (b'{"v":true,"a":1,"b":"x"}', "thing x: not a versioned record"),
        (b'{"v":1,"a":1,"b":"x"}', "thing x: unexpected format 1"),
        (b'{"v":2,"a":1}', "thing x: unexpected format 2 with fields"),
        (b'{"v":2,"a":1,"b":"x","c":1}', "thing x: unexpected format 2 with fields"),
        (b'{"v":2,"a":"1","b":"x"}', "thing x: field a has the wrong type"),
        (b'{"v":2,"a":true,"b":"x"}', "thing x: field a has the wrong type"),
        (b'{"v":2,"a":1,"b":1}', "thing x: field b has the wrong type"),
    ],
)
def test_a_record_that_is_almost_right_is_corrupt(data: bytes, message: str) -> None:
    with pytest.raises(CorruptionError, match=message) as raised:
        decode(data)
    assert len(str(raised.value)) < 300


def test_a_newer_record_is_foreign_whatever_its_fields_are() -> None:
    with pytest.raises(ForeignDataError, match="format 3 is newer than this program's 2"):
        decode(b'{"v":3,"other":1}')


def test_a_newer_record_is_read_if_it_names_an_old_enough_reader() -> None:
    data = encode_metadata_record(4, {"a": 1, "b": "x", "c": 5}, oldest_reader=2)
    assert data == b'{"v":4,"min":2,"a":1,"b":"x","c":5}'
    assert decode(data) == {"a": 1, "b": "x"}
    with pytest.raises(ForeignDataError, match="format 4 is newer"):
        decode(encode_metadata_record(4, {"a": 1, "b": "x", "c": 5}, oldest_reader=3))


@pytest.mark.parametrize("reader", [b'"2"', b"5", b"-1", b"true", b"null"])
def test_the_oldest_reader_is_a_version_up_to_that_of_the_record(reader: bytes) -> None:
    with pytest.raises(CorruptionError, match="is not the version of its oldest reader"):
        decode(b'{"v":4,"min":' + reader + b',"a":1,"b":"x"}')


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (encode_metadata_record(3, {"a": 1}), 3),
        (encode_metadata_record(0, {}), 0),
        (b'{ "v": 12, "a": 1 }', 12),
        (b'{"a":1,"v":4}', 4),
        (b'{"v":123456789012}', 123_456_789_012),
        (b'{"v":03,"a":1}', None),
        (b'{"v":-1}', -1),
        (b'{"v":1.0}', None),
        (b'{"v":true}', None),
        (b'{"v":"3"}', None),
        (b"[3]", None),
        (b"", None),
    ],
)
def test_the_version_is_found_wherever_it_is(data: bytes, version: int | None) -> None:
    assert metadata_record_version(data) == version

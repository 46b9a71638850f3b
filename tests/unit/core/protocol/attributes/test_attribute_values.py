"""Bounds of keys, headers and event times."""

import pytest

from rhumbline.core.protocol.attributes.attribute_values import (
    EVENT_TIME_MAX,
    EVENT_TIME_MIN,
    HEADER_NAME_BYTES_MAX,
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    KEY_BYTES_MAX,
    Attributes,
)
from rhumbline.core.protocol.errors import InvalidArgumentError, RecordTooLargeError


def test_values_up_to_the_bounds_are_taken() -> None:
    headers = {f"{number:0255}": b"" for number in range(HEADERS_MAX)}
    Attributes(bytes(KEY_BYTES_MAX), headers, EVENT_TIME_MAX)
    found = Attributes(bytearray(b"k"), {"a": memoryview(b"v")}, EVENT_TIME_MIN)
    assert (found.key, found.headers, found.event_time) == (b"k", {"a": b"v"}, EVENT_TIME_MIN)


@pytest.mark.parametrize(
    ("key", "headers", "event_time", "match"),
    [
        ("text", None, None, "a key must be bytes, not str"),
        (None, [("a", b"")], None, "headers must be a mapping of names to bytes, not list"),
        (None, {"a": "text"}, None, "the value of header 'a' must be bytes, not str"),
        (None, {"": b""}, None, "header name '' is not 1 to 255 characters"),
        (None, {"é": b""}, None, "header name 'é' is not"),
        (None, {"a\n": b""}, None, "printable ASCII"),
        (None, {b"a": b""}, None, "header name b'a' is not"),
        (None, {"n" * (HEADER_NAME_BYTES_MAX + 1): b""}, None, "1 to 255 characters"),
        (None, None, EVENT_TIME_MAX + 1, "event time 253402300800000 is not"),
        (None, None, EVENT_TIME_MIN - 1, "is not an int of milliseconds"),
        (None, None, 1.5, "event time 1.5 is not an int of milliseconds"),
        (None, None, True, "event time True is not"),
    ],
)
def test_wrong_values_are_named(
    key: object, headers: object, event_time: object, match: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        Attributes(key, headers, event_time)


@pytest.mark.parametrize(
    ("key", "headers", "match"),
    [
        (bytes(KEY_BYTES_MAX + 1), None, "a key of 65536 bytes is above the limit of 65535 bytes"),
        (None, {"a": bytes(HEADERS_BYTES_MAX)}, "headers of 65536 bytes are above"),
        (None, {str(number): b"" for number in range(HEADERS_MAX + 1)}, "101 headers are above"),
    ],
)
def test_larger_values_are_too_large(key: object, headers: object, match: str) -> None:
    with pytest.raises(RecordTooLargeError, match=match):
        Attributes(key, headers, None)


def test_later_changes_of_a_mapping_change_no_record() -> None:
    headers = {"a": b"1"}
    found = Attributes(None, headers, None)
    headers["a"] = b"2"
    assert found.headers == {"a": b"1"}

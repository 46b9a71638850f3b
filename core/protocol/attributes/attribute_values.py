"""The attributes of one record: its key, headers and event time, and their bounds (rule STR-40)."""

from collections.abc import Mapping
from types import MappingProxyType

from ..errors import InvalidArgumentError, RecordTooLargeError

KEY_BYTES_MAX = 65_535
"""Maximum size of a key. A key may be empty; a record without a key is something else."""
HEADERS_MAX = 100
"""Maximum number of headers of one record."""
HEADER_NAME_BYTES_MAX = 255
HEADERS_BYTES_MAX = 65_535
"""Maximum size of the headers of one record, names and values together."""

EVENT_TIME_MIN = -62_135_596_800_000
"""The beginning of the year 1, UTC, in ms since the Unix epoch."""
EVENT_TIME_MAX = 253_402_300_799_999
"""The end of the year 9999, UTC, in ms since the Unix epoch."""

Headers = Mapping[str, bytes]
"""The headers of a record: a value for each name. Names are printable ASCII."""

NO_HEADERS: Headers = MappingProxyType({})
"""The headers of a record that has none."""


def check_key(key: object) -> bytes:
    """Return a key as bytes. Raises InvalidArgumentError, RecordTooLargeError."""
    if not isinstance(key, bytes | bytearray | memoryview):
        raise InvalidArgumentError(f"a key must be bytes, not {type(key).__name__}")
    checked = bytes(key)
    if len(checked) > KEY_BYTES_MAX:
        raise RecordTooLargeError(
            f"a key of {len(checked)} bytes is above the limit of {KEY_BYTES_MAX} bytes"
        )
    return checked


def check_headers(headers: object) -> Headers:
    """Return a copy of the headers. Raises InvalidArgumentError, RecordTooLargeError."""
    if not isinstance(headers, Mapping):
        raise InvalidArgumentError(
            f"headers must be a mapping of names to bytes, not {type(headers).__name__}"
        )
    if len(headers) > HEADERS_MAX:
        raise RecordTooLargeError(
            f"{len(headers)} headers are above the limit of {HEADERS_MAX} headers"
        )
    checked: dict[str, bytes] = {}
    size = 0
    for name, value in headers.items():
        if not isinstance(name, str) or not is_header_name(name):
            raise InvalidArgumentError(
                f"header name {name!r:.80} is not 1 to {HEADER_NAME_BYTES_MAX} characters of "
                "printable ASCII"
            )
        if not isinstance(value, bytes | bytearray | memoryview):
            raise InvalidArgumentError(
                f"the value of header {name!r} must be bytes, not {type(value).__name__}"
            )
        checked[name] = bytes(value)
        size += len(name) + len(checked[name])
    if size > HEADERS_BYTES_MAX:
        raise RecordTooLargeError(
            f"headers of {size} bytes are above the limit of {HEADERS_BYTES_MAX} bytes"
        )
    return checked


def is_header_name(name: str) -> bool:
    """True if a header may have this name: 1 to 255 characters of printable ASCII."""
    return 0 < len(name) <= HEADER_NAME_BYTES_MAX and name.isascii() and name.isprintable()


def check_event_time(event_time: object) -> int:
    """Return an event time in ms since the Unix epoch. Raises InvalidArgumentError."""
    if type(event_time) is not int or not EVENT_TIME_MIN <= event_time <= EVENT_TIME_MAX:
        raise InvalidArgumentError(
            f"event time {event_time!r} is not an int of milliseconds since 1970, in UTC, between "
            f"{EVENT_TIME_MIN} and {EVENT_TIME_MAX} (the years 1 to 9999)"
        )
    return event_time


class Attributes:
    """The checked attributes of one record; None: it has no such attribute."""

    __slots__ = ("event_time", "headers", "key", "size")

    def __init__(self, key: object, headers: object, event_time: object) -> None:
        """Check the values. Raises InvalidArgumentError, RecordTooLargeError."""
        self.key: bytes | None = None if key is None else check_key(key)
        self.headers: Headers | None = None if headers is None else check_headers(headers)
        self.event_time: int | None = None if event_time is None else check_event_time(event_time)
        self.size = _size(self.key, self.headers, self.event_time)
        """An upper bound of the bytes that the attributes add to a record set."""


def _size(key: bytes | None, headers: Headers | None, event_time: int | None) -> int:
    size = 0 if event_time is None else 16
    if key is not None:
        size += len(key) + 16
    if headers:
        size += 16
        for name, value in headers.items():
            size += len(name) + len(value) + 8
    return size

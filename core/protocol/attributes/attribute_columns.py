"""The attributes of the records of one set as columns (rule STR-40).

A set has a column only if one of its records has that attribute, so sets without attributes are
encoded as if there were none. Each column is announced by a *required* tag of the set's extension
area, whose value is the size of the column in the raw body. Columns are little-endian, begin and
end at multiples of 8 bytes, and have the layout of Arrow arrays::

    column: absent u32 | pairs u32 | [bitmap of the records that have a value, if absent > 0] | ...
    event times: int64[count], 0 where absent
    keys:        strings[count], empty where absent
    headers:     int32[count + 1], the first pair of each record | names: strings[pairs] |
                 values: strings[pairs]
    strings[n]:  int32[n + 1] offsets | bytes

There is one encoding of given values, so that the checksum of a body can be computed from its rows.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import sub

from ..errors import CorruptionError, ForeignDataError
from .attribute_values import (
    EVENT_TIME_MAX,
    EVENT_TIME_MIN,
    HEADER_NAME_BYTES_MAX,
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    KEY_BYTES_MAX,
    NO_HEADERS,
    Attributes,
    Headers,
    is_header_name,
)

REQUIRED_TAGS = 0x8000
"""Tags of the extension area from here on are required: a reader that does not know one of them
refuses the set."""
EVENT_TIMES = 0x8001
KEYS = 0x8002
HEADERS = 0x8003

_ALIGNMENT = 8
_TAG = struct.Struct("<HHI")  # tag, length of the value (4), bytes of the column
_HEAD = struct.Struct("<II")  # records without a value, pairs
_KNOWN = frozenset((EVENT_TIMES, KEYS, HEADERS))

Column = tuple[int, int]
"""Where a column lies in the raw body: begin and end."""


class Strings:
    """A block of ``count`` byte strings within a body."""

    __slots__ = ("blob", "count", "end", "offsets")

    def __init__(self, view: memoryview, at: int, count: int, end: int) -> None:
        """Find the block that begins at ``at`` and ends at or before ``end``.

        Raises CorruptionError if it does not fit.
        """
        blob_at = at + 4 * (count + 1)
        if blob_at > end:
            raise CorruptionError("record set: a column of attributes is too short")
        last = int(struct.unpack_from("<i", view, blob_at - 4)[0])
        if last < 0 or blob_at + last > end:
            raise CorruptionError("record set: offsets do not fit a column of attributes")
        self.count = count
        self.offsets = view[at:blob_at]
        self.blob = view[blob_at : blob_at + last]
        self.end = check_padding(view, blob_at + last, end)

    def sizes(self) -> list[int]:
        """Return the size of each string. Raises CorruptionError if offsets decrease."""
        offsets = struct.unpack(f"<{self.count + 1}i", self.offsets)
        sizes = list(map(sub, offsets[1:], offsets))
        if offsets[0] != 0 or (sizes and min(sizes) < 0):
            raise CorruptionError("record set: offsets decrease in a column of attributes")
        return sizes

    def values(self, sizes: list[int]) -> list[bytes]:
        """Return the strings; ``sizes`` is the result of ``sizes``."""
        return list(struct.unpack(("%ds" * len(sizes)) % tuple(sizes), self.blob))


class AttributeColumns:
    """The columns of a decoded set. Values are decoded when they are first used, and kept.

    Every method raises CorruptionError if its column does not have the form described above.
    """

    __slots__ = ("_body", "_columns", "_count", "_event_times", "_headers", "_keys")

    def __init__(self, body: memoryview, count: int, columns: dict[int, Column]) -> None:
        self._body = body
        self._count = count
        self._columns = columns
        self._event_times: Sequence[int | None] | None = None
        self._keys: Sequence[bytes | None] | None = None
        self._headers: Sequence[Headers] | None = None

    def event_times(self) -> Sequence[int | None]:
        """Return the event time of each record in ms, or None."""
        found = self._event_times
        if found is None:
            found = self._event_times = self._decode_event_times()
        return found

    def keys(self) -> Sequence[bytes | None]:
        """Return the key of each record, or None."""
        found = self._keys
        if found is None:
            found = self._keys = self._decode_keys()
        return found

    def headers(self) -> Sequence[Headers]:
        """Return the headers of each record, which may be empty."""
        found = self._headers
        if found is None:
            found = self._headers = self._decode_headers()
        return found

    def check(self) -> None:
        """Decode everything, so that nothing raises CorruptionError later."""
        self.event_times()
        self.keys()
        self.headers()

    # --- views, for Arrow -----------------------------------------------------------------------

    def event_time_views(self) -> tuple[memoryview | None, memoryview] | None:
        """Return (bitmap, int64 values), or None if there is no such column."""
        if EVENT_TIMES not in self._columns:
            return None
        pairs, bitmap, at, end = self._open(EVENT_TIMES)
        if pairs or end - at != 8 * self._count:
            raise CorruptionError("record set: the column of event times has a wrong size")
        return bitmap, self._body[at:end]

    def key_views(self) -> tuple[memoryview | None, Strings] | None:
        """Return (bitmap, strings), or None if there is no such column."""
        if KEYS not in self._columns:
            return None
        pairs, bitmap, at, end = self._open(KEYS)
        strings = Strings(self._body, at, self._count, end)
        if pairs or strings.end != end:
            raise CorruptionError("record set: the column of keys has a wrong size")
        return bitmap, strings

    def header_views(self) -> tuple[memoryview | None, memoryview, Strings, Strings] | None:
        """Return (bitmap, first pair of each record, names, values), or None without a column."""
        if HEADERS not in self._columns:
            return None
        pairs, bitmap, at, end = self._open(HEADERS)
        firsts_end = at + 4 * (self._count + 1)
        if firsts_end > end or 8 * (pairs + 1) > end - firsts_end:
            raise CorruptionError("record set: the column of headers is too short")
        names = Strings(self._body, check_padding(self._body, firsts_end, end), pairs, end)
        values = Strings(self._body, names.end, pairs, end)
        if values.end != end:
            raise CorruptionError("record set: the column of headers has a wrong size")
        return bitmap, self._body[at:firsts_end], names, values

    def _open(self, tag: int) -> tuple[int, memoryview | None, int, int]:
        """Return (pairs, bitmap, where the values begin, where the column ends)."""
        begin, end = self._columns[tag]
        absent, pairs = _HEAD.unpack_from(self._body, begin)
        at = begin + _HEAD.size
        if absent == 0:
            return pairs, None, at, end
        bitmap_end = at + (self._count + 7) // 8
        if absent >= self._count or bitmap_end > end:
            raise CorruptionError("record set: the bitmap does not fit a column of attributes")
        bitmap = self._body[at:bitmap_end]
        bits = int.from_bytes(bitmap, "little")
        if bits.bit_count() != self._count - absent or bits >> self._count:
            raise CorruptionError("record set: the bitmap of a column contradicts its count")
        return pairs, bitmap, check_padding(self._body, bitmap_end, end), end

    # --- values ---------------------------------------------------------------------------------

    def _decode_event_times(self) -> Sequence[int | None]:
        views = self.event_time_views()
        if views is None:
            return [None] * self._count
        bitmap, values = views
        times = list(struct.unpack(f"<{self._count}q", values))
        if min(times) < EVENT_TIME_MIN or max(times) > EVENT_TIME_MAX:
            raise CorruptionError("record set: an event time is out of range")
        if bitmap is None:
            return times
        found: list[int | None] = []
        for index, value in enumerate(times):
            if has_bit(bitmap, index):
                found.append(value)
            elif value == 0:
                found.append(None)
            else:
                raise CorruptionError("record set: an absent event time is not 0")
        return found

    def _decode_keys(self) -> Sequence[bytes | None]:
        views = self.key_views()
        if views is None:
            return [None] * self._count
        bitmap, strings = views
        sizes = strings.sizes()
        if max(sizes) > KEY_BYTES_MAX:
            raise CorruptionError(f"record set: a key is larger than {KEY_BYTES_MAX} bytes")
        keys = strings.values(sizes)
        if bitmap is None:
            return keys
        found: list[bytes | None] = []
        for index, key in enumerate(keys):
            if has_bit(bitmap, index):
                found.append(key)
            elif key:
                raise CorruptionError("record set: an absent key is not empty")
            else:
                found.append(None)
        return found

    def _decode_headers(self) -> Sequence[Headers]:
        views = self.header_views()
        if views is None:
            return [NO_HEADERS] * self._count
        bitmap, first_pairs, names, values = views
        firsts = struct.unpack(f"<{self._count + 1}i", first_pairs)
        if firsts[0] != 0 or firsts[-1] != names.count:
            raise CorruptionError("record set: the headers contradict their number")
        name_list = names.values(names.sizes())
        value_list = values.values(values.sizes())
        found: list[Headers] = []
        for index in range(self._count):
            first, stop = firsts[index], firsts[index + 1]
            is_present = bitmap is None or has_bit(bitmap, index)
            if (stop > first) is not is_present or stop < first or stop - first > HEADERS_MAX:
                raise CorruptionError("record set: the headers of a record have a wrong number")
            if is_present:
                found.append(_headers_of(name_list[first:stop], value_list[first:stop]))
            else:
                found.append(NO_HEADERS)
        return found


def _headers_of(names: list[bytes], values: list[bytes]) -> Headers:
    headers: dict[str, bytes] = {}
    size = 0
    for name, value in zip(names, values, strict=True):
        text = name.decode("latin-1")
        if not is_header_name(text) or text in headers:
            raise CorruptionError(
                f"record set: header name {name!r:.80} occurs twice, or is not 1 to "
                f"{HEADER_NAME_BYTES_MAX} characters of printable ASCII"
            )
        headers[text] = value
        size += len(name) + len(value)
    if size > HEADERS_BYTES_MAX:
        raise CorruptionError(f"record set: headers are larger than {HEADERS_BYTES_MAX} bytes")
    return headers


def has_bit(bitmap: memoryview, index: int) -> bool:
    """True if record ``index`` has a value."""
    return bool(bitmap[index >> 3] >> (index & 7) & 1)


def check_padding(view: memoryview, at: int, end: int) -> int:
    """Return the next multiple of 8 from ``at`` on, which is at most ``end``.

    Offsets are relative to the body. Raises CorruptionError unless the bytes up to there are 0.
    """
    padded = at + -at % _ALIGNMENT
    if padded > end or any(view[at:padded]):
        raise CorruptionError("record set: wrong padding in a column of attributes")
    return padded


# --- encoding -----------------------------------------------------------------------------------


class AttributeBuilder:
    """Gathers the checked attributes of records, most of which may have none."""

    __slots__ = ("_event_times", "_headers", "_keys")

    def __init__(self) -> None:
        self._event_times: list[int | None] = []
        self._keys: list[bytes | None] = []
        self._headers: list[Headers] = []

    def add(self, index: int, attributes: Attributes) -> None:
        """Set the attributes of record ``index``, which is above those that were set before."""
        if attributes.event_time is not None:
            no_times: list[int | None] = [None] * (index - len(self._event_times))
            self._event_times.extend(no_times)
            self._event_times.append(attributes.event_time)
        if attributes.key is not None:
            no_keys: list[bytes | None] = [None] * (index - len(self._keys))
            self._keys.extend(no_keys)
            self._keys.append(attributes.key)
        if attributes.headers:
            self._headers.extend([NO_HEADERS] * (index - len(self._headers)))
            self._headers.append(attributes.headers)

    def encode(self, count: int) -> tuple[bytes, bytes]:
        """Return the tags for the extension area and the columns of a set of ``count`` records."""
        tags: list[bytes] = []
        columns: list[bytes] = []
        if self._event_times:
            no_times: list[int | None] = [None] * (count - len(self._event_times))
            columns.append(_encode_event_times(self._event_times + no_times))
            tags.append(_TAG.pack(EVENT_TIMES, 4, len(columns[-1])))
        if self._keys:
            no_keys: list[bytes | None] = [None] * (count - len(self._keys))
            columns.append(_encode_keys(self._keys + no_keys))
            tags.append(_TAG.pack(KEYS, 4, len(columns[-1])))
        if self._headers:
            no_headers = [NO_HEADERS] * (count - len(self._headers))
            columns.append(_encode_headers(self._headers + no_headers))
            tags.append(_TAG.pack(HEADERS, 4, len(columns[-1])))
        return b"".join(tags), b"".join(columns)


def attribute_builder(attributes: Iterable[Attributes]) -> AttributeBuilder:
    """Return a builder with the attributes of consecutive records."""
    builder = AttributeBuilder()
    for index, one in enumerate(attributes):
        builder.add(index, one)
    return builder


def _encode_event_times(times: list[int | None]) -> bytes:
    values = [time or 0 for time in times]
    head = _head([time is not None for time in times], 0)
    return head + struct.pack(f"<{len(values)}q", *values)


def _encode_keys(keys: list[bytes | None]) -> bytes:
    head = _head([key is not None for key in keys], 0)
    return head + _strings([key or b"" for key in keys])


def _encode_headers(headers: list[Headers]) -> bytes:
    names: list[bytes] = []
    values: list[bytes] = []
    firsts = [0]
    for one in headers:
        for name, value in one.items():
            names.append(name.encode("ascii"))
            values.append(value)
        firsts.append(len(names))
    head = _head([bool(one) for one in headers], len(names))
    first_pairs = _padded(struct.pack(f"<{len(firsts)}i", *firsts))
    return head + first_pairs + _strings(names) + _strings(values)


def _head(present: list[bool], pairs: int) -> bytes:
    absent = present.count(False)
    head = _HEAD.pack(absent, pairs)
    if absent == 0:
        return head
    bitmap = bytearray((len(present) + 7) // 8)
    for index, is_present in enumerate(present):
        if is_present:
            bitmap[index >> 3] |= 1 << (index & 7)
    return head + _padded(bytes(bitmap))


def _strings(values: list[bytes]) -> bytes:
    offsets = struct.pack(f"<{len(values) + 1}i", *accumulate(map(len, values), initial=0))
    return _padded(b"".join((offsets, *values)))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)


# --- the extension area -------------------------------------------------------------------------


def columns_in(extension: bytes, at: int, end: int) -> dict[int, Column]:
    """Return where each column lies in the raw body; the first one begins at ``at``.

    Only tags that are required count. Raises ForeignDataError for one that is not known, and
    CorruptionError for tags that are malformed, and columns that go beyond ``end``.
    """
    found: dict[int, Column] = {}
    read = previous = 0
    while read < len(extension):
        if read + 4 > len(extension):
            raise CorruptionError("record set: truncated extension area")
        tag, length = struct.unpack_from("<HH", extension, read)
        if tag >= REQUIRED_TAGS:
            if tag not in _KNOWN:
                raise ForeignDataError(
                    f"record set: required extension {tag:#06x} is not known to this version"
                )
            if length != 4 or tag <= previous or read + 8 > len(extension):
                raise CorruptionError("record set: bad tag of a column")
            size = int(struct.unpack_from("<I", extension, read + 4)[0])
            if size < _HEAD.size or size % _ALIGNMENT or at + size > end:
                raise CorruptionError("record set: the size of a column does not fit the body")
            found[tag] = (at, at + size)
            at += size
            previous = tag
        read += 4 + length
    if read != len(extension) or not found:
        raise CorruptionError("record set: its flags and its extension area contradict each other")
    return found


def end_of(columns: dict[int, Column], at: int) -> int:
    """Return where the last column ends; ``at`` if there is none."""
    for _, end in columns.values():
        at = max(at, end)
    return at

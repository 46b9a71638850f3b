"""The block format of the durable index: each block holds up to 240 rows of one ledger.

A single row would cost about 50 bytes in the B-tree and one call; in a block it costs 4 to 12 bytes
and a fraction of a call. The key of a block is its ledger id and last entry id (8 + 8 bytes,
big-endian, so that byte order is numeric order). The block of an entry is the first one whose key
is not below the entry's own key. Blocks of a ledger do not overlap.

A value is the first id, the lowest position and flags, then arrays of 32-bit numbers in the
machine's byte order: offsets above the lowest position; lengths (one for all when they are equal);
ids above the first one, unless none is missing.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator

from .ledger_entries import LedgerEntries, Location

KEY = struct.Struct(">QQ")
ENTRY_MAX = 2**64 - 1

_HEAD = struct.Struct(">QQHB")
_HEAD_BYTES = _HEAD.size
_WORD = struct.Struct("=I")
_WORD_BYTES = _WORD.size
_SPREAD_MAX = 2**32
_ONE_LENGTH = 1
_WITH_IDS = 2

ROWS_MAX = 240
"""Maximum number of rows in a block, so that two blocks fit into a page of the tree."""


def blocks_of(ledger_id: int, entries: LedgerEntries) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of each block for these rows."""
    start = 0
    while start < len(entries):
        part = _fitting(entries.part(start, start + ROWS_MAX))
        yield KEY.pack(ledger_id, part.last), _encode(part)
        start += len(part)


def _fitting(part: LedgerEntries) -> LedgerEntries:
    """Return as many of the first rows as one block can encode."""
    positions, first = part.positions, part.ids[0]
    low, high = min(positions), max(positions)
    if high - low < _SPREAD_MAX and part.last - first < _SPREAD_MAX:
        return part
    low = high = positions[0]
    for at, (entry_id, position) in enumerate(zip(part.ids, positions, strict=True)):
        low, high = min(low, position), max(high, position)
        if high - low >= _SPREAD_MAX or entry_id - first >= _SPREAD_MAX:
            return part.part(0, at)
    raise AssertionError("no row exceeds the limits")


def _encode(part: LedgerEntries) -> bytes:
    base, first = min(part.positions), part.ids[0]
    flags, lengths = 0, part.lengths
    if lengths.count(lengths[0]) == len(lengths):
        flags, lengths = _ONE_LENGTH, lengths[:1]
    offsets = array("I", [position - base for position in part.positions])
    value = offsets.tobytes() + lengths.tobytes()
    if not part.is_dense:
        flags |= _WITH_IDS
        value += array("I", [entry_id - first for entry_id in part.ids]).tobytes()
    return _HEAD.pack(first, base, len(part), flags) + value


def _words(value: bytes, start: int, count: int) -> "array[int]":
    words = array("I")
    words.frombytes(value[start : start + count * _WORD_BYTES])
    return words


def decode_block(value: bytes) -> LedgerEntries:
    """Decodes the rows of a block."""
    first, base, count, flags = _HEAD.unpack_from(value)
    rows = LedgerEntries()
    rows.positions = array("Q", [base + offset for offset in _words(value, _HEAD_BYTES, count)])
    start = _HEAD_BYTES + count * _WORD_BYTES
    if flags & _ONE_LENGTH:
        rows.lengths = _words(value, start, 1) * count
        start += _WORD_BYTES
    else:
        rows.lengths = _words(value, start, count)
        start += count * _WORD_BYTES
    if flags & _WITH_IDS:
        rows.ids = array("q", [first + above for above in _words(value, start, count)])
    else:
        rows.ids = array("q", range(first, first + count))
    rows.last = rows.ids[-1]
    return rows


def first_id(value: bytes) -> int:
    """Return the lowest entry id of a block."""
    return int(_HEAD.unpack_from(value)[0])


def row_count(value: bytes) -> int:
    """Return the number of rows in a block."""
    return int(_HEAD.unpack_from(value)[2])


def find_in_block(value: bytes, entry_id: int) -> Location | None:
    """Return the location of one entry, without decoding the other rows."""
    first, base, count, flags = _HEAD.unpack_from(value)
    at = entry_id - first
    lengths = _HEAD_BYTES + count * _WORD_BYTES
    if flags & _WITH_IDS:
        start = lengths + (_WORD_BYTES if flags & _ONE_LENGTH else count * _WORD_BYTES)
        ids = _words(value, start, count)
        above, at = at, bisect_left(ids, max(at, 0))
        if at == count or ids[at] != above:
            return None
    elif not 0 <= at < count:
        return None
    (offset,) = _WORD.unpack_from(value, _HEAD_BYTES + at * _WORD_BYTES)
    same = flags & _ONE_LENGTH
    (length,) = _WORD.unpack_from(value, lengths + (0 if same else at * _WORD_BYTES))
    return Location(base + offset, length)

"""The block format of index files: up to 512 rows, ordered by ledger and entry.

A row takes 4 bytes if the rows of the block have one length and no entry id of a ledger is missing,
and 12 bytes otherwise. A block holds runs: the rows of one ledger that stand in it. A ledger with
many rows begins a block of its own, so that the keys of blocks tell which ids it has.

A block is a header (rows, runs, flags, lowest position), then columns of little-endian numbers:

- for each run: ledger id (64 bits), first entry id (64 bits), number of its first row (16 bits);
- for each row: position minus the lowest position (32 bits);
- one length, or a length for each row (32 bits);
- for each row, only if an id is missing: entry id minus the first id of its run (32 bits).

The checksum of a block is in the directory of its file (index_file.py), so a block is parsed only
after it was verified.
"""

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .ledger_entries import LedgerEntries, Location

ROWS_MAX = 512
"""Maximum number of rows in a block."""

OWN_BLOCK_ROWS = 64
"""A ledger with this many rows in a file begins a block of its own."""

_HEAD = struct.Struct("<HHBQ")
_HEAD_BYTES = _HEAD.size
_SPREAD_MAX = 2**32
_ONE_LENGTH = 1
_WITH_IDS = 2
_IS_BIG_ENDIAN = sys.byteorder == "big"


class EncodedBlock(NamedTuple):
    """A block with the keys (ledger id, entry id) of its first and last rows."""

    first_ledger: int
    first_id: int
    last_ledger: int
    last_id: int
    row_count: int
    data: bytes


def column_bytes(column: "array[int]") -> bytes:
    """Return the numbers of a column as little-endian bytes."""
    if _IS_BIG_ENDIAN:
        column = array(column.typecode, column)
        column.byteswap()
    return column.tobytes()


def read_column(typecode: str, data: bytes, start: int, count: int) -> "array[int]":
    """Return ``count`` numbers of a column that begins at byte ``start``."""
    column = array(typecode)
    column.frombytes(data[start : start + count * column.itemsize])
    if _IS_BIG_ENDIAN:
        column.byteswap()
    return column


class IndexBlock:
    """A parsed block."""

    __slots__ = ("_base", "_firsts", "_ids", "_ledgers", "_lengths", "_offsets", "_starts", "size")

    def __init__(self, data: bytes) -> None:
        count, run_count, flags, self._base = _HEAD.unpack_from(data)
        at = _HEAD_BYTES
        self._ledgers = read_column("Q", data, at, run_count)
        at += 8 * run_count
        self._firsts = read_column("q", data, at, run_count)
        at += 8 * run_count
        self._starts = read_column("H", data, at, run_count)
        self._starts.append(count)
        at += 2 * run_count
        self._offsets = read_column("I", data, at, count)
        at += 4 * count
        self._lengths = read_column("I", data, at, 1 if flags & _ONE_LENGTH else count)
        at += 4 * len(self._lengths)
        self._ids = read_column("I", data, at, count if flags & _WITH_IDS else 0)
        self.size = len(data) + 600
        """Approximate bytes of memory that the block takes."""

    def _run_of(self, ledger_id: int) -> int:
        run = bisect_left(self._ledgers, ledger_id)
        return run if run < len(self._ledgers) and self._ledgers[run] == ledger_id else -1

    def find(self, ledger_id: int, entry_id: int) -> Location | None:
        """Return the location of an entry, None if the block does not have it."""
        run = self._run_of(ledger_id)
        if run < 0:
            return None
        start, stop = self._starts[run], self._starts[run + 1]
        above = entry_id - self._firsts[run]
        if above < 0:
            return None
        if self._ids:
            row = bisect_left(self._ids, above, start, stop)
            if row == stop or self._ids[row] != above:
                return None
        else:
            row = start + above
            if row >= stop:
                return None
        lengths = self._lengths
        length = lengths[0] if len(lengths) == 1 else lengths[row]
        return Location(self._base + self._offsets[row], length)

    def rows_of(self, ledger_id: int) -> LedgerEntries:
        """Return the rows of one ledger."""
        run = self._run_of(ledger_id)
        return LedgerEntries() if run < 0 else self._rows(run)

    def runs(self) -> Iterator[tuple[int, LedgerEntries]]:
        """Yield all ledgers with their rows, rising."""
        for run, ledger_id in enumerate(self._ledgers):
            yield ledger_id, self._rows(run)

    def _rows(self, run: int) -> LedgerEntries:
        start, stop = self._starts[run], self._starts[run + 1]
        first, base = self._firsts[run], self._base
        rows = LedgerEntries()
        rows.positions = array("Q", [base + offset for offset in self._offsets[start:stop]])
        if len(self._lengths) == 1:
            rows.lengths = self._lengths * (stop - start)
        else:
            rows.lengths = self._lengths[start:stop]
        if self._ids:
            rows.ids = array("q", [first + above for above in self._ids[start:stop]])
        else:
            rows.ids = array("q", range(first, first + stop - start))
        rows.last = rows.ids[-1]
        return rows


class _OpenBlock:
    """The block that is being filled: its runs, and the range of their positions."""

    __slots__ = ("count", "high", "low", "runs")

    def __init__(self) -> None:
        self.runs: list[tuple[int, LedgerEntries]] = []
        self.count = self.low = self.high = 0

    def try_add(self, ledger_id: int, rows: LedgerEntries) -> bool:
        """Adds a run; returns False if 32 bits do not suffice for its ids or the positions."""
        low, high = min(rows.positions), max(rows.positions)
        if self.runs:
            low, high = min(low, self.low), max(high, self.high)
        if rows.last - rows.ids[0] >= _SPREAD_MAX or high - low >= _SPREAD_MAX:
            return False
        self.low, self.high = low, high
        self.runs.append((ledger_id, rows))
        self.count += len(rows)
        return True


def blocks_of(columns: Iterable[tuple[int, LedgerEntries]]) -> Iterator[EncodedBlock]:
    """Yield the blocks of a file's rows; ``columns`` yields the ledgers in rising order."""
    block = _OpenBlock()
    for ledger_id, rows in columns:
        if block.runs and len(rows) >= OWN_BLOCK_ROWS:
            yield _encode(block)
            block = _OpenBlock()
        start = 0
        while start < len(rows):
            part = rows.part(start, start + ROWS_MAX - block.count)
            is_cut = False
            while not block.try_add(ledger_id, part):
                if block.runs:
                    yield _encode(block)
                    block = _OpenBlock()
                else:
                    part, is_cut = part.part(0, len(part) // 2), True
            start += len(part)
            if is_cut or block.count == ROWS_MAX:  # a block has one run of a ledger
                yield _encode(block)
                block = _OpenBlock()
    if block.runs:
        yield _encode(block)


def _encode(block: _OpenBlock) -> EncodedBlock:
    ledgers, firsts, starts = array("Q"), array("q"), array("H")
    positions, lengths, above = array("Q"), array("I"), array("I")
    flags = 0
    for ledger_id, rows in block.runs:
        ledgers.append(ledger_id)
        firsts.append(rows.ids[0])
        starts.append(len(positions))
        positions.extend(rows.positions)
        lengths.extend(rows.lengths)
        if not rows.is_dense:
            flags = _WITH_IDS
    if flags:
        for _, rows in block.runs:
            first = rows.ids[0]
            above.extend([entry_id - first for entry_id in rows.ids])
    count, base = block.count, block.low
    if lengths.count(lengths[0]) == count:
        flags |= _ONE_LENGTH
        lengths = lengths[:1]
    offsets = array("I", [position - base for position in positions])
    columns = (ledgers, firsts, starts, offsets, lengths, above)
    data = _HEAD.pack(count, len(ledgers), flags, base) + b"".join(map(column_bytes, columns))
    last_ledger, last_rows = block.runs[-1]
    return EncodedBlock(ledgers[0], firsts[0], last_ledger, last_rows.last, count, data)

"""An index file: where each entry of one log file or sorted file is, with a checksum for each part.

A data file that no longer changes has one index file, which is written once. Its parts, in order:

- blocks of rows (index_blocks.py);
- the directory: columns of the ledgers in the file (id, highest entry id), then columns of the
  blocks (keys of the first and last rows, offset, CRC);
- the footer, 512 bytes: what the file describes, the counts, and the CRC of the directory.

The directory of an open file stays in memory, 44 bytes for each block. It is verified as a whole,
and it tells which ids a block can have. A block is verified whenever it is read. So an index file
says "not here" only if every byte behind that answer was verified, and otherwise says "unknown".
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from ...protocol.bookie_id import BookieId
from ...protocol.errors import UnknownStateError
from ...runtime.disk import File
from .index_blocks import IndexBlock, blocks_of, column_bytes, read_column
from .ledger_entries import LedgerEntries

INDEX_VERSION = 1
FOOTER_BYTES = 512

_MAGIC = b"RHUMIDX\x00"
_FOOTER = struct.Struct(">8sHHQQQQIIQI250s")
_CRC = struct.Struct(">I")
_LEDGER_BYTES = 16
_BLOCK_BYTES = 44
_TAIL_BYTES = 64 << 10
_WRITE_BYTES = 256 << 10
_BLOCKS_PER_PAUSE = 4

Pause = Callable[[], Awaitable[None]]
"""Function that is awaited between slices of work, which take about a millisecond each."""


class DataFile(NamedTuple):
    """The data file that an index file describes, up to ``end``."""

    kind: int
    number: int
    generation: int
    end: int


class DamagedBlockError(UnknownStateError):
    """A block of an index file cannot be read, so the entries that it may name are unknown."""


class IndexFile:
    """An open index file. ``rank`` orders the files of a bookie by the age of their entries."""

    def __init__(self, file: File, data_file: DataFile, directory_offset: int) -> None:
        self.file = file
        self.data_file = data_file
        self.rank = (0, 0)
        self.slot = -1
        self.serial = 0
        """A number that no other open index file has had."""
        self.row_count = 0
        self.is_damaged = False
        """True if a block could not be read; the file is then rebuilt."""
        self._directory_offset = directory_offset
        self._first_ledgers = array("Q")
        self._first_ids = array("q")
        self._last_ledgers = array("Q")
        self._last_ids = array("q")
        self._offsets = array("Q")
        self._crcs = array("I")

    @property
    def number(self) -> int:
        """The number of the data file."""
        return self.data_file.number

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return len(self._offsets)

    def block_at(self, ledger_id: int, entry_id: int) -> int:
        """Return the only block that can have the entry, -1 if none can."""
        firsts = self._first_ledgers
        high = bisect_right(firsts, ledger_id)
        low = bisect_left(firsts, ledger_id, 0, high)
        at = bisect_right(self._first_ids, entry_id, low, high) - 1
        if at < 0:
            return -1
        last_ledger = self._last_ledgers[at]
        if last_ledger < ledger_id or (last_ledger == ledger_id and self._last_ids[at] < entry_id):
            return -1
        return at

    def blocks_from(self, ledger_id: int, entry_id: int) -> Iterator[tuple[int, int]]:
        """Yield the blocks that can have ids of a ledger from ``entry_id`` on, in rising order.

        Each comes with the lowest id that it can have.
        """
        lasts = self._last_ledgers
        at = bisect_left(lasts, ledger_id)
        at = bisect_left(self._last_ids, entry_id, at, bisect_right(lasts, ledger_id, at))
        for block in range(at, bisect_right(self._first_ledgers, ledger_id)):
            is_first = self._first_ledgers[block] == ledger_id
            yield block, self._first_ids[block] if is_first else 0

    async def load(self, at: int) -> IndexBlock:
        """Reads and verifies a block. Raises DamagedBlockError, DiskFailedError."""
        start, end = self._span(at)
        data = await self.file.read(start, end - start)
        if len(data) != end - start or crc32c(data) != self._crcs[at]:
            raise DamagedBlockError(f"{self.file.path}: the index block at byte {start} is damaged")
        return IndexBlock(data)

    def _span(self, at: int) -> tuple[int, int]:
        following = at + 1
        is_last = following == len(self._offsets)
        return self._offsets[at], self._directory_offset if is_last else self._offsets[following]

    async def verify_blocks(self, throttle: Callable[[int], Awaitable[None]]) -> None:
        """Reads and verifies all blocks; ``throttle`` is awaited with the bytes of each.

        Raises DamagedBlockError, DiskFailedError.
        """
        for at in range(self.block_count):
            await self.load(at)
            start, end = self._span(at)
            await throttle(end - start)

    async def columns(self) -> "list[tuple[int, LedgerEntries]]":
        """Read all rows by ledger, rising. Raises DamagedBlockError, DiskFailedError."""
        found: list[tuple[int, LedgerEntries]] = []
        for at in range(self.block_count):
            for ledger_id, rows in (await self.load(at)).runs():
                if found and found[-1][0] == ledger_id:
                    found[-1][1].update(rows)
                else:
                    found.append((ledger_id, rows))
        return found

    def set_directory(self, directory: bytes, ledger_count: int, block_count: int) -> None:
        """Parses the columns of the blocks from a verified directory."""
        at = _LEDGER_BYTES * ledger_count
        self._first_ledgers = read_column("Q", directory, at, block_count)
        self._first_ids = read_column("q", directory, at + 8 * block_count, block_count)
        self._last_ledgers = read_column("Q", directory, at + 16 * block_count, block_count)
        self._last_ids = read_column("q", directory, at + 24 * block_count, block_count)
        self._offsets = read_column("Q", directory, at + 32 * block_count, block_count)
        self._crcs = read_column("I", directory, at + 40 * block_count, block_count)


class LedgerColumns(NamedTuple):
    """The ledgers in an index file, rising, with the highest entry id of each."""

    ledgers: "array[int]"
    lasts: "array[int]"


async def read_index_file(
    file: File, kind: int, number: int, bookie: BookieId
) -> tuple[IndexFile, LedgerColumns] | None:
    """Open the index file of a data file; None if it is damaged or describes another file.

    The caller compares its generation and end with those of the data file. Raises DiskFailedError.
    """
    size = await file.size()
    start = max(0, size - _TAIL_BYTES)
    tail = await file.read(start, size - start)
    footer = tail[-FOOTER_BYTES:]
    if len(footer) < FOOTER_BYTES or footer[-4:] != _CRC.pack(crc32c(footer[:-4])):
        return None
    magic, version, *described, rows, ledger_count, block_count, offset, crc, name = (
        _FOOTER.unpack_from(footer)
    )
    data_file, owner = DataFile(*described), name.rstrip(b"\x00")
    if (magic, version, owner) != (_MAGIC, INDEX_VERSION, bookie.encode("ascii")):
        return None
    length = _LEDGER_BYTES * ledger_count + _BLOCK_BYTES * block_count
    if data_file[:2] != (kind, number) or offset + length + FOOTER_BYTES != size:
        return None
    at = offset - start
    directory = tail[at : at + length] if at >= 0 else await file.read(offset, length)
    if len(directory) != length or crc32c(directory) != crc:
        return None
    found = IndexFile(file, data_file, offset)
    found.row_count = rows
    found.set_directory(directory, ledger_count, block_count)
    ledgers = LedgerColumns(
        read_column("Q", directory, 0, ledger_count),
        read_column("q", directory, 8 * ledger_count, ledger_count),
    )
    return found, ledgers


async def write_index_file(
    file: File,
    data_file: DataFile,
    bookie: BookieId,
    columns: Iterable[tuple[int, LedgerEntries]],
    pause: Pause,
) -> None:
    """Write the index file of ``data_file`` durably; ``columns`` yields the ledgers, rising.

    Raises DiskFullError, DiskFailedError.
    """
    ledgers = LedgerColumns(array("Q"), array("q"))
    directory: list[array[int]] = [array(typecode) for typecode in "QqQqQI"]
    buffers: list[bytes] = []
    offset = written = row_count = 0
    for block in blocks_of(_noted(columns, ledgers)):
        fields = (*block[:4], offset, crc32c(block.data))
        for column, value in zip(directory, fields, strict=True):
            column.append(value)
        offset += len(block.data)
        row_count += block.row_count
        buffers.append(block.data)
        if offset - written >= _WRITE_BYTES:
            await file.write(written, buffers)
            buffers, written = [], offset
        if len(directory[0]) % _BLOCKS_PER_PAUSE == 0:
            await pause()
    buffers.append(encode_directory(data_file, bookie, ledgers, directory, row_count, offset))
    await file.write_durable(written, buffers)


def encode_directory(
    data_file: DataFile,
    bookie: BookieId,
    ledgers: LedgerColumns,
    blocks: "Sequence[array[int]]",
    row_count: int,
    offset: int,
) -> bytes:
    """Return the directory and the footer, which stand at ``offset``.

    ``blocks`` are the columns of the blocks: first ledger and id, last ledger and id, offset, CRC.
    """
    tables = b"".join(map(column_bytes, (*ledgers, *blocks)))
    name = bookie.encode("ascii")
    counts = (row_count, len(ledgers.ledgers), len(blocks[0]), offset, crc32c(tables))
    footer = _FOOTER.pack(_MAGIC, INDEX_VERSION, *data_file, *counts, name)
    footer = footer.ljust(FOOTER_BYTES - _CRC.size, b"\x00")
    return tables + footer + _CRC.pack(crc32c(footer))


def _noted(
    columns: Iterable[tuple[int, LedgerEntries]], ledgers: LedgerColumns
) -> Iterator[tuple[int, LedgerEntries]]:
    """Yield the ledgers that have rows, and add each to ``ledgers``."""
    for ledger_id, rows in columns:
        if rows:
            ledgers.ledgers.append(ledger_id)
            ledgers.lasts.append(rows.last)
            yield ledger_id, rows

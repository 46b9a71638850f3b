"""A sorted file: the output of a compaction, with the entries of each ledger together.

A sorted file consists of slices; within a slice, the entries are ordered by ledger and entry id. It
has the format of a log file (log_format.py). The first group holds one record with the number of
bytes of each ledger, so that the garbage can be computed without reading the rest.
"""

from array import array
from itertools import accumulate

from crc32c import crc32c

from ...protocol.bookie_id import BookieId
from ...protocol.errors import DiskFullError
from ...runtime.disk import File
from ..index.ledger_entries import LedgerEntries
from ..ledger_records import sorted_ledgers_record
from .file_set import FileSet
from .log_format import (
    FILE_HEADER_BYTES,
    GROUP_HEADER_BYTES,
    OFFSET_BITS,
    RECORD_HEADER_BYTES,
    SORTED_KIND,
    FileHeader,
    GroupHeader,
    encode_file_header,
    encode_group_header,
    encode_record,
)

GROUP_BYTES = 512 << 10
_SYNC_BYTES = 128 << 10
"""Bytes written in one piece: a sync of the log waits for the piece that is being written."""


class SortedFile:
    """The properties of a sorted file that are kept in memory, whatever its number of ledgers.

    ``age`` orders the sorted files: those with newer entries have a higher one.
    """

    __slots__ = ("age", "counted_at", "end", "entry_bytes", "live_bytes", "number")

    def __init__(self, number: int, end: int, entry_bytes: int, age: int) -> None:
        self.number = number
        self.end = end
        self.age = age
        self.entry_bytes = entry_bytes
        """Bytes of all entries in the file, live or not."""
        self.live_bytes = entry_bytes
        """Bytes of the entries of live ledgers, when they were last counted."""
        self.counted_at = -1
        """``LedgerRecords.deletion_count`` when the live bytes were counted, -1 before."""


class SortedFileWriter:
    """Writes one sorted file, which is durable after ``finish``."""

    def __init__(self, files: FileSet, bookie: BookieId, number: int, generation: int) -> None:
        self._files = files
        self._header = FileHeader(SORTED_KIND, number, generation, 0, 0, 0, bookie)
        self._file: File | None = None
        self._offset = 0
        self._group_number = 0
        self._previous = (0, 0)
        self._buffers: list[bytes | memoryview] = []
        self._body_bytes = 0
        self._count = 0
        self.number = number
        self.generation = generation

    async def begin(self, ledger_bytes: dict[int, int], entry_count: int) -> None:
        """Creates the file for the entries of ``ledger_bytes``, with the space that they need.

        Raises DiskFullError, DiskFailedError.
        """
        record = encode_record(sorted_ledgers_record(ledger_bytes), is_state=True)
        size = len(record) + sum(ledger_bytes.values()) + RECORD_HEADER_BYTES * entry_count
        size += FILE_HEADER_BYTES + GROUP_HEADER_BYTES * (2 + size // GROUP_BYTES)
        try:
            self._file = await self._files.create(SORTED_KIND, self.number, size)
        except DiskFullError as error:
            raise DiskFullError(f"a sorted file of {size} bytes does not fit: {error}") from error
        await self._file.write(0, [encode_file_header(self._header)])
        self._offset = FILE_HEADER_BYTES
        self._buffers.append(record)
        self._body_bytes += len(record)
        self._count += 1
        await self.flush()

    def add(
        self, source: memoryview, base: int, rows: LedgerEntries, *, is_in_order: bool
    ) -> "array[int]":
        """Appends the records of ``rows`` from ``source``, whose first byte has position ``base``.

        ``is_in_order`` means that the positions of the rows rise. Returns the positions in this
        file. The caller must call ``flush`` when ``is_full``.
        """
        head = RECORD_HEADER_BYTES
        positions, lengths = rows.positions, rows.lengths
        size = sum(lengths) + head * len(rows)
        start = positions[0] - base - head
        # Records do not overlap, so rows in order whose sizes add up to their span have no gaps.
        is_run = positions[-1] + lengths[-1] - positions[0] + head == size
        if is_run and is_in_order:
            self._buffers.append(source[start : start + size])
        else:
            base += head
            self._buffers += [
                source[position - base : position - base + length + head]
                for position, length in zip(positions, lengths, strict=True)
            ]
        at = self._offset + GROUP_HEADER_BYTES + self._body_bytes + head
        first = self.number << OFFSET_BITS | at
        steps = [length + head for length in lengths]
        steps.pop()
        self._body_bytes += size
        self._count += len(rows)
        return array("Q", accumulate(steps, initial=first))

    @property
    def is_full(self) -> bool:
        """True if the current group has reached its size."""
        return self._body_bytes >= GROUP_BYTES

    async def finish(self) -> int:
        """Makes the file and its name durable; returns the end of the file."""
        assert self._file is not None
        if self._count:
            await self.flush()
        await self._file.truncate(self._offset)
        await self._file.sync()
        await self._files.sync_directory(SORTED_KIND)
        self._files.seal(self.number)
        return self._offset

    async def flush(self) -> None:
        """Writes the group and syncs each piece, as unsynced bytes would delay the log's syncs."""
        assert self._file is not None
        body = b"".join(self._buffers)
        crc = crc32c(body)
        header = encode_group_header(
            GroupHeader(
                self._count,
                self._header.generation,
                self._group_number,
                *self._previous,
                len(body),
                crc,
            )
        )
        group = header + body
        for at in range(0, len(group), _SYNC_BYTES):
            part = group[at : at + _SYNC_BYTES]
            await self._file.write_durable(self._offset + at, [part])
        self._offset += len(group)
        self._group_number += 1
        self._previous = (len(body), crc)
        self._buffers.clear()
        self._body_bytes = self._count = 0

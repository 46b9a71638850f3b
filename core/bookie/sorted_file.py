"""A sorted file: entries of many ledgers, each ledger's together and in order.

Its form is that of a log file (groups.py). The first group holds one record that says how many
bytes each ledger has here, so that garbage can be told without reading the rest.
"""

from collections.abc import Container
from dataclasses import dataclass

from crc32c import crc32c

from ..protocol.bookie_id import BookieId
from ..runtime.disk import File
from .files import LogFiles
from .groups import (
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
from .index import IndexedEntry
from .ledger_state import sorted_ledgers_record

GROUP_BYTES = 1 << 20


@dataclass(slots=True)
class SortedFile:
    """What is known of one in memory."""

    number: int
    end: int
    ledger_bytes: dict[int, int]

    @property
    def entry_bytes(self) -> int:
        """Bytes of all its entries, live or not."""
        return sum(self.ledger_bytes.values())

    def live_bytes(self, live: Container[int]) -> int:
        """Bytes of ledgers that are in ``live``."""
        return sum(size for ledger, size in self.ledger_bytes.items() if ledger in live)


class SortedFileWriter:
    """Writes one sorted file, entry by entry; durable after ``finish``."""

    def __init__(self, files: LogFiles, bookie: BookieId, number: int, generation: int) -> None:
        self._files = files
        self._header = FileHeader(SORTED_KIND, number, generation, 0, 0, 0, bookie)
        self._file: File | None = None
        self._offset = 0
        self._group_number = 0
        self._previous = (0, 0)
        self._buffers: list[bytes] = []
        self._body_bytes = 0
        self._count = 0
        self.number = number
        self.rows: list[IndexedEntry] = []
        """Where each entry stands now."""

    async def begin(self, ledger_bytes: dict[int, int], allocate_bytes: int) -> None:
        """Creates the file. Raises DiskFullError, DiskFailedError."""
        self._file = await self._files.create(SORTED_KIND, self.number, allocate_bytes)
        await self._file.write(0, [encode_file_header(self._header)])
        self._offset = FILE_HEADER_BYTES
        self._append(encode_record(sorted_ledgers_record(ledger_bytes), is_state=True))
        await self._flush()

    async def add(self, ledger_id: int, entry_id: int, entry: bytes) -> None:
        """Appends an entry."""
        offset = self._offset + GROUP_HEADER_BYTES + self._body_bytes + RECORD_HEADER_BYTES
        position = self.number << OFFSET_BITS | offset
        self.rows.append(IndexedEntry(ledger_id, entry_id, position, len(entry)))
        self._append(encode_record(entry))
        if self._body_bytes >= GROUP_BYTES:
            await self._flush()

    async def finish(self) -> int:
        """Makes the file and its name durable; returns where it ends."""
        assert self._file is not None
        if self._count:
            await self._flush()
        await self._file.truncate(self._offset)
        await self._file.sync()
        await self._files.sync_directory(SORTED_KIND)
        self._files.seal(self.number)
        return self._offset

    def _append(self, record: bytes) -> None:
        self._buffers.append(record)
        self._body_bytes += len(record)
        self._count += 1

    async def _flush(self) -> None:
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
        await self._file.write(self._offset, [header, body])
        self._offset += GROUP_HEADER_BYTES + len(body)
        self._group_number += 1
        self._previous = (len(body), crc)
        self._buffers.clear()
        self._body_bytes = self._count = 0

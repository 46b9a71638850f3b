"""A log file that is being written: its end, the chain of its groups, and padding.

A sync of appended bytes also writes the file's new length and blocks to the journal of the file
system. A sync of bytes that replace synced zeros writes nothing else, which takes about two thirds
of the time. So a small group that reaches beyond the padding is followed by new padding: zeros in
the space that was reserved for the file, in the same write. Large groups are not padded, because
zeros would double what they write. A small group after a large one is not padded either, because
the next large one would make the padding useless. A file is cut at its end before another file
continues it.
"""

from collections.abc import Sequence

from crc32c import crc32c

from ...runtime.disk import File
from .log_format import (
    FILE_HEADER_BYTES,
    GROUP_HEADER_BYTES,
    FileHeader,
    GroupHeader,
    encode_file_header,
    encode_group_header,
)

PADDING_BYTES = 192 << 10
"""With a small group, this is still written by the event loop itself (server/inline_write.py)."""
_PADDED_GROUP_BYTES_MAX = 8 << 10
"""The journal writes about as much for a sync that changes a file's length."""
_PADDINGS_MIN = 16
"""Paddings that fit at least into the reserved space."""


class LogFile:
    """A file that is open for appending groups, by one writer at a time.

    A failed write does not change ``end``. ``cut`` removes the bytes that it left after the end.
    ``reserved_bytes`` is the length up to which the file has space; without it nothing is padded.
    """

    __slots__ = (
        "_group_number",
        "_padded_end",
        "_previous",
        "_reserved_bytes",
        "end",
        "file",
        "generation",
        "number",
    )

    def __init__(
        self,
        file: File,
        number: int,
        generation: int,
        *,
        end: int = FILE_HEADER_BYTES,
        group_number: int = 0,
        previous: tuple[int, int] = (0, 0),
        reserved_bytes: int = 0,
    ) -> None:
        self.file = file
        self.number = number
        self.generation = generation
        self.end = end
        self._group_number = group_number
        self._previous = previous
        self._reserved_bytes = reserved_bytes
        self._padded_end = 0

    @property
    def place(self) -> tuple[int, int]:
        """The file's number and its end."""
        return self.number, self.end

    @property
    def last_crc(self) -> int:
        """The CRC of the last group's body, 0 if there is none."""
        return self._previous[1]

    async def write_header(self, header: FileHeader) -> None:
        """Writes the file header durably."""
        await self.file.write_durable(0, [encode_file_header(header)])

    async def append(self, buffers: Sequence[bytes], count: int, *, is_durable: bool) -> int:
        """Writes a group of ``count`` records; returns the offset of its body.

        Raises DiskFullError, DiskFailedError.
        """
        body = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        crc = crc32c(body)
        header = encode_group_header(
            GroupHeader(count, self.generation, self._group_number, *self._previous, len(body), crc)
        )
        start = self.end + GROUP_HEADER_BYTES
        end = start + len(body)
        if is_durable:
            padding = self._padding_after(end)
            parts = [header, body, padding] if padding else [header, body]
            await self.file.write_durable(self.end, parts)
            self._padded_end = max(self._padded_end, end + len(padding))
        else:
            await self.file.write(self.end, [header, body])
        self.end = end
        self._group_number += 1
        self._previous = (len(body), crc)
        return start

    def _padding_after(self, end: int) -> bytes:
        """Return the zeros that follow the group that ends at ``end``."""
        if end <= self._padded_end:
            return b""
        if max(end - self.end, self._previous[0]) > _PADDED_GROUP_BYTES_MAX:
            return b""
        left = self._reserved_bytes - end
        return bytes(max(0, min(PADDING_BYTES, self._reserved_bytes // _PADDINGS_MIN, left)))

    async def cut(self) -> None:
        """Durably removes everything after the last group, including reserved space."""
        self._reserved_bytes = self._padded_end = 0
        await self.file.truncate(self.end)
        await self.file.sync()

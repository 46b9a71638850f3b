"""A log file that is being written: its end, and the chain of its groups."""

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


class LogFile:
    """A file that is open for appending groups, by one writer at a time.

    A failed write does not change ``end``. ``cut`` removes the bytes that it left after the end.
    """

    __slots__ = ("_group_number", "_previous", "end", "file", "generation", "number")

    def __init__(
        self,
        file: File,
        number: int,
        generation: int,
        *,
        end: int = FILE_HEADER_BYTES,
        group_number: int = 0,
        previous: tuple[int, int] = (0, 0),
    ) -> None:
        self.file = file
        self.number = number
        self.generation = generation
        self.end = end
        self._group_number = group_number
        self._previous = previous

    @property
    def place(self) -> tuple[int, int]:
        """The file's number and its end."""
        return self.number, self.end

    @property
    def last_crc(self) -> int:
        """The CRC of the last group's body, 0 if there is none."""
        return self._previous[1]

    async def write_header(self, header: FileHeader) -> None:
        """Writes the file header, which is not durable yet."""
        await self.file.write(0, [encode_file_header(header)])

    async def append(self, buffers: Sequence[bytes], count: int, *, is_durable: bool) -> int:
        """Writes a group of ``count`` records; returns the offset of its body.

        Raises DiskFullError, DiskFailedError.
        """
        body = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        crc = crc32c(body)
        header = encode_group_header(
            GroupHeader(count, self.generation, self._group_number, *self._previous, len(body), crc)
        )
        write = self.file.write_durable if is_durable else self.file.write
        await write(self.end, [header, body])
        start = self.end + GROUP_HEADER_BYTES
        self.end = start + len(body)
        self._group_number += 1
        self._previous = (len(body), crc)
        return start

    async def cut(self) -> None:
        """Durably removes everything after the last group, including reserved space."""
        await self.file.truncate(self.end)
        await self.file.sync()

"""Reads records from standard input or a file.

A daemon thread reads the input, because a read of a terminal or pipe may block indefinitely and
must neither block the event loop nor prevent the process from exiting.
"""

import asyncio
import struct
import threading
from collections.abc import AsyncIterator
from typing import BinaryIO

from ....core.protocol.errors import InvalidArgumentError

LENGTH = struct.Struct(">I")
"""The encoding of the length before a length-prefixed record."""
_CHUNK_BYTES = 1 << 20
_CHUNKS_AHEAD = 4


async def read_chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the content of ``file`` in chunks as they arrive. Raises the OSError of a read."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(_CHUNKS_AHEAD)

    def read() -> None:
        chunk: bytes | OSError = b"-"
        while chunk and not isinstance(chunk, OSError):
            room.acquire()
            try:
                chunk = file.read1(_CHUNK_BYTES)  # type: ignore[attr-defined]
            except OSError as error:
                chunk = error
            if loop.is_closed():
                return
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)

    threading.Thread(target=read, name="input", daemon=True).start()
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise chunk
        room.release()
        yield chunk


async def read_records(
    file: BinaryIO, *, is_length_prefixed: bool, size_max: int
) -> AsyncIterator[list[bytes]]:
    """Yield batches of records: lines without line ends, or length-prefixed records.

    A length is 4 bytes, big-endian. Raises InvalidArgumentError for a record longer than
    ``size_max`` or an incomplete last record.
    """
    split = _split_prefixed if is_length_prefixed else _split_lines
    rest = b""
    async for chunk in read_chunks(file):
        records, rest = split(rest + chunk, size_max)
        longest = max(map(len, records), default=0)
        if max(longest, len(rest) - LENGTH.size) > size_max:
            raise InvalidArgumentError(
                f"a line is longer than {size_max} bytes, the maximum of a record"
            )
        if records:
            yield records
    if rest and is_length_prefixed:
        raise InvalidArgumentError(f"the input ends within a record ({len(rest)} bytes are left)")
    if len(rest) > size_max:
        raise InvalidArgumentError(
            f"the last line is longer than {size_max} bytes, the maximum of a record"
        )
    if rest:
        yield [rest]


def _split_lines(data: bytes, size_max: int) -> tuple[list[bytes], bytes]:
    lines = data.split(b"\n")
    return lines[:-1], lines[-1]


def _split_prefixed(data: bytes, size_max: int) -> tuple[list[bytes], bytes]:
    records = []
    at = 0
    while at + LENGTH.size <= len(data):
        (length,) = LENGTH.unpack_from(data, at)
        if length > size_max:
            raise InvalidArgumentError(
                f"a length prefix of {length} bytes is above a record's limit of {size_max} bytes: "
                "is this input length-prefixed?"
            )
        end = at + LENGTH.size + length
        if end > len(data):
            break
        records.append(data[at + LENGTH.size : end])
        at = end
    return records, data[at:]

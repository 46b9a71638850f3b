"""A disk that records for the checker when each record became durable.

It extends the production disk: after each sync it writes a line for every record that the sync
covered. The checker therefore knows which bookies held a record durably when it was acknowledged,
as it does in the simulator. The disk can also be slowed: while a file with the suffix ``.slow``
exists next to the notes, each sync takes longer by the factor in that file.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

from .....core.runtime.disk import File
from .....server.posix_disk import PosixDisk
from ....checker.history import TOKEN

_EXTRA_DELAY_S_MAX = 0.5


class DurabilityRecorderDisk(PosixDisk):
    """A ``PosixDisk`` that writes ``ms token`` lines to ``notes``."""

    def __init__(self, root: Path, notes: Path) -> None:
        super().__init__(root)
        self._notes = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
        self._slow = slow_file(notes)

    async def open(self, path: str, *, create: bool = False, allocate_bytes: int = 0) -> File:
        """See ``Disk``."""
        file = await super().open(path, create=create, allocate_bytes=allocate_bytes)
        return _RecordingFile(file, self._notes, self._slow)

    def close(self) -> None:
        """See ``PosixDisk``."""
        if not self._is_closed:
            os.close(self._notes)
        super().close()


class _RecordingFile:
    """A file that logs the records that each of its syncs made durable."""

    def __init__(self, file: File, notes: int, slow: Path) -> None:
        self._file = file
        self._notes = notes
        self._slow = slow
        self._written: list[bytes] = []

    @property
    def path(self) -> str:
        return self._file.path

    async def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        await self._file.write(offset, buffers)
        self._written += _tokens(buffers)

    async def write_durable(self, offset: int, buffers: Sequence[bytes]) -> None:
        started = time.monotonic()
        await self._file.write_durable(offset, buffers)
        await self._slow_down(time.monotonic() - started)
        self._note(_tokens(buffers))

    async def sync(self) -> None:
        written, self._written = self._written, []
        started = time.monotonic()
        await self._file.sync()
        await self._slow_down(time.monotonic() - started)
        self._note(written)

    async def read(self, offset: int, length: int) -> bytes:
        return await self._file.read(offset, length)

    async def size(self) -> int:
        return await self._file.size()

    async def truncate(self, length: int) -> None:
        await self._file.truncate(length)

    async def close(self) -> None:
        await self._file.close()

    async def _slow_down(self, took_s: float) -> None:
        if self._slow.exists():
            factor = float(self._slow.read_text() or 1)
            await asyncio.sleep(min(_EXTRA_DELAY_S_MAX, took_s * (factor - 1)))

    def _note(self, tokens: list[bytes]) -> None:
        if tokens:
            now_ms = b"%.3f" % (time.monotonic() * 1000)
            os.write(self._notes, b"".join(b"%b %b\n" % (now_ms, token) for token in tokens))


def _tokens(buffers: Sequence[bytes]) -> list[bytes]:
    return TOKEN.findall(b"".join(bytes(buffer) for buffer in buffers))


def slow_file(notes: Path) -> Path:
    """Return the file that slows the disk down while it exists; it contains the factor."""
    return notes.with_suffix(".slow")


def read_notes(notes: Path) -> dict[bytes, float]:
    """Return by token the time in ms at which the record first became durable."""
    found: dict[bytes, float] = {}
    if notes.exists():
        for line in notes.read_bytes().splitlines():
            at, _, token = line.partition(b" ")
            found.setdefault(token, float(at))
    return found

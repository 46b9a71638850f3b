"""A disk that notes which records are durable, and since when, for the checker.

It is the production disk; every sync that has returned is followed by a line for each record in
what it covered. So the checker knows, at the moment of each acknowledgement, which bookies had the
record for good, as it does in the simulator. A slow disk is one whose syncs return late: while
there is a file beside the notes, ``.slow``, they take so many times as long as it says.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

from .....core.runtime.disk import File
from .....server.posix_disk import PosixDisk
from ....checker.history import TOKEN

_DAWDLE_S_MAX = 0.5


class DurabilityRecorderDisk(PosixDisk):
    """A ``PosixDisk`` that writes ``ms token`` lines to ``notes``."""

    def __init__(self, root: Path, notes: Path) -> None:
        super().__init__(root)
        self._notes = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
        self._slow = slow_file(notes)

    async def open(self, path: str, *, create: bool = False, allocate_bytes: int = 0) -> File:
        """See ``Disk``."""
        file = await super().open(path, create=create, allocate_bytes=allocate_bytes)
        return _WitnessFile(file, self._notes, self._slow)

    def close(self) -> None:
        """See ``PosixDisk``."""
        if not self._is_closed:
            os.close(self._notes)
        super().close()


class _WitnessFile:
    """A file whose syncs are noted."""

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
        began = time.monotonic()
        await self._file.write_durable(offset, buffers)
        await self._dawdle(time.monotonic() - began)
        self._note(_tokens(buffers))

    async def sync(self) -> None:
        written, self._written = self._written, []
        began = time.monotonic()
        await self._file.sync()
        await self._dawdle(time.monotonic() - began)
        self._note(written)

    async def read(self, offset: int, length: int) -> bytes:
        return await self._file.read(offset, length)

    async def size(self) -> int:
        return await self._file.size()

    async def truncate(self, length: int) -> None:
        await self._file.truncate(length)

    async def close(self) -> None:
        await self._file.close()

    async def _dawdle(self, took_s: float) -> None:
        if self._slow.exists():
            times = float(self._slow.read_text() or 1)
            await asyncio.sleep(min(_DAWDLE_S_MAX, took_s * (times - 1)))

    def _note(self, tokens: list[bytes]) -> None:
        if tokens:
            now_ms = b"%.3f" % (time.monotonic() * 1000)
            os.write(self._notes, b"".join(b"%b %b\n" % (now_ms, token) for token in tokens))


def _tokens(buffers: Sequence[bytes]) -> list[bytes]:
    return TOKEN.findall(b"".join(bytes(one) for one in buffers))


def slow_file(notes: Path) -> Path:
    """Holds how many times as long syncs take, while it is there."""
    return notes.with_suffix(".slow")


def read_notes(notes: Path) -> dict[bytes, float]:
    """Token to the ms at which it was durable first."""
    found: dict[bytes, float] = {}
    if notes.exists():
        for line in notes.read_bytes().splitlines():
            at, _, token = line.partition(b" ")
            found.setdefault(token, float(at))
    return found

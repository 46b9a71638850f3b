"""A disk in memory for tests of the bookie, with faults, limits and counters."""

import asyncio
from collections.abc import Sequence
from itertools import count

from rhumbline.core.protocol.errors import DiskFailedError, DiskFullError


class MemoryFile:
    """An open file; several open files may share their contents."""

    def __init__(self, disk: "MemoryDisk", path: str) -> None:
        self._disk = disk
        self._path = path
        self._content = disk.files[path]

    @property
    def path(self) -> str:
        return self._path

    async def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        await asyncio.sleep(0)
        self._write(offset, buffers)

    def _write(self, offset: int, buffers: Sequence[bytes]) -> None:
        data = b"".join(buffers)
        if self._disk.is_failing:
            raise DiskFailedError(f"{self._path}: I/O error")
        if self._disk.room is not None:
            if len(data) > self._disk.room:
                self._content[offset:] = data[: self._disk.room]
                raise DiskFullError(f"{self._path}: no space left")
            self._disk.room -= len(data)
        if offset > len(self._content):
            self._content.extend(bytes(offset - len(self._content)))
        self._content[offset : offset + len(data)] = data

    async def write_durable(self, offset: int, buffers: Sequence[bytes]) -> None:
        await asyncio.sleep(0)
        size = sum(map(len, buffers))
        self._disk.gated_bytes += size
        while self._disk.gate is not None:
            await self._disk.gate.wait()
        self._disk.gated_bytes -= size
        self._write(offset, buffers)
        self._disk.sync_count += 1

    async def sync(self) -> None:
        await asyncio.sleep(0)
        if self._disk.is_failing:
            raise DiskFailedError(f"{self._path}: I/O error")
        self._disk.sync_count += 1

    async def read(self, offset: int, length: int) -> bytes:
        await asyncio.sleep(self._disk.read_s)
        if self._disk.read_gate is not None:
            await self._disk.read_gate.wait()
        self._disk.read_count += 1
        return bytes(self._content[offset : offset + length])

    async def size(self) -> int:
        return len(self._content)

    async def truncate(self, length: int) -> None:
        if length < len(self._content):
            del self._content[length:]
        else:
            self._content.extend(bytes(length - len(self._content)))

    async def close(self) -> None:
        pass


_identities = count(1)


def _new_identity() -> str:
    return str(next(_identities))


class MemoryDisk:
    """Files by path, in memory.

    ``gate`` is an event for which durable writes of ``gated_bytes`` wait, ``room`` the free space
    in bytes, ``read_s`` the duration of a read in seconds, ``read_gate`` an event for which reads
    wait.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.directories: set[str] = {""}
        self.identities: dict[str, str] = {}
        self.gate: asyncio.Event | None = None
        self.gated_bytes = 0
        self.is_failing = False
        self.room: int | None = None
        self.read_s = 0.0
        self.read_gate: asyncio.Event | None = None
        self.sync_count = 0
        self.read_count = 0

    def copy(self) -> "MemoryDisk":
        """Return a copy of the files, as another process would find them after a kill."""
        other = MemoryDisk()
        other.files = {path: bytearray(content) for path, content in self.files.items()}
        other.directories = set(self.directories)
        other.identities = dict(self.identities)
        return other

    def restored(self) -> "MemoryDisk":
        """Return a copy whose files are other ones, as a backup of files is restored."""
        other = self.copy()
        other.identities.clear()
        return other

    async def open(self, path: str, *, create: bool = False, allocate_bytes: int = 0) -> MemoryFile:
        if create:
            if path in self.files:
                raise DiskFailedError(f"{path} exists")
            if self.room is not None and allocate_bytes > self.room:
                raise DiskFullError(f"{path}: no space left")
            self.files[path] = bytearray()
        elif path not in self.files:
            raise FileNotFoundError(path)
        return MemoryFile(self, path)

    async def list(self, path: str) -> list[str]:
        if path not in self.directories:
            raise FileNotFoundError(path)
        prefix = path + "/" if path else ""
        names = {
            name[len(prefix) :].split("/")[0]
            for name in [*self.files, *self.directories]
            if name.startswith(prefix) and name != path
        }
        return sorted(names)

    async def make_directory(self, path: str) -> None:
        parts = path.split("/")
        self.directories.update("/".join(parts[: i + 1]) for i in range(len(parts)))

    async def rename(self, old: str, new: str) -> None:
        self.files[new] = self.files.pop(old)
        self.identities[new] = self.identities.pop(old, "") or _new_identity()

    async def remove(self, path: str) -> None:
        if path not in self.files:
            raise FileNotFoundError(path)
        del self.files[path]
        self.identities.pop(path, None)

    async def file_identity(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.identities.setdefault(path, _new_identity())

    async def sync_directory(self, path: str) -> None:
        pass

    async def free_bytes(self) -> int:
        return 1 << 40 if self.room is None else self.room

    async def total_bytes(self) -> int:
        return 1 << 41

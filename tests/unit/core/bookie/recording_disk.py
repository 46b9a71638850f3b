"""A disk in memory that records what is done to it, in order."""

from collections.abc import Sequence

from rhumbline.core.protocol.errors import DiskFullError
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk, MemoryFile

Operation = tuple[str | int, ...]
"""What was done (a name of ``File`` or ``Disk``), the path, and an offset or a length."""


class RecordingFile(MemoryFile):
    """A file that adds its operations to those of its disk."""

    def __init__(self, disk: "RecordingDisk", path: str) -> None:
        super().__init__(disk, path)
        self._operations = disk.operations
        self._full_paths = disk.full_paths

    def _write(self, offset: int, buffers: Sequence[bytes]) -> None:
        if self.path in self._full_paths:
            raise DiskFullError(f"{self.path}: no space left")
        super()._write(offset, buffers)

    async def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        self._operations.append(("write", self.path, offset))
        await super().write(offset, buffers)

    async def write_durable(self, offset: int, buffers: Sequence[bytes]) -> None:
        self._operations.append(("write_durable", self.path, offset))
        await super().write_durable(offset, buffers)

    async def sync(self) -> None:
        self._operations.append(("sync", self.path))
        await super().sync()

    async def read(self, offset: int, length: int) -> bytes:
        self._operations.append(("read", self.path, offset, length))
        return await super().read(offset, length)

    async def truncate(self, length: int) -> None:
        self._operations.append(("truncate", self.path, length))
        await super().truncate(length)

    async def close(self) -> None:
        self._operations.append(("close", self.path))


class RecordingDisk(MemoryDisk):
    """Files in memory, and what was done to them. There is no space for ``full_paths``."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.full_paths: set[str] = set()

    def taken(self, *kinds: str) -> list[Operation]:
        """Return the operations of these kinds (all, if none is named) and begins a new record."""
        found = [done for done in self.operations if not kinds or done[0] in kinds]
        self.operations.clear()
        return found

    async def open(
        self, path: str, *, create: bool = False, allocate_bytes: int = 0
    ) -> RecordingFile:
        if create:
            self.operations.append(("create", path, allocate_bytes))
        await super().open(path, create=create, allocate_bytes=allocate_bytes)
        return RecordingFile(self, path)

    async def make_directory(self, path: str) -> None:
        self.operations.append(("make_directory", path))
        await super().make_directory(path)

    async def rename(self, old: str, new: str) -> None:
        self.operations.append(("rename", old, new))
        await super().rename(old, new)

    async def remove(self, path: str) -> None:
        self.operations.append(("remove", path))
        await super().remove(path)

    async def sync_directory(self, path: str) -> None:
        self.operations.append(("sync_directory", path))

"""The disk interface: durable operations on the files below one directory.

An implementation MUST provide the following guarantees, and a caller must not assume more: the
simulator's disk violates every other assumption on purpose.

1. Durability of bytes. Written bytes are durable once ``sync`` or ``write_durable`` has returned
   without an error. Before that, a crash may keep any subset of them, torn at any byte.
2. Durability of names. The creation, renaming or removal of a file is durable once
   ``sync_directory`` has returned for its directory. Before that, a crash may undo any of them, in
   any combination.
3. Failed syncs. After a failed sync the state of the unsynced bytes is unknown, because operating
   systems drop dirty pages on an error. The caller must read the file again before it trusts it.
4. Paths. A path is relative to the disk's directory, with ``/`` between its parts. A part ``..`` is
   rejected.
5. Blocking. Every method that may wait is a coroutine; none blocks the event loop.
"""

from collections.abc import Sequence
from typing import Protocol


class File(Protocol):
    """An open file. The caller issues one write at a time; reads may run concurrently with it."""

    @property
    def path(self) -> str:
        """The path that the file was opened with."""
        ...

    async def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write the buffers one after the other, beginning at ``offset``; they are not durable yet.

        Raises DiskFullError or DiskFailedError; any part may have been written then.
        """
        ...

    async def write_durable(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write as ``write`` does, then sync: the bytes are durable on return.

        Raises DiskFullError or DiskFailedError; any part may have been written then.
        """
        ...

    async def sync(self) -> None:
        """Make everything written so far durable, data and size. Raises DiskFailedError."""
        ...

    async def read(self, offset: int, length: int) -> bytes:
        """Read up to ``length`` bytes from ``offset`` on; fewer only at the end of the file.

        Raises DiskFailedError.
        """
        ...

    async def size(self) -> int:
        """Return the length of the file in bytes."""
        ...

    async def truncate(self, length: int) -> None:
        """Cut the file, or extend it with zeros, to ``length`` bytes; durable after ``sync``."""
        ...

    async def close(self) -> None:
        """Release the file without syncing it. Safe to repeat."""
        ...


class Disk(Protocol):
    """A directory tree that one component owns exclusively."""

    async def open(self, path: str, *, create: bool = False, allocate_bytes: int = 0) -> File:
        """Open a file for reading and writing.

        ``create`` creates the file, and raises DiskFailedError if it exists. ``allocate_bytes``
        reserves space without changing the result of ``size``. Raises FileNotFoundError,
        DiskFullError, DiskFailedError.
        """
        ...

    async def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted. Raises FileNotFoundError."""
        ...

    async def make_directory(self, path: str) -> None:
        """Create the directory and its parents, if they do not exist."""
        ...

    async def rename(self, old: str, new: str) -> None:
        """Rename a file atomically, replacing ``new`` if it exists."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file. Raises FileNotFoundError."""
        ...

    async def file_identity(self, path: str) -> str:
        """Return a string that identifies the file itself, whatever its path and contents.

        It stays the same until the file is removed, across restarts too. Every other file has
        another identity, also a copy that took its place. Raises FileNotFoundError,
        DiskFailedError.
        """
        ...

    async def sync_directory(self, path: str) -> None:
        """Make all creations, renames and removals of names in ``path`` durable."""
        ...

    async def free_bytes(self) -> int:
        """Return the space left for new data, in bytes."""
        ...

    async def total_bytes(self) -> int:
        """Return the capacity of the device in bytes, used and free."""
        ...

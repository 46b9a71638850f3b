"""The disk as the service sees it: a few durable operations on files under one directory.

Contract (the simulator's disk is built to break whoever assumes more):

1. bytes written are durable only after ``sync`` (or ``write_durable``) has returned without error;
   before that a crash may keep any subset of them, torn anywhere;
2. creation, rename and removal of a name are durable only after ``sync_directory``; before that
   a crash may undo any of them, in any combination;
3. after a failed sync the state of the unsynced bytes is unknown: the file must not be trusted
   again without reading it (the operating system drops dirty pages on error);
4. paths are relative to the disk's directory, with ``/`` between parts; ``..`` is refused.

All waits are the disk's: methods are coroutines and never block the loop.
"""

from collections.abc import Sequence
from typing import Protocol


class File(Protocol):
    """An open file. One writer at a time; reads may run beside it."""

    @property
    def path(self) -> str:
        """The path it was opened with."""
        ...

    async def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Writes the buffers one after the other at ``offset``; not durable yet.

        Raises DiskFullError or DiskFailedError; then any part may have been written.
        """
        ...

    async def write_durable(self, offset: int, buffers: Sequence[bytes]) -> None:
        """``write`` and ``sync`` in one hop: durable when it returns."""
        ...

    async def sync(self) -> None:
        """Makes everything written so far durable (data and size). Raises DiskFailedError."""
        ...

    async def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end of the file."""
        ...

    async def size(self) -> int:
        """Length in bytes."""
        ...

    async def truncate(self, length: int) -> None:
        """Cuts or extends (with zeros) to ``length``; durable after ``sync``."""
        ...

    async def close(self) -> None:
        """Releases the file. Does not sync. Safe to repeat."""
        ...


class Disk(Protocol):
    """A directory tree that one component owns."""

    async def open(self, path: str, *, create: bool = False, allocate_bytes: int = 0) -> File:
        """Opens for reading and writing.

        ``create`` makes the file, and refuses with DiskFailedError when it exists.
        ``allocate_bytes`` reserves space without changing what ``size`` says.
        Raises FileNotFoundError, DiskFullError, DiskFailedError.
        """
        ...

    async def list(self, path: str) -> list[str]:
        """Names in a directory, sorted. Raises FileNotFoundError."""
        ...

    async def make_directory(self, path: str) -> None:
        """Makes the directory and its parents; no error when it is there."""
        ...

    async def rename(self, old: str, new: str) -> None:
        """Atomically moves a file over ``new``."""
        ...

    async def remove(self, path: str) -> None:
        """Removes a file. Raises FileNotFoundError."""
        ...

    async def sync_directory(self, path: str) -> None:
        """Makes creations, renames and removals of names in ``path`` durable."""
        ...

    async def free_bytes(self) -> int:
        """Space left for new data."""
        ...

    async def total_bytes(self) -> int:
        """Capacity of the device, used and free."""
        ...

"""A host's disk, which guarantees exactly the contract of ``core.runtime.disk``.

Every file has two contents: what readers see (the page cache) and what the medium holds. A write
changes the first and is kept as pending; a sync applies the pending writes to the second. A power
failure leaves the medium, a random subset of the pending writes, each whole or torn, and a random
subset of the pending name changes. A killed process loses nothing that was written, but its last
calls may have happened in part.

Data belongs to the host: a restarted process finds it through a new ``SimDisk`` handle of the same
``DiskImage``. Kinds of operations and paths are part of the fingerprint of a run.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Literal, TypeVar
from zlib import crc32

from ....core.protocol.errors import (
    ClosedError,
    DiskFailedError,
    DiskFullError,
    InvalidArgumentError,
)
from ....core.runtime.disk import File
from .loop import SimLoop
from .trace import Trace

T = TypeVar("T")
Names = list[str]

SECTOR_BYTES = 512
PAGE_BYTES = 4096
_BEAT_DISK = 20
_DIGITS = re.compile(r"\d+")


class Inode:
    """A file's contents: ``cached`` (what reads return), ``durable``, and the pending writes."""

    __slots__ = ("cached", "durable", "number", "on_durable", "pending", "settled")

    def __init__(self, number: int, on_durable: Callable[[bytes], None]) -> None:
        self.number = number
        self.on_durable = on_durable
        self.cached = bytearray()
        self.durable = bytearray()
        self.pending: list[
            tuple[int, bytes | None]
        ] = []  # (offset, data); None: truncate to offset
        self.settled = 0  # number of writes before the first pending one

    @property
    def mark(self) -> int:
        """Number of writes so far, all of which a sync that starts now covers."""
        return self.settled + len(self.pending)

    def write(self, offset: int, data: bytes) -> None:
        """Write to the cache."""
        _apply(self.cached, offset, data)
        self.pending.append((offset, data))

    def truncate(self, length: int) -> None:
        """Truncate in the cache."""
        _apply(self.cached, length, None)
        self.pending.append((length, None))

    def sync(self, mark: int) -> None:
        """Apply the writes before ``mark`` to the medium."""
        count = max(0, mark - self.settled)
        for offset, data in self.pending[:count]:
            _apply(self.durable, offset, data)
            if data is not None:
                self.on_durable(data)
        self.drop_pending(mark)

    def drop_pending(self, mark: int) -> None:
        """Remove the writes before ``mark`` from the pending ones, whether durable or not."""
        count = max(0, mark - self.settled)
        del self.pending[:count]
        self.settled += count

    def lose_power(self, random: Random) -> None:
        """Keep, lose or tear each pending write at random."""
        for offset, data in self.pending:
            draw = random.randrange(4)
            if draw == 0:
                continue
            if data is None or draw == 1:
                _apply(self.durable, offset, data)
                self.on_durable(data or b"")
            elif draw == 2:  # only a prefix, of any number of bytes
                _apply(self.durable, offset, data[: random.randrange(len(data) + 1)])
            else:
                _apply_some_sectors(self.durable, offset, data, random)
        self.drop_pending(self.mark)
        self.cached = bytearray(self.durable)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if data is not None:
        content[offset : offset + len(data)] = data


def _apply_some_sectors(content: bytearray, offset: int, data: bytes, random: Random) -> None:
    """Write a random subset of the sectors; the file may have grown or not."""
    start = 0
    while start < len(data):
        end = min(len(data), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
        if random.random() < 0.5:
            _apply(content, offset + start, data[start:end])
        start = end


@dataclass(frozen=True, slots=True)
class _NameChange:
    """A pending change in one directory: ``name`` refers to ``inode`` (None: is removed).

    ``moved_from`` is the old name of a rename inside one directory, which changes both names at
    once.
    """

    directory: str
    name: str
    inode: Inode | None
    moved_from: str | None = None


@dataclass(slots=True)
class DiskHealth:
    """The faults of a disk that are active now."""

    is_lying: bool = False  # syncs succeed without making anything durable
    slowness: float = 1.0  # factor on latency
    sync_failures: int = 0  # number of the next syncs that fail
    write_failures: int = 0
    read_failures: int = 0


@dataclass(frozen=True, slots=True)
class DiskBackup:
    """A copy of all files of a disk, as readers saw them at one moment."""

    files: dict[str, tuple[int, bytes]]
    """The number of the inode and the contents of each file."""
    directories: tuple[str, ...]


class DiskImage:
    """The data of one host's disk, shared by all processes that ever use it."""

    def __init__(
        self, loop: SimLoop, random: Random, trace: Trace, name: str, capacity_bytes: int
    ) -> None:
        self.loop = loop
        self.random = random
        self.trace = trace
        self.name = name
        self.capacity_bytes = capacity_bytes
        self.health = DiskHealth()
        self.operations = 0
        self.on_operation: Callable[[str, str], None] | None = None
        self.on_durable: Callable[[bytes], None] | None = None
        """Receives every piece of data when it becomes durable."""
        self.context = Context()  # the device works independently of any process
        self.under_way: dict[int, _Operation] = {}
        self.generation = 0
        self.lost_roots: dict[str, None] = {}
        """The roots of handles whose directories have failed for good (``lose_root``)."""
        self._inode_count = 0
        self.format()

    def format(self) -> None:
        """Empty the disk at once, durably."""
        self.names: dict[str, Inode] = {}
        self.directories: dict[str, None] = {"": None}
        self._durable_names: dict[str, Inode] = {}
        self._durable_directories: dict[str, None] = {"": None}
        self._changes: list[_NameChange] = []
        self._reserved: dict[int, int] = {}
        self.lost_roots = {}
        self.under_way.clear()
        self.generation += 1

    def new_inode(self) -> Inode:
        """Return a new empty file without a name."""
        self._inode_count += 1
        return Inode(self._inode_count, self._durable)

    def _durable(self, data: bytes) -> None:
        if self.on_durable is not None:
            self.on_durable(data)

    def used_bytes(self) -> int:
        """Return the space that is used by files or reserved for them."""
        reserved = self._reserved
        return sum(
            max(len(inode.cached), reserved.get(inode.number, 0))
            for inode in dict.fromkeys(self.names.values())
        )

    def reserve(self, inode: Inode, size: int) -> None:
        """Reserve ``size`` bytes for a file."""
        self._reserved[inode.number] = size

    def room_for(self, inode: Inode, end: int) -> bool:
        """Return whether the file may grow to ``end`` bytes."""
        taken = max(len(inode.cached), self._reserved.get(inode.number, 0))
        return end <= taken or self.used_bytes() - taken + end <= self.capacity_bytes

    # --- names ----------------------------------------------------------------------------------

    def set_name(self, path: str, inode: Inode | None, moved_from: str | None = None) -> None:
        """Set or remove (None) a name; durable after its directory was synced."""
        directory = path.rpartition("/")[0]
        if moved_from is not None:
            del self.names[moved_from]
            old_directory = moved_from.rpartition("/")[0]
            if old_directory != directory:
                self._changes.append(_NameChange(old_directory, moved_from, None))
                moved_from = None
        if inode is None:
            del self.names[path]
        else:
            self.names[path] = inode
        self._changes.append(_NameChange(directory, path, inode, moved_from))

    def sync_directory(self, directory: str) -> None:
        """Make the pending name changes in ``directory`` durable."""
        for change in self._changes:
            if change.directory == directory:
                self._make_durable(change)
        self._changes = [c for c in self._changes if c.directory != directory]
        self._durable_directories.update(dict.fromkeys(self.directories))

    def _make_durable(self, change: _NameChange) -> None:
        if change.moved_from is not None:
            self._durable_names.pop(change.moved_from, None)
        if change.inode is None:
            self._durable_names.pop(change.name, None)
        else:
            self._durable_names[change.name] = change.inode

    # --- faults ---------------------------------------------------------------------------------

    def lose_root(self, root: str) -> None:
        """Lose a directory for good, as if it were a disk of its own: every call there fails."""
        self.lost_roots[root] = None
        for names in (self.names, self._durable_names):
            for path in [path for path in names if path.startswith(f"{root}/")]:
                del names[path]
        self._changes = [c for c in self._changes if not c.name.startswith(f"{root}/")]

    def process_died(self) -> None:
        """Complete each call in progress of a killed process wholly, partly or not at all."""
        self.generation += 1
        under_way, self.under_way = self.under_way, {}
        for operation in under_way.values():
            draw = self.random.randrange(3)
            if draw == 0:
                operation.finish()
            elif draw == 1 and operation.torn is not None:
                operation.torn()

    def lose_power(self) -> None:
        """Cut the power: keep a random subset of the unsynced bytes and names."""
        self.process_died()
        for change in self._changes:
            if self.random.random() < 0.5:
                self._make_durable(change)
        self._changes.clear()
        self.names = dict(self._durable_names)
        self.directories = dict(self._durable_directories)
        for path in list(self.names):
            self._add_parents(path)
        for inode in dict.fromkeys(self.names.values()):
            inode.lose_power(self.random)

    def rot(self, prefix: str = "") -> str | None:
        """Flip a random bit in the files below ``prefix``; returns where, None if there is none."""
        paths = [
            p for p, inode in sorted(self.names.items()) if p.startswith(prefix) and inode.cached
        ]
        if not paths:
            return None
        path = paths[self.random.randrange(len(paths))]
        return self._flip(path, self.random.randrange(len(self.names[path].cached)))

    def rot_end(self, prefix: str) -> str | None:
        """Flip a bit near the end of the last file below ``prefix``; returns where, or None."""
        path = max((path for path in self.names if path.startswith(prefix)), default=None)
        size = 0 if path is None else len(self.names[path].cached.rstrip(b"\0"))
        if path is None or not size:
            return None
        return self._flip(path, max(0, size - 1 - self.random.randrange(300)))

    def _flip(self, path: str, at: int) -> str:
        inode = self.names[path]
        bit = 1 << self.random.randrange(8)
        inode.cached[at] ^= bit
        if at < len(inode.durable):
            inode.durable[at] ^= bit
        return f"{path} at {at}"

    def pick_file(self, prefix: str = "") -> str | None:
        """Return a random file below ``prefix`` that is not empty; None if there is none.

        Kinds of files are equally likely, however many files of a kind there are: paths that differ
        only in their digits are of one kind.
        """
        kinds: dict[str, list[str]] = {}
        for path, inode in sorted(self.names.items()):
            if path.startswith(prefix) and inode.cached:
                kinds.setdefault(_DIGITS.sub("#", path), []).append(path)
        if not kinds:
            return None
        kind = list(kinds)[self.random.randrange(len(kinds))]
        return kinds[kind][self.random.randrange(len(kinds[kind]))]

    def rot_file(self, path: str) -> str:
        """Flip a random bit of a file; returns where."""
        return self._flip(path, self.random.randrange(len(self.names[path].cached)))

    def rot_bytes(self, path: str, places: Sequence[int]) -> str:
        """Flip a bit in one or two of the bytes at ``places``; returns where."""
        chosen = [
            places[self.random.randrange(len(places))] for _ in range(self.random.choice((1, 2)))
        ]
        return " and ".join(self._flip(path, at) for at in dict.fromkeys(chosen))

    def truncate_file(self, path: str) -> str:
        """Cut a file at a random length, half of the times at a page; returns where."""
        inode = self.names[path]
        length = self.random.randrange(len(inode.cached))
        if self.random.random() < 0.5:
            length -= length % PAGE_BYTES
        for content in (inode.cached, inode.durable):
            del content[length:]
        return f"{path} at {length}"

    def zero_page(self, path: str) -> str:
        """Overwrite a random page of a file with zeros; returns where."""
        inode = self.names[path]
        start = self.random.randrange(len(inode.cached)) // PAGE_BYTES * PAGE_BYTES
        for content in (inode.cached, inode.durable):
            end = min(len(content), start + PAGE_BYTES)
            if start < end:
                content[start:end] = bytes(end - start)
        return f"{path} at {start}"

    def lose_file(self, path: str) -> str:
        """Remove a file durably, without its directory's knowledge; returns its path.

        A process that has it open keeps its contents.
        """
        del self.names[path]
        self._durable_names.pop(path, None)
        self._changes = [change for change in self._changes if change.name != path]
        return path

    def back_up(self) -> DiskBackup:
        """Return a copy of all files."""
        files = {path: (inode.number, bytes(inode.cached)) for path, inode in self.names.items()}
        return DiskBackup(files, tuple(self.directories))

    def restore(self, backup: DiskBackup, *, is_image: bool = False) -> None:
        """Replace all files by those of a backup, at once and durably.

        The files of an image of the whole disk are the same files, with the same inodes.
        """
        self.format()
        self.directories = dict.fromkeys(backup.directories)
        self._durable_directories = dict(self.directories)
        for path, (number, content) in backup.files.items():
            inode = self.names[path] = self.new_inode()
            if is_image:
                inode.number = number
            inode.cached, inode.durable = bytearray(content), bytearray(content)
        self._durable_names = dict(self.names)

    def _add_parents(self, path: str) -> None:
        while path:
            path = path.rpartition("/")[0]
            self.directories[path] = None

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        self.directories[path] = None
        self._add_parents(path)


class SimFile:
    """An open file; implements ``core.runtime.disk.File``."""

    def __init__(self, disk: "SimDisk", path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._is_closed = False

    @property
    def path(self) -> str:
        """The path with which the file was opened."""
        return self._path

    async def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write the buffers in order at ``offset``; not durable before a sync."""
        data = self._checked(offset, buffers)
        work, torn = partial(self._write, offset, data), partial(self._tear, offset, data)
        await self._disk.begin("write", self._path, len(data), work, torn)

    async def write_durable(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write and sync in one operation: durable when it returns."""
        data = self._checked(offset, buffers)
        work, torn = partial(self._write_through, offset, data), partial(self._tear, offset, data)
        await self._disk.begin("sync", self._path, len(data), work, torn)

    async def sync(self) -> None:
        """Make everything that was written before the call durable."""
        self._check_open()
        mark = self._inode.mark
        await self._disk.begin("sync", self._path, 0, partial(self._sync, mark))

    async def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``; fewer only at the end of the file."""
        self._check_open()
        work = partial(self._read, offset, length)
        return await self._disk.begin("read", self._path, length, work)

    async def size(self) -> int:
        """Return the length in bytes."""
        self._check_open()
        return await self._disk.begin("look", self._path, 0, lambda: len(self._inode.cached))

    async def truncate(self, length: int) -> None:
        """Cut the file, or extend it with zeros, to ``length``; durable after ``sync``."""
        self._check_open()
        await self._disk.begin("write", self._path, 0, partial(self._inode.truncate, length))

    async def close(self) -> None:
        """Close the file without a sync. Safe to repeat."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self._path} was closed")

    def _checked(self, offset: int, buffers: Sequence[bytes]) -> bytes:
        self._check_open()
        assert offset >= 0
        return b"".join(buffers)

    def _write(self, offset: int, data: bytes) -> None:
        image = self._disk.image
        if image.health.write_failures:
            image.health.write_failures -= 1
            self._inode.write(offset, data[: image.random.randrange(len(data) + 1)])
            raise DiskFailedError(f"{self._path}: Input/output error")
        if not image.room_for(self._inode, offset + len(data)):
            self._inode.write(offset, data[: image.random.randrange(len(data) + 1)])
            raise DiskFullError(f"{self._path}: No space left on device")
        self._inode.write(offset, data)

    def _write_through(self, offset: int, data: bytes) -> None:
        self._write(offset, data)
        self._sync(self._inode.mark)

    def _tear(self, offset: int, data: bytes) -> None:
        """Perform a part of a write whose caller died meanwhile."""
        self._inode.write(offset, data[: self._disk.image.random.randrange(len(data) + 1)])

    def _sync(self, mark: int) -> None:
        image = self._disk.image
        if image.health.sync_failures:
            image.health.sync_failures -= 1
            # As in Linux, the pages are clean now: reads return them, but they may be lost.
            self._inode.drop_pending(image.random.randrange(self._inode.settled, mark + 1))
            raise DiskFailedError(f"{self._path}: Input/output error")
        if not image.health.is_lying:
            self._inode.sync(mark)

    def _read(self, offset: int, length: int) -> bytes:
        health = self._disk.image.health
        if health.read_failures:
            health.read_failures -= 1
            raise DiskFailedError(f"{self._path}: Input/output error")
        return bytes(self._inode.cached[offset : offset + length])


# These names are part of the fingerprint of a run.
Kind = Literal["write", "sync", "read", "look", "name"]

_COST_MS: dict[Kind, tuple[float, float]] = {  # (least, spread)
    "write": (0.02, 0.1),
    "sync": (0.4, 1.2),
    "read": (0.05, 0.3),
    "look": (0.01, 0.02),
    "name": (0.05, 0.2),
}
_BYTES_PER_MS = 200_000.0
_SLOW_MS_MAX = 2_000  # maximum latency of a slow disk


class _Operation:
    """A call in progress: the device performs it after its latency."""

    __slots__ = ("_answer", "_disk", "_generation", "_number", "_path", "_work", "torn")

    def __init__(
        self,
        disk: "SimDisk",
        number: int,
        path: str,
        work: Callable[[], Any],
        torn: Callable[[], None] | None,
        answer: "asyncio.Future[Any]",
    ) -> None:
        self._disk = disk
        self._generation = disk.image.generation
        self._number = number
        self._path = path
        self._work = work
        self.torn = torn
        """Performs a part of it, if the caller's process dies meanwhile."""
        self._answer = answer

    def due(self) -> None:
        """Perform the call, unless the caller's process died or the disk was replaced."""
        image = self._disk.image
        if image.generation == self._generation and self._number in image.under_way:
            self.finish()

    def finish(self) -> None:
        """Perform the call and answer it."""
        disk, answer = self._disk, self._answer
        disk.image.under_way.pop(self._number, None)
        try:
            if disk.has_lost_root():
                raise DiskFailedError(f"{self._path}: Input/output error")
            result = self._work()
        except Exception as error:  # raised where the call is awaited
            if not answer.done():
                answer.set_exception(error)
            return
        if not answer.done():
            answer.set_result(result)


class SimDisk:
    """The handle of one process to a ``DiskImage``; implements ``core.runtime.disk.Disk``.

    ``root`` is the directory of the image that is the root of this handle.
    """

    def __init__(self, image: DiskImage, root: str = "") -> None:
        self.image = image
        self._root = root
        self._generation = image.generation
        image.make_directory(root)

    def begin(
        self,
        kind: Kind,
        path: str,
        size: int,
        work: Callable[[], T],
        torn: Callable[[], None] | None = None,
    ) -> "asyncio.Future[T]":
        """Perform ``work`` after the device's latency; cancelling the future does not stop it.

        ``torn`` performs a part of it instead if the caller's process dies meanwhile.
        """
        image = self.image
        if image.on_operation is not None:
            image.on_operation(kind, path)
        loop = image.loop
        answer: asyncio.Future[T] = loop.create_future()
        image.operations = number = image.operations + 1
        image.trace.beat(_BEAT_DISK, number, crc32(f"{image.name} {kind} {path} {size}".encode()))
        if image.generation != self._generation:
            return answer  # the calling process is dead: never answered
        least, spread = _COST_MS[kind]
        draw = image.random.random()
        cost_ms = least + spread * draw * draw + size / _BYTES_PER_MS
        image.under_way[number] = operation = _Operation(self, number, path, work, torn, answer)
        slowness = image.health.slowness
        if slowness != 1.0:
            cost_ms = min(cost_ms * slowness, max(cost_ms, _SLOW_MS_MAX))
        loop.call_later(cost_ms / 1000, operation.due, context=image.context)
        return answer

    def has_lost_root(self) -> bool:
        """Return whether the directory of this handle has failed for good."""
        return self._root in self.image.lost_roots

    async def open(self, path: str, *, create: bool = False, allocate_bytes: int = 0) -> File:
        """Open a file for reading and writing.

        Raises FileNotFoundError; with ``create`` DiskFailedError if the file exists.
        """
        full = self._full(path)
        return await self.begin(
            "name", path, 0, lambda: self._open(path, full, create, allocate_bytes)
        )

    def _open(self, path: str, full: str, create: bool, allocate_bytes: int) -> File:
        image = self.image
        inode = image.names.get(full)
        if create:
            if inode is not None:
                raise DiskFailedError(f"{path}: File exists")
            if full.rpartition("/")[0] not in image.directories:
                raise FileNotFoundError(path)
            inode = image.new_inode()
            if not image.room_for(inode, allocate_bytes):
                raise DiskFullError(f"{path}: No space left on device")
            image.set_name(full, inode)
        elif inode is None:
            raise FileNotFoundError(path)
        if allocate_bytes:
            image.reserve(inode, allocate_bytes)
        return SimFile(self, path, inode)

    async def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted. Raises FileNotFoundError."""
        return await self.begin("look", path, 0, lambda: self._names_in(path, self._full(path)))

    def _names_in(self, path: str, full: str) -> Names:
        if full not in self.image.directories:
            raise FileNotFoundError(path)
        start = f"{full}/" if full else ""
        found = [*self.image.names, *(d for d in self.image.directories if d)]
        inside = [name[len(start) :] for name in found if name.startswith(start)]
        return sorted(name for name in inside if "/" not in name)

    async def make_directory(self, path: str) -> None:
        """Create a directory and its parents, unless they exist."""
        full = self._full(path)
        await self.begin("name", path, 0, lambda: self.image.make_directory(full))

    async def rename(self, old: str, new: str) -> None:
        """Atomically rename a file, replacing ``new``. Raises FileNotFoundError."""
        source, target = self._full(old), self._full(new)
        await self.begin("name", new, 0, lambda: self._rename(source, target))

    def _rename(self, source: str, target: str) -> None:
        inode = self.image.names.get(source)
        if inode is None:
            raise FileNotFoundError(source)
        if source != target:
            self.image.set_name(target, inode, moved_from=source)

    async def remove(self, path: str) -> None:
        """Remove a file. Raises FileNotFoundError."""
        full = self._full(path)
        await self.begin("name", path, 0, lambda: self._remove(path, full))

    def _remove(self, path: str, full: str) -> None:
        if full not in self.image.names:
            raise FileNotFoundError(path)
        self.image.set_name(full, None)

    async def file_identity(self, path: str) -> str:
        """Return the number of the file's inode. Raises FileNotFoundError."""
        full = self._full(path)
        return await self.begin("look", path, 0, lambda: self._file_identity(path, full))

    def _file_identity(self, path: str, full: str) -> str:
        inode = self.image.names.get(full)
        if inode is None:
            raise FileNotFoundError(path)
        return str(inode.number)

    async def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals of names in ``path`` durable."""
        full = self._full(path)
        await self.begin("sync", path, 0, lambda: self.image.sync_directory(full))

    async def free_bytes(self) -> int:
        """Return the space left for new data, in bytes."""
        image = self.image
        return await self.begin(
            "look", "", 0, lambda: max(0, image.capacity_bytes - image.used_bytes())
        )

    async def total_bytes(self) -> int:
        """Return the capacity of the device in bytes."""
        return await self.begin("look", "", 0, lambda: self.image.capacity_bytes)

    def _full(self, path: str) -> str:
        parts = path.split("/")
        if path and any(part in ("", ".", "..") or "\x00" in part for part in parts):
            raise InvalidArgumentError(f"bad path {path[:80]!r}: it must stay inside the directory")
        return f"{self._root}/{path}" if self._root and path else self._root or path

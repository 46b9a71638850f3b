"""A machine's disk: keeps the contract of ``core.runtime.disk`` and nothing beyond it.

Every file has two contents: what readers see (the page cache) and what the medium holds. A write
changes the first and is remembered as pending; a sync carries the pending writes over. What a power
cut leaves is the medium plus any subset of the pending writes, each whole, torn or lost, and any
subset of the pending changes of names. A killed process loses nothing that was written, except that
its last calls may have happened in part.

Data belongs to the machine: a restarted process finds it again through a new ``SimDisk`` handle of
the same ``DiskImage``.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeVar
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
Work = Callable[[], None]
Names = list[str]

SECTOR_BYTES = 512
_BEAT_DISK = 20


class Inode:
    """A file's contents: ``cached`` (what reads see), ``durable``, and what lies between."""

    __slots__ = ("cached", "durable", "number", "on_durable", "pending", "settled")

    def __init__(self, number: int, on_durable: Callable[[bytes], None]) -> None:
        self.number = number
        self.on_durable = on_durable
        self.cached = bytearray()
        self.durable = bytearray()
        self.pending: list[
            tuple[int, bytes | None]
        ] = []  # (offset, data); None: truncate to offset
        self.settled = 0  # how many writes went before the first pending one

    @property
    def mark(self) -> int:
        """The number of writes so far: what a sync that starts now covers."""
        return self.settled + len(self.pending)

    def write(self, offset: int, data: bytes) -> None:
        """Into the cache."""
        _apply(self.cached, offset, data)
        self.pending.append((offset, data))

    def truncate(self, length: int) -> None:
        """In the cache."""
        _apply(self.cached, length, None)
        self.pending.append((length, None))

    def sync(self, mark: int) -> None:
        """Carries the writes before ``mark`` over to the medium."""
        count = max(0, mark - self.settled)
        for offset, data in self.pending[:count]:
            _apply(self.durable, offset, data)
            if data is not None:
                self.on_durable(data)
        self.forget(mark)

    def forget(self, mark: int) -> None:
        """The writes before ``mark`` are not pending any more, durable or not."""
        count = max(0, mark - self.settled)
        del self.pending[:count]
        self.settled += count

    def lose_power(self, random: Random) -> None:
        """Each pending write is kept, lost or torn."""
        for offset, data in self.pending:
            fate = random.randrange(4)
            if fate == 0:
                continue
            if data is None or fate == 1:
                _apply(self.durable, offset, data)
                self.on_durable(data or b"")
            elif fate == 2:  # the first part only, cut at any byte
                _apply(self.durable, offset, data[: random.randrange(len(data) + 1)])
            else:
                _apply_some_sectors(self.durable, offset, data, random)
        self.forget(self.mark)
        self.cached = bytearray(self.durable)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if data is not None:
        content[offset : offset + len(data)] = data


def _apply_some_sectors(content: bytearray, offset: int, data: bytes, random: Random) -> None:
    """Writes a random subset of the sectors; the file's size may or may not have grown."""
    start = 0
    while start < len(data):
        end = min(len(data), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
        if random.random() < 0.5:
            _apply(content, offset + start, data[start:end])
        start = end


@dataclass(frozen=True, slots=True)
class _NameChange:
    """A pending change in one directory: ``name`` leads to ``inode`` (None: to nothing).

    ``moved_from``: a rename inside one directory is one change of two names.
    """

    directory: str
    name: str
    inode: Inode | None
    moved_from: str | None = None


@dataclass(slots=True)
class DiskHealth:
    """What is wrong with a disk now; faults change it."""

    is_lying: bool = False  # sync returns and nothing is durable
    slowness: float = 1.0
    sync_failures: int = 0  # how many of the next syncs fail
    write_failures: int = 0
    read_failures: int = 0


class DiskImage:
    """The data of one machine's disk, over all processes that ever use it."""

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
        """Sees every piece of data that is on the medium for good from now on."""
        self.context = Context()  # the device works on, whoever is dead
        self.under_way: dict[int, tuple[Work, Work | None]] = {}
        self.life = 0
        self._inode_count = 0
        self.format()

    def format(self) -> None:
        """Empties the disk, at once and for good."""
        self.names: dict[str, Inode] = {}
        self.directories: dict[str, None] = {"": None}
        self._durable_names: dict[str, Inode] = {}
        self._durable_directories: dict[str, None] = {"": None}
        self._changes: list[_NameChange] = []
        self._reserved: dict[int, int] = {}
        self.under_way.clear()
        self.life += 1

    def new_inode(self) -> Inode:
        """An empty file without a name."""
        self._inode_count += 1
        return Inode(self._inode_count, self._durable)

    def _durable(self, data: bytes) -> None:
        if self.on_durable is not None:
            self.on_durable(data)

    def used_bytes(self) -> int:
        """Space taken by files, or reserved for them."""
        reserved = self._reserved
        return sum(
            max(len(inode.cached), reserved.get(inode.number, 0))
            for inode in dict.fromkeys(self.names.values())
        )

    def reserve(self, inode: Inode, size: int) -> None:
        """Sets ``size`` bytes aside for a file."""
        self._reserved[inode.number] = size

    def room_for(self, inode: Inode, end: int) -> bool:
        """Whether the file may grow to ``end`` bytes."""
        taken = max(len(inode.cached), self._reserved.get(inode.number, 0))
        return end <= taken or self.used_bytes() - taken + end <= self.capacity_bytes

    # --- names ----------------------------------------------------------------------------------

    def set_name(self, path: str, inode: Inode | None, moved_from: str | None = None) -> None:
        """Changes where a name leads; durable after its directory was synced."""
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
        """Makes the pending changes of names in ``directory`` durable."""
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

    # --- what happens to machines ---------------------------------------------------------------

    def process_died(self) -> None:
        """A killed process: each of its calls under way has happened, or not, or in part."""
        self.life += 1
        under_way, self.under_way = self.under_way, {}
        for finish, torn in under_way.values():
            fate = self.random.randrange(3)
            if fate == 0:
                finish()
            elif fate == 1 and torn is not None:
                torn()

    def lose_power(self) -> None:
        """A power cut: calls under way end as at a kill, unsynced bytes and names by luck."""
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
        """Flips a bit somewhere on the medium below ``prefix``; returns where, None if empty."""
        paths = [
            p for p, inode in sorted(self.names.items()) if p.startswith(prefix) and inode.cached
        ]
        if not paths:
            return None
        path = paths[self.random.randrange(len(paths))]
        return self._flip(path, self.random.randrange(len(self.names[path].cached)))

    def rot_end(self, prefix: str) -> str | None:
        """Flips a bit near the end of what the last file below ``prefix`` holds; returns where."""
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

    def _add_parents(self, path: str) -> None:
        while path:
            path = path.rpartition("/")[0]
            self.directories[path] = None

    def make_directory(self, path: str) -> None:
        """With its parents."""
        self.directories[path] = None
        self._add_parents(path)


class SimFile:
    """An open file; keeps the contract of ``core.runtime.disk.File``."""

    def __init__(self, disk: "SimDisk", path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._is_closed = False

    @property
    def path(self) -> str:
        """The path it was opened with."""
        return self._path

    async def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Writes the buffers one after the other at ``offset``; not durable yet."""
        data = self._checked(offset, buffers)
        await self._disk.do(
            "write",
            self._path,
            len(data),
            lambda: self._write(offset, data),
            self._torn(offset, data),
        )

    async def write_durable(self, offset: int, buffers: Sequence[bytes]) -> None:
        """``write`` and ``sync`` in one hop: durable when it returns."""
        data = self._checked(offset, buffers)

        def work() -> None:
            self._write(offset, data)
            self._sync(self._inode.mark)

        await self._disk.do("sync", self._path, len(data), work, self._torn(offset, data))

    async def sync(self) -> None:
        """Makes everything written before the call durable."""
        self._check_open()
        mark = self._inode.mark
        await self._disk.do("sync", self._path, 0, lambda: self._sync(mark))

    async def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end of the file."""
        self._check_open()
        return await self._disk.do("read", self._path, length, lambda: self._read(offset, length))

    async def size(self) -> int:
        """Length in bytes."""
        self._check_open()
        return await self._disk.do("look", self._path, 0, lambda: len(self._inode.cached))

    async def truncate(self, length: int) -> None:
        """Cuts or extends (with zeros) to ``length``; durable after ``sync``."""
        self._check_open()
        await self._disk.do("write", self._path, 0, lambda: self._inode.truncate(length))

    async def close(self) -> None:
        """Releases the file. Does not sync. Safe to repeat."""
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

    def _torn(self, offset: int, data: bytes) -> Callable[[], None]:
        """What is left of a write whose caller dies meanwhile."""
        random = self._disk.image.random
        return lambda: self._inode.write(offset, data[: random.randrange(len(data) + 1)])

    def _sync(self, mark: int) -> None:
        image = self._disk.image
        if image.health.sync_failures:
            image.health.sync_failures -= 1
            # As Linux does: the pages are no longer dirty, are still read back, and may be lost.
            self._inode.forget(image.random.randrange(self._inode.settled, mark + 1))
            raise DiskFailedError(f"{self._path}: Input/output error")
        if not image.health.is_lying:
            self._inode.sync(mark)

    def _read(self, offset: int, length: int) -> bytes:
        health = self._disk.image.health
        if health.read_failures:
            health.read_failures -= 1
            raise DiskFailedError(f"{self._path}: Input/output error")
        return bytes(self._inode.cached[offset : offset + length])


Kind = Literal["write", "sync", "read", "look", "name"]

_COST_MS: dict[Kind, tuple[float, float]] = {  # (least, spread)
    "write": (0.02, 0.1),
    "sync": (0.4, 1.2),
    "read": (0.05, 0.3),
    "look": (0.01, 0.02),
    "name": (0.05, 0.2),
}
_BYTES_PER_MS = 200_000.0
_SLOW_MS_MAX = 2_000  # a disk that answers at all; what is under way when it is well again, too


class SimDisk:
    """One process's handle to a ``DiskImage``; keeps the contract of ``core.runtime.disk.Disk``.

    ``root`` is a directory of the image that this handle shows as its whole tree.
    """

    def __init__(self, image: DiskImage, root: str = "") -> None:
        self.image = image
        self._root = root
        self._life = image.life
        image.make_directory(root)

    async def do(
        self,
        kind: Kind,
        path: str,
        size: int,
        work: Callable[[], T],
        torn: Callable[[], None] | None = None,
    ) -> T:
        """Does ``work`` when the device has got to it; a cancelled caller does not stop it.

        ``torn`` does a part of it, when the caller dies meanwhile.
        """
        image = self.image
        if image.on_operation is not None:
            image.on_operation(kind, path)
        answer: asyncio.Future[T] = image.loop.create_future()
        image.operations += 1
        number = image.operations
        image.trace.beat(_BEAT_DISK, number, crc32(f"{image.name} {kind} {path} {size}".encode()))
        if image.life != self._life:
            await answer  # the process that calls is dead: nothing answers it

        def finish() -> None:
            image.under_way.pop(number, None)
            try:
                result = work()
            except Exception as error:  # raised where the call is awaited
                if not answer.done():
                    answer.set_exception(error)
                return
            if not answer.done():
                answer.set_result(result)

        least, spread = _COST_MS[kind]
        draw = image.random.random()
        cost_ms = least + spread * draw * draw + size / _BYTES_PER_MS
        image.under_way[number] = (finish, torn)
        life = image.life

        def due() -> None:
            if image.life == life and number in image.under_way:
                finish()

        lasts_ms = min(cost_ms * image.health.slowness, max(cost_ms, _SLOW_MS_MAX))
        image.loop.call_later(lasts_ms / 1000, due, context=image.context)
        return await answer

    async def open(self, path: str, *, create: bool = False, allocate_bytes: int = 0) -> File:
        """Opens for reading and writing; ``create`` refuses with DiskFailedError when it exists."""
        full = self._full(path)
        return await self.do(
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
        """Names in a directory, sorted. Raises FileNotFoundError."""
        return await self.do("look", path, 0, lambda: self._names_in(path, self._full(path)))

    def _names_in(self, path: str, full: str) -> Names:
        if full not in self.image.directories:
            raise FileNotFoundError(path)
        start = f"{full}/" if full else ""
        found = [*self.image.names, *(d for d in self.image.directories if d)]
        inside = [name[len(start) :] for name in found if name.startswith(start)]
        return sorted(name for name in inside if "/" not in name)

    async def make_directory(self, path: str) -> None:
        """Makes the directory and its parents; no error when it is there."""
        full = self._full(path)
        await self.do("name", path, 0, lambda: self.image.make_directory(full))

    async def rename(self, old: str, new: str) -> None:
        """Atomically moves a file over ``new``."""
        source, target = self._full(old), self._full(new)
        await self.do("name", new, 0, lambda: self._rename(source, target))

    def _rename(self, source: str, target: str) -> None:
        inode = self.image.names.get(source)
        if inode is None:
            raise FileNotFoundError(source)
        if source != target:
            self.image.set_name(target, inode, moved_from=source)

    async def remove(self, path: str) -> None:
        """Removes a file. Raises FileNotFoundError."""
        full = self._full(path)
        await self.do("name", path, 0, lambda: self._remove(path, full))

    def _remove(self, path: str, full: str) -> None:
        if full not in self.image.names:
            raise FileNotFoundError(path)
        self.image.set_name(full, None)

    async def sync_directory(self, path: str) -> None:
        """Makes creations, renames and removals of names in ``path`` durable."""
        full = self._full(path)
        await self.do("sync", path, 0, lambda: self.image.sync_directory(full))

    async def free_bytes(self) -> int:
        """Space left for new data."""
        image = self.image
        return await self.do(
            "look", "", 0, lambda: max(0, image.capacity_bytes - image.used_bytes())
        )

    async def total_bytes(self) -> int:
        """Capacity of the device, used and free."""
        return await self.do("look", "", 0, lambda: self.image.capacity_bytes)

    def _full(self, path: str) -> str:
        parts = path.split("/")
        if path and any(part in ("", ".", "..") or "\x00" in part for part in parts):
            raise InvalidArgumentError(f"bad path {path[:80]!r}: it must stay inside the directory")
        return f"{self._root}/{path}" if self._root and path else self._root or path

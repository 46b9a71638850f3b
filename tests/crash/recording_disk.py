"""A disk that records every operation, and a replay that creates the images of possible crashes.

The record is one ordered list of writes, syncs, name changes and promises to the
workload. An image is the state that a restart finds after a crash at some point of the list.
"""

import asyncio
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from rhumbline.core.protocol.errors import DiskFailedError
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

SECTOR = 512


class Event(NamedTuple):
    """One event: write, truncate, sync, create, rename, remove, syncdir or promise."""

    kind: str
    inode: int = 0
    path: str = ""
    offset: int = 0
    data: bytes = b""
    value: object = None


class RecordingFile:
    """An open file."""

    def __init__(self, disk: "RecordingDisk", path: str, inode: int) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode

    @property
    def path(self) -> str:
        return self._path

    async def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        await asyncio.sleep(0)
        data = b"".join(buffers)
        event = Event("write", self._inode, self._path, offset, data)
        self._disk.record(event)
        apply(self._disk.contents[self._inode], event)

    async def write_durable(self, offset: int, buffers: Sequence[bytes]) -> None:
        await self.write(offset, buffers)
        await self.sync()

    async def sync(self) -> None:
        await asyncio.sleep(0)
        self._disk.record(Event("sync", self._inode, self._path))

    async def read(self, offset: int, length: int) -> bytes:
        await asyncio.sleep(0)
        return bytes(self._disk.contents[self._inode][offset : offset + length])

    async def size(self) -> int:
        return len(self._disk.contents[self._inode])

    async def truncate(self, length: int) -> None:
        content = self._disk.contents[self._inode]
        if length != len(content):
            event = Event("truncate", self._inode, self._path, length)
            self._disk.record(event)
            apply(content, event)

    async def close(self) -> None:
        pass


class RecordingDisk:
    """A core.runtime.disk.Disk in memory that records its operations."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.contents: dict[int, bytearray] = {}
        self.names: dict[str, int] = {}

    def record(self, event: Event) -> None:
        self.events.append(event)

    def promise(self, value: object) -> None:
        """Records a promise to the workload, which no crash may break."""
        self.events.append(Event("promise", value=value))

    async def open(
        self, path: str, *, create: bool = False, allocate_bytes: int = 0
    ) -> RecordingFile:
        await asyncio.sleep(0)
        if create:
            if path in self.names:
                raise DiskFailedError(f"{path} exists")
            inode = len(self.contents) + 1
            self.contents[inode] = bytearray()
            self.names[path] = inode
            self.record(Event("create", inode, path))
        elif path not in self.names:
            raise FileNotFoundError(path)
        return RecordingFile(self, path, self.names[path])

    async def list(self, path: str) -> list[str]:
        prefix = path + "/" if path else ""
        return sorted({p[len(prefix) :].split("/")[0] for p in self.names if p.startswith(prefix)})

    async def make_directory(self, path: str) -> None:
        pass

    async def rename(self, old: str, new: str) -> None:
        self.record(Event("rename", path=old, value=new))
        self.names[new] = self.names.pop(old)

    async def remove(self, path: str) -> None:
        if path not in self.names:
            raise FileNotFoundError(path)
        self.record(Event("remove", path=path))
        del self.names[path]

    async def file_identity(self, path: str) -> str:
        if path not in self.names:
            raise FileNotFoundError(path)
        return str(self.names[path])

    async def sync_directory(self, path: str) -> None:
        await asyncio.sleep(0)
        self.record(Event("syncdir", path=path))

    async def free_bytes(self) -> int:
        return 1 << 40

    async def total_bytes(self) -> int:
        return 1 << 41


class _Inode:
    __slots__ = ("cached", "durable", "pending")

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.pending: list[Event] = []


class Image(NamedTuple):
    """The files that a restart finds. ``kind``: "killed" (the process) or "power" (the machine)."""

    kind: str
    files: dict[str, bytes]

    def disk(self) -> MemoryDisk:
        """Return a disk with the files of the image."""
        disk = MemoryDisk()
        disk.files = {path: bytearray(content) for path, content in self.files.items()}
        disk.directories = {"", "index", "log", "sorted"}
        return disk


class Replay:
    """Replays a record and creates the images for each point."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._inodes: dict[int, _Inode] = {}
        self._names: dict[str, int] = {}
        self._durable_names: dict[str, int] = {}
        self._name_changes: list[tuple[str, str, int | None]] = []

    def step(self, event: Event) -> None:
        """Applies one event."""
        if event.kind == "create":
            self._inodes[event.inode] = _Inode()
            self._set_name(event.path, event.inode)
        elif event.kind == "rename":
            inode = self._names[event.path]
            self._set_name(event.path, None)
            self._set_name(str(event.value), inode)
        elif event.kind == "remove":
            self._set_name(event.path, None)
        elif event.kind == "syncdir":
            for directory, path, changed in self._name_changes:
                if directory == event.path:
                    _name(self._durable_names, path, changed)
            self._name_changes = [c for c in self._name_changes if c[0] != event.path]
        elif event.kind in ("write", "truncate"):
            node = self._inodes[event.inode]
            apply(node.cached, event)
            node.pending.append(event)
        elif event.kind == "sync":
            node = self._inodes[event.inode]
            node.durable = bytearray(node.cached)
            node.pending.clear()

    def _set_name(self, path: str, inode: int | None) -> None:
        _name(self._names, path, inode)
        self._name_changes.append((path.rpartition("/")[0], path, inode))

    def images(self, next_event: Event | None) -> Iterator[Image]:
        """Yield the possible images of a crash here, before or during ``next_event``."""
        yield Image("killed", self._files(self._names, {}))
        if next_event is not None and next_event.kind == "write":
            content = bytearray(self._inodes[next_event.inode].cached)
            cut = self._random.randrange(len(next_event.data) + 1)
            apply(content, next_event._replace(data=next_event.data[:cut]))
            yield Image("killed", self._files(self._names, {next_event.inode: content}))
        if not self._name_changes and not any(node.pending for node in self._inodes.values()):
            return
        durable = {number: node.durable for number, node in self._inodes.items()}
        yield Image("power", self._files(self._durable_names, durable))
        for _ in range(2):
            names = dict(self._durable_names)
            for _, path, inode in self._name_changes:
                if self._random.random() < 0.5:
                    _name(names, path, inode)
            contents = {number: self._some_of(node) for number, node in self._inodes.items()}
            yield Image("power", self._files(names, contents))

    def _some_of(self, node: _Inode) -> bytearray:
        """Return the durable bytes with a random selection of the sectors written since."""
        content = bytearray(node.durable)
        for event in node.pending:
            fate = self._random.randrange(3)
            if fate == 1 or (fate == 2 and event.kind == "truncate"):
                apply(content, event)
            elif fate == 2:
                for start in range(0, len(event.data), SECTOR):
                    if self._random.random() < 0.5:
                        part = event.data[start : start + SECTOR]
                        apply(content, event._replace(offset=event.offset + start, data=part))
        return content

    def _files(self, names: dict[str, int], contents: dict[int, bytearray]) -> dict[str, bytes]:
        return {
            path: bytes(contents.get(inode, self._inodes[inode].cached))
            for path, inode in names.items()
        }


def _name(names: dict[str, int], path: str, inode: int | None) -> None:
    if inode is None:
        names.pop(path, None)
    else:
        names[path] = inode


def apply(content: bytearray, event: Event) -> None:
    """Applies a write or truncation to the bytes of a file."""
    if event.kind == "truncate":
        del content[event.offset :]
        content.extend(bytes(event.offset - len(content)))
        return
    if len(content) < event.offset:
        content.extend(bytes(event.offset - len(content)))
    content[event.offset : event.offset + len(event.data)] = event.data

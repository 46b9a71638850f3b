"""The disk of a production process: files of one directory, every blocking call in a thread.

Reads have threads of their own, so that they never stand in a queue behind writes. A job goes to a
thread through a C queue and comes back with one ``call_soon_threadsafe``, which costs less than an
executor's two futures; that counts at thousands of group commits a second. A small durable write
needs no thread at all: it is written in the loop and the kernel syncs it (see ``aio_sync``).

Invariants:
1. a descriptor is closed only when no thread uses it (its number could name another file by then);
2. a cancelled caller cancels its wait and not the work, which ends as if it had been awaited;
3. one process at a time owns the directory (a lock that the kernel drops with the process).
"""

import asyncio
import ctypes
import errno
import fcntl
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..core.protocol.errors import (
    ClosedError,
    DiskFailedError,
    DiskFullError,
    ForeignDataError,
    InvalidArgumentError,
)
from ..core.runtime.disk import File
from ..core.runtime.histogram import Histogram
from .aio_sync import OnEnd, open_aio
from .inline_write import InlineWritePolicy

T = TypeVar("T")
Work = Callable[[], None]

_WRITE_THREADS = 2  # the write log's group commit, and whoever rewrites files in the background
_READ_THREADS = 4
_BUFFERS_MAX = 1024  # IOV_MAX of Linux
_FALLOC_FL_KEEP_SIZE = 1
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_FALLOCATE = {errno.EOPNOTSUPP, errno.ENOSYS}


class _Lane:
    """Threads that take blocking calls from one queue. They start when there is work for them."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._jobs: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._threads = 0
        self._under_way = 0

    def submit(
        self, work: Callable[..., Any], args: Sequence[object], on_end: Callable[..., None]
    ) -> None:
        """Runs ``work(*args)`` in a thread; then ``on_end(result, error)`` in the loop."""
        loop = asyncio.get_running_loop()
        self._under_way += 1
        if self._threads < min(self._under_way, self._size):
            self._start_thread()

        def end(result: object, error: BaseException | None) -> None:
            self._under_way -= 1
            on_end(result, error)

        def job() -> None:
            result, failure = None, None
            try:
                result = work(*args)
            except BaseException as error:  # the caller's: it is raised where the call is awaited
                failure = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, result, failure)

        self._jobs.put(job)

    async def call(self, work: Callable[..., T], *args: object) -> T:
        """``submit``, and waits for the result."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(work, args, lambda result, error: _answer(answer, result, error))
        return await answer

    def stop(self) -> None:
        """Ends the threads, behind the jobs that wait. Safe to repeat."""
        for _ in range(self._threads):
            self._jobs.put(None)
        self._threads = 0

    def _start_thread(self) -> None:
        name = f"{self._name}-{self._threads}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._threads += 1

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _answer(answer: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if answer.cancelled():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


class _Means:
    """What does the work of one disk's files."""

    def __init__(self, name: str) -> None:
        self.reads = _Lane(f"read-{name}", _READ_THREADS)
        self.writes = _Lane(f"write-{name}", _WRITE_THREADS)
        self.aio = open_aio()
        self.pace = InlineWritePolicy()
        self.syncs = Histogram()

    def stop(self) -> None:
        """Ends the threads behind what they do, and waits for the kernel's syncs."""
        self.reads.stop()
        self.writes.stop()
        if self.aio is not None:
            self.aio.close()


class PosixFile:
    """An open file of a ``PosixDisk``; keeps the contract of ``core.runtime.disk.File``."""

    def __init__(self, path: str, descriptor: int, means: _Means) -> None:
        self._path = path
        self._descriptor = descriptor
        self._means = means
        self._reads = means.reads
        self._writes = means.writes
        self._users = 0
        self._is_closed = False

    @property
    def path(self) -> str:
        """The path it was opened with."""
        return self._path

    async def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Writes the buffers one after the other at ``offset``; not durable yet."""
        await self._use(self._writes, _write, offset, buffers)

    async def write_durable(self, offset: int, buffers: Sequence[bytes]) -> None:
        """``write`` and ``sync`` in one hop: durable when it returns."""
        began = time.perf_counter()
        if self._means.pace.may_write_here(sum(map(len, buffers)), began):
            await self._write_durable_here(offset, buffers, began)
        else:
            await self._use(self._writes, _write_durable, offset, buffers)
        self._means.syncs.add(time.perf_counter() - began)

    async def sync(self) -> None:
        """Makes everything written so far durable."""
        await self._use(self._writes, os.fdatasync)

    async def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end of the file."""
        return await self._use(self._reads, _read, offset, length)

    async def size(self) -> int:
        """Length in bytes."""
        return (await self._use(self._reads, os.fstat)).st_size

    async def truncate(self, length: int) -> None:
        """Cuts or extends (with zeros) to ``length``; durable after ``sync``."""
        await self._use(self._writes, os.ftruncate, length)

    async def close(self) -> None:
        """Releases the file, as soon as no thread uses it. Does not sync. Safe to repeat."""
        if not self._is_closed:
            self._is_closed = True
            self._release_if_idle()

    async def _write_durable_here(
        self, offset: int, buffers: Sequence[bytes], began: float
    ) -> None:
        answer, end = self._begin_use()
        try:
            _write(self._descriptor, offset, buffers)
        except OSError as error:
            end(None, error)
        else:
            self._means.pace.note(began, time.perf_counter())
            aio = self._means.aio
            if aio is None or not aio.submit(self._descriptor, end):
                self._writes.submit(os.fdatasync, (self._descriptor,), end)
        await self._ended(answer)

    async def _use(self, lane: _Lane, work: Callable[..., T], *args: object) -> T:
        answer, end = self._begin_use()
        lane.submit(work, (self._descriptor, *args), end)
        result: T = await self._ended(answer)
        return result

    def _begin_use(self) -> "tuple[asyncio.Future[Any], OnEnd]":
        """The descriptor stays open until ``end`` is called, which answers."""
        if self._is_closed:
            raise ClosedError(f"{self._path} was closed")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._users += 1

        def end(result: object, error: BaseException | None) -> None:
            self._users -= 1
            self._release_if_idle()
            _answer(answer, result, error)

        return answer, end

    async def _ended(self, answer: "asyncio.Future[Any]") -> Any:  # noqa: ANN401 - the work's own
        try:
            return await answer
        except OSError as error:
            raise _translated(error, self._path) from error

    def _release_if_idle(self) -> None:
        if self._is_closed and not self._users:
            # Not awaited: closing may have to free the blocks of a removed file, and tells nothing.
            self._writes.submit(os.close, (self._descriptor,), lambda result, error: None)


class PosixDisk:
    """The files below ``root``, which is made when missing. Keeps ``core.runtime.disk.Disk``.

    The constructor blocks; the methods do not. Raises ForeignDataError when another process (or
    another ``PosixDisk`` of this one) owns the directory, DiskFailedError when it cannot be used.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise _translated(error, str(self.root)) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise ForeignDataError(
                f"{self.root} is in use by another process; stop it, or choose another directory"
            ) from error
        self._means = _Means(self.root.name)
        self._reads, self._writes = self._means.reads, self._means.writes
        self._is_closed = False

    @property
    def syncs(self) -> Histogram:
        """Of durable writes, from the call to its return; what a commit group costs."""
        return self._means.syncs

    @property
    def lock_name(self) -> str:
        """Which directory's lock this is, as long as the operating system runs."""
        status = os.fstat(self._lock)
        return f"{status.st_dev:x}:{status.st_ino:x}"

    async def open(self, path: str, *, create: bool = False, allocate_bytes: int = 0) -> File:
        """Opens for reading and writing; ``create`` refuses with DiskFailedError when it exists."""
        full = self._resolve(path)
        descriptor = await self._call(self._writes, path, _open, full, create, allocate_bytes)
        return PosixFile(path, descriptor, self._means)

    async def list(self, path: str) -> list[str]:
        """Names in a directory, sorted. Raises FileNotFoundError."""
        return sorted(await self._call(self._reads, path, os.listdir, self._resolve(path)))

    async def make_directory(self, path: str) -> None:
        """Makes the directory and its parents; no error when it is there."""
        await self._call(self._writes, path, _make_directory, self._resolve(path))

    async def rename(self, old: str, new: str) -> None:
        """Atomically moves a file over ``new``."""
        await self._call(self._writes, old, os.replace, self._resolve(old), self._resolve(new))

    async def remove(self, path: str) -> None:
        """Removes a file. Raises FileNotFoundError."""
        await self._call(self._writes, path, os.unlink, self._resolve(path))

    async def sync_directory(self, path: str) -> None:
        """Makes creations, renames and removals of names in ``path`` durable."""
        await self._call(self._writes, path, _sync_directory, self._resolve(path))

    async def free_bytes(self) -> int:
        """Space left for new data, as an unprivileged user sees it."""
        status = await self._call(self._reads, "", os.statvfs, self.root)
        return status.f_bavail * status.f_frsize

    async def total_bytes(self) -> int:
        """Capacity of the device, used and free."""
        status = await self._call(self._reads, "", os.statvfs, self.root)
        return status.f_blocks * status.f_frsize

    def close(self) -> None:
        """Gives the directory up and ends the threads behind what they do. Safe to repeat."""
        if not self._is_closed:
            self._is_closed = True
            self._means.stop()
            os.close(self._lock)

    async def _call(self, lane: _Lane, path: str, work: Callable[..., T], *args: object) -> T:
        if self._is_closed:
            raise ClosedError(f"the disk {self.root} was closed")
        try:
            return await lane.call(work, *args)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _translated(error, str(self.root / path)) from error

    def _resolve(self, path: str) -> Path:
        """The path below the root; "" is the root itself. Refuses whatever could leave it."""
        parts = path.split("/")
        if path and any(part in ("", ".", "..") or "\x00" in part for part in parts):
            raise InvalidArgumentError(f"bad path {path[:80]!r}: it must stay inside the directory")
        return self.root.joinpath(*parts)


def _translated(error: OSError, path: str) -> DiskFullError | DiskFailedError:
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFullError(f"{path}: {reason}")
    return DiskFailedError(f"{path}: {reason}")


def _write(descriptor: int, offset: int, buffers: Sequence[bytes]) -> None:
    for first in range(0, len(buffers), _BUFFERS_MAX):
        part = buffers[first : first + _BUFFERS_MAX]
        size = sum(len(buffer) for buffer in part)
        written = os.pwritev(descriptor, part, offset)
        if written < size:  # a full disk or a signal; the rest is written plainly, or fails
            rest = memoryview(b"".join(part))
            while written < size:
                written += os.pwrite(descriptor, rest[written:], offset + written)
        offset += size


def _write_durable(descriptor: int, offset: int, buffers: Sequence[bytes]) -> None:
    _write(descriptor, offset, buffers)
    os.fdatasync(descriptor)


def _read(descriptor: int, offset: int, length: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    if len(data) == length:
        return data
    parts = [data]
    while data and length > len(data):
        offset, length = offset + len(data), length - len(data)
        data = os.pread(descriptor, length, offset)
        parts.append(data)
    return b"".join(parts)


def _open(path: Path, create: bool, allocate_bytes: int) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o640)
    try:
        if allocate_bytes:
            _allocate(descriptor, allocate_bytes)
    except OSError:
        os.close(descriptor)
        if create:
            path.unlink()
        raise
    return descriptor


def _allocate(descriptor: int, size: int) -> None:
    """Reserves blocks without changing the file's size, where the file system can."""
    libc = ctypes.CDLL(None, use_errno=True)
    length = ctypes.c_int64(size)
    if libc.fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, ctypes.c_int64(0), length) == 0:
        return
    number = ctypes.get_errno()
    if number not in _NO_FALLOCATE:
        raise OSError(number, os.strerror(number))


def _make_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

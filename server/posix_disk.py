"""The disk of a production process: the files of one directory, with blocking calls in threads.

Reads have their own threads, so that they are never queued behind writes. A job goes to a thread
through a C queue and returns by one ``call_soon_threadsafe``, which costs less than the two futures
of an executor; that matters at thousands of group commits per second. A small durable write needs
no thread at all: the event loop writes it and the kernel syncs it (see ``aio_sync``).

Invariants:
1. a descriptor is closed only when no thread uses it, because its number may be reused immediately;
2. cancelling a caller cancels its wait and not the work, which runs to its end;
3. one process at a time owns the directory, by a lock that the kernel releases with the process.
"""

import asyncio
import ctypes
import errno
import fcntl
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
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

_WRITE_THREADS = 2  # one for the group commit of the write log, one for background rewriting
_READ_THREADS = 4
_BUFFERS_MAX = 1024  # IOV_MAX of Linux
_INLINE_BYTES = 4096
_FALLOC_FL_KEEP_SIZE = 1
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_FALLOCATE = {errno.EOPNOTSUPP, errno.ENOSYS}
_FS_IOC_GETVERSION = 0x80087601  # _IOR('v', 1, long): the generation of an inode
_NO_GENERATION = {errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM}


class _WorkerThreads:
    """Threads that run blocking calls from one queue; they are started on demand."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._jobs: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._threads = 0
        self._job_count = 0

    def submit(
        self, work: Callable[..., Any], args: Sequence[object], on_end: Callable[..., None]
    ) -> None:
        """Run ``work(*args)`` in a thread, then ``on_end(result, error)`` in the loop."""
        loop = asyncio.get_running_loop()
        self._job_count += 1
        if self._threads < min(self._job_count, self._size):
            self._start_thread()

        def end(result: object, error: BaseException | None) -> None:
            self._job_count -= 1
            on_end(result, error)

        def job() -> None:
            result, failure = None, None
            try:
                result = work(*args)
            except BaseException as error:  # it is raised where the call is awaited
                failure = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, result, failure)

        self._jobs.put(job)

    async def call(self, work: Callable[..., T], *args: object) -> T:
        """Submit a call and wait for its result."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(work, args, lambda result, error: _settle_future(future, result, error))
        return await future

    def stop(self) -> None:
        """End the threads after the queued jobs. Safe to repeat."""
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


def _settle_future(
    future: "asyncio.Future[Any]", result: object, error: BaseException | None
) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class _Workers:
    """The threads, asynchronous I/O and statistics that the files of one disk share."""

    def __init__(self, name: str) -> None:
        self.reads = _WorkerThreads(f"read-{name}", _READ_THREADS)
        self.writes = _WorkerThreads(f"write-{name}", _WRITE_THREADS)
        self.aio = open_aio()
        self.inline = InlineWritePolicy()
        self.small_inline = InlineWritePolicy()
        """For writes of a few bytes, which are rarely slow, also while large ones are."""
        self.syncs = Histogram()

    def stop(self) -> None:
        """End the threads after their queued jobs, and wait for the kernel syncs."""
        self.reads.stop()
        self.writes.stop()
        if self.aio is not None:
            self.aio.close()


class PosixFile:
    """An open file of a ``PosixDisk``; implements ``core.runtime.disk.File``."""

    def __init__(self, path: str, descriptor: int, workers: _Workers) -> None:
        self._path = path
        self._descriptor = descriptor
        self._workers = workers
        self._reads = workers.reads
        self._writes = workers.writes
        self._users = 0
        self._is_closed = False

    @property
    def path(self) -> str:
        """The path that the file was opened with."""
        return self._path

    async def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write the buffers consecutively at ``offset``; they are not durable yet.

        A few bytes are written in the event loop, which costs less than a thread.
        """
        began, inline = time.perf_counter(), self._workers.small_inline
        size = sum(map(len, buffers))
        if size > _INLINE_BYTES or self._is_closed or not inline.may_write_inline(size, began):
            await self._use(self._writes, _write, offset, buffers)
            return
        try:
            _write(self._descriptor, offset, buffers)
        except OSError as error:
            raise _translated(error, self._path) from error
        inline.note(began, time.perf_counter())

    async def write_durable(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write and sync in one step: the data is durable on return."""
        began = time.perf_counter()
        if self._workers.inline.may_write_inline(sum(map(len, buffers)), began):
            await self._write_durable_inline(offset, buffers, began)
        else:
            await self._use(self._writes, _write_durable, offset, buffers)
        self._workers.syncs.add(time.perf_counter() - began)

    async def sync(self) -> None:
        """Make everything written so far durable."""
        await self._use(self._writes, os.fdatasync)

    async def read(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``; fewer only at the end of the file."""
        return await self._use(self._reads, _read, offset, length)

    async def size(self) -> int:
        """Return the length in bytes."""
        return (await self._use(self._reads, os.fstat)).st_size

    async def truncate(self, length: int) -> None:
        """Cut or extend (with zeros) the file to ``length``; durable after ``sync``."""
        await self._use(self._writes, os.ftruncate, length)

    async def close(self) -> None:
        """Close the file as soon as no thread uses it, without a sync. Safe to repeat."""
        if not self._is_closed:
            self._is_closed = True
            self._release_if_idle()

    async def _write_durable_inline(
        self, offset: int, buffers: Sequence[bytes], began: float
    ) -> None:
        future, end = self._begin_use()
        try:
            _write(self._descriptor, offset, buffers)
        except OSError as error:
            end(None, error)
        else:
            self._workers.inline.note(began, time.perf_counter())
            aio = self._workers.aio
            if aio is None or not aio.submit(self._descriptor, end):
                self._writes.submit(os.fdatasync, (self._descriptor,), end)
        await self._wait_for(future)

    async def _use(self, threads: _WorkerThreads, work: Callable[..., T], *args: object) -> T:
        future, end = self._begin_use()
        threads.submit(work, (self._descriptor, *args), end)
        result: T = await self._wait_for(future)
        return result

    def _begin_use(self) -> "tuple[asyncio.Future[Any], OnEnd]":
        """Keep the descriptor open until ``end`` is called, which sets the future."""
        if self._is_closed:
            raise ClosedError(f"{self._path} is closed")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._users += 1

        def end(result: object, error: BaseException | None) -> None:
            self._users -= 1
            self._release_if_idle()
            _settle_future(future, result, error)

        return future, end

    async def _wait_for(self, future: "asyncio.Future[Any]") -> Any:  # noqa: ANN401 - the work's own
        try:
            return await future
        except OSError as error:
            raise _translated(error, self._path) from error

    def _release_if_idle(self) -> None:
        if self._is_closed and not self._users:
            # Not awaited: closing may free the blocks of a removed file; its result is unused.
            self._writes.submit(os.close, (self._descriptor,), lambda result, error: None)


class PosixDisk:
    """The files below ``root``, created if missing; implements ``core.runtime.disk.Disk``.

    The constructor blocks; the methods do not. Raises ForeignDataError when another process (or
    another ``PosixDisk`` of this one) owns the directory, DiskFailedError when it is unusable.
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
        self._workers = _Workers(self.root.name)
        self._reads, self._writes = self._workers.reads, self._workers.writes
        self._is_closed = False

    @property
    def syncs(self) -> Histogram:
        """Durations of durable writes, from call to return: the cost of a commit group."""
        return self._workers.syncs

    @property
    def lock_name(self) -> str:
        """An identifier of the locked directory, valid until the operating system restarts."""
        status = os.fstat(self._lock)
        return f"{status.st_dev:x}:{status.st_ino:x}"

    async def open(self, path: str, *, create: bool = False, allocate_bytes: int = 0) -> File:
        """Open for reading and writing; with ``create`` an existing file is a DiskFailedError."""
        full = self._resolve(path)
        descriptor = await self._call(self._writes, path, _open, full, create, allocate_bytes)
        return PosixFile(path, descriptor, self._workers)

    async def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted. Raises FileNotFoundError."""
        return sorted(await self._call(self._reads, path, os.listdir, self._resolve(path)))

    async def make_directory(self, path: str) -> None:
        """Create the directory and its parents, unless they exist."""
        await self._call(self._writes, path, _make_directory, self._resolve(path))

    async def rename(self, old: str, new: str) -> None:
        """Rename a file atomically, replacing ``new``."""
        await self._call(self._writes, old, os.replace, self._resolve(old), self._resolve(new))

    async def remove(self, path: str) -> None:
        """Remove a file. Raises FileNotFoundError."""
        await self._call(self._writes, path, os.unlink, self._resolve(path))

    async def file_identity(self, path: str) -> str:
        """Return the number and the generation of the file's inode. Raises FileNotFoundError."""
        return await self._call(self._reads, path, _file_identity, self._resolve(path))

    async def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in ``path`` durable."""
        await self._call(self._writes, path, _sync_directory, self._resolve(path))

    async def free_bytes(self) -> int:
        """Return the space available to an unprivileged user."""
        status = await self._call(self._reads, "", os.statvfs, self.root)
        return status.f_bavail * status.f_frsize

    async def total_bytes(self) -> int:
        """Return the capacity of the device, used and free."""
        status = await self._call(self._reads, "", os.statvfs, self.root)
        return status.f_blocks * status.f_frsize

    def close(self) -> None:
        """Release the directory, and end the threads after their queued jobs. Safe to repeat."""
        if not self._is_closed:
            self._is_closed = True
            self._workers.stop()
            os.close(self._lock)

    async def _call(
        self, threads: _WorkerThreads, path: str, work: Callable[..., T], *args: object
    ) -> T:
        if self._is_closed:
            raise ClosedError(f"the disk {self.root} is closed")
        try:
            return await threads.call(work, *args)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _translated(error, str(self.root / path)) from error

    def _resolve(self, path: str) -> Path:
        """Return the path below the root ("" is the root). Refuses paths that could leave it."""
        parts = path.split("/")
        if path and any(part in ("", ".", "..") or "\x00" in part for part in parts):
            raise InvalidArgumentError(f"bad path {path[:80]!r}: it must stay inside the directory")
        return self.root.joinpath(*parts)


class DataDisks:
    """Opens data directories, which are closed with ``closing``."""

    def __init__(self, closing: AsyncExitStack) -> None:
        self._closing = closing

    def open(self, path: str) -> PosixDisk:
        """Open a directory that exists.

        Raises ForeignDataError (it does not exist, or is in use), InvalidArgumentError (a relative
        path), DiskFailedError.
        """
        if not Path(path).is_absolute():
            raise InvalidArgumentError(f"{path}: the path of a data directory must be absolute")
        if not Path(path).is_dir():
            raise ForeignDataError(
                f"{path}: no such directory; mount its disk, or move it from bookie.data_dirs to "
                "bookie.lost_data_dirs if the disk is lost for good"
            )
        disk = PosixDisk(path)
        self._closing.callback(disk.close)
        return disk


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
        if written < size:  # a full disk or a signal: write the rest without vectors, or fail
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
    """Reserve blocks without changing the file's size, if the file system supports it."""
    libc = ctypes.CDLL(None, use_errno=True)
    length = ctypes.c_int64(size)
    if libc.fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, ctypes.c_int64(0), length) == 0:
        return
    number = ctypes.get_errno()
    if number not in _NO_FALLOCATE:
        raise OSError(number, os.strerror(number))


def _make_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def _file_identity(path: Path) -> str:
    """Return ``inode.generation``, in hexadecimal.

    Inode numbers are used again soon after a file was removed, with another generation. A file
    system without generations counts as generation 0; it may take a copy for the original then.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        number = os.fstat(descriptor).st_ino
        try:
            found = fcntl.ioctl(descriptor, _FS_IOC_GETVERSION, bytes(8))
        except OSError as error:
            if error.errno not in _NO_GENERATION:
                raise
            found = bytes(8)
        return f"{number:x}.{int.from_bytes(found[:4], sys.byteorder):x}"
    finally:
        os.close(descriptor)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

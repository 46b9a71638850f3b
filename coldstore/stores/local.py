"""A cold store in a local directory.

An object is written to a temporary file, synced, and linked to the object's name. Unlike a rename,
a link refuses to replace an existing file, so exactly one of several writers succeeds. Temporary
files have a folder of their own, which is never listed. The first write of each process deletes
temporary files there that a crash left behind at least a day ago.
"""

import contextlib
import errno
import os
import time
from pathlib import Path
from random import SystemRandom

from ...core.protocol.errors import (
    CorruptionError,
    DiskFullError,
    InvalidArgumentError,
    NoSuchObjectError,
    UnauthorizedError,
    UnavailableError,
)
from ...core.runtime.cold_store import OBJECT_BYTES_MAX, ObjectStat, check_key
from .blocking_calls import BlockingCalls

_UPLOADING = ".uploading"
_LEFTOVER_AGE_S = 24 * 3600


class LocalColdStore:
    """Stores objects as plain files below ``root``, which the first write creates if needed."""

    def __init__(self, root: Path, *, timeout_ms: int = 60_000, threads: int = 4) -> None:
        self._root = root
        self._calls = BlockingCalls("local cold store", threads=threads, timeout_ms=timeout_ms)
        self._is_swept = False

    @property
    def uri(self) -> str:
        """The URI ``file:///path``."""
        return self._root.absolute().as_uri()

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ColdStore."""
        path = self._path(key)
        if len(data) > OBJECT_BYTES_MAX:
            raise InvalidArgumentError(
                f"{key}: {len(data)} bytes are more than {OBJECT_BYTES_MAX} bytes"
            )
        if not self._is_swept:
            self._is_swept = True
            await self._calls.write(lambda: sweep_leftovers(self._root))
        return await self._calls.write(lambda: _put(self._root, path, data))

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See ColdStore."""
        path = self._path(key)
        return await self._calls.read(lambda: _get(key, path, offset, length))

    async def stat(self, key: str) -> ObjectStat:
        """See ColdStore. Returns no SHA-256, because plain files keep none."""
        path = self._path(key)
        return await self._calls.read(lambda: _stat(key, path))

    async def list(self, prefix: str = "") -> list[str]:
        """See ColdStore."""
        top = self._path(prefix) if prefix else self._root
        return await self._calls.read(lambda: _list(self._root, top))

    async def delete(self, key: str) -> None:
        """See ColdStore. Directories that become empty remain."""
        path = self._path(key)
        await self._calls.write(lambda: _delete(path))

    async def close(self) -> None:
        """See ColdStore."""
        await self._calls.close()

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)


def sweep_leftovers(root: Path) -> int:
    """Delete temporary files that are at least a day old, and return their number."""
    swept = 0
    try:
        for path in (root / _UPLOADING).glob("*"):
            with contextlib.suppress(
                FileNotFoundError
            ):  # it was linked or swept by another process
                if time.time() - path.stat().st_mtime >= _LEFTOVER_AGE_S:
                    path.unlink()
                    swept += 1
    except OSError as error:
        raise _translate_error(error, root / _UPLOADING) from error
    return swept


def _put(root: Path, path: Path, data: bytes) -> bool:
    uploading = root / _UPLOADING
    temporary = uploading / f"{SystemRandom().getrandbits(64):016x}"
    try:
        for directory in (uploading, path.parent):
            directory.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        _sync_directories(root, path.parent)
        return True
    except OSError as error:
        raise _translate_error(error, path) from error
    finally:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            temporary.unlink()


def _sync_directories(root: Path, directory: Path) -> None:
    """Sync ``directory`` and those above it up to ``root``, which may be new."""
    levels = len(directory.relative_to(root).parts)
    for level in (directory, *list(directory.parents)[:levels]):
        descriptor = os.open(level, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _get(key: str, path: Path, offset: int, length: int | None) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(-1 if length is None else length)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise NoSuchObjectError(f"no object {key}") from error
    except OSError as error:
        raise _translate_error(error, path) from error


def _stat(key: str, path: Path) -> ObjectStat:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoSuchObjectError(f"no object {key}") from error
    except OSError as error:
        raise _translate_error(error, path) from error
    if not path.is_file():
        raise NoSuchObjectError(f"{key} is a directory, not an object")
    return ObjectStat(found.st_size, None)


def _list(root: Path, top: Path) -> list[str]:
    if top.is_file():
        return [top.relative_to(root).as_posix()]
    keys = (path.relative_to(root).as_posix() for path in top.rglob("*") if path.is_file())
    return sorted(key for key in keys if not key.startswith(f"{_UPLOADING}/"))


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _translate_error(error, path) from error


def _translate_error(error: OSError, path: Path) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFullError(f"{path}: no space left")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return UnauthorizedError(f"{path}: {error.strerror}")
    if error.errno == errno.EIO:
        return CorruptionError(f"{path}: input/output error of the disk")
    return UnavailableError(f"{path}: {error.strerror}")

"""The process file of a ``rhumbline dev`` directory: which process serves it, and if it is ready.

The serving process holds a lock on ``dev.pid`` that the kernel releases with it. The file contains
the process id, and the word ``ready`` behind it once the cluster serves. So a file that a killed
process left behind is recognized.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...core.protocol.errors import InvalidArgumentError, RefusedError

FILE_NAME = "dev.pid"
_READY = "ready"
_TRIES = 10
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class DevProcess:
    """A process that serves a directory now."""

    pid: int
    is_ready: bool


class DevLock:
    """The lock on a directory, held by this process; created by ``locked``."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._write(f"{os.getpid()}\n")

    def set_ready(self) -> None:
        """Record that the cluster serves."""
        self._write(f"{os.getpid()} {_READY}\n")

    def _write(self, text: str) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)


@contextmanager
def locked(directory: Path) -> Iterator[DevLock]:
    """Hold the lock on ``directory`` until the block ends.

    Raises RefusedError when another process holds it, InvalidArgumentError when the file cannot be
    written.
    """
    file = directory / FILE_NAME
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InvalidArgumentError(f"{file}: {error.strerror}") from error
    try:
        if not _lock_soon(descriptor):
            raise RefusedError(
                f"{directory} is in use by another `rhumbline dev`; stop it with "
                f"`rhumbline dev {directory} --stop`, or choose another directory"
            )
        yield DevLock(descriptor)
    finally:
        os.close(descriptor)


def running_process(directory: Path) -> DevProcess | None:
    """Return the process that serves ``directory``, or None."""
    try:
        descriptor = os.open(directory / FILE_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidArgumentError(f"{directory / FILE_NAME}: {error.strerror}") from error
    try:
        if _try_lock(descriptor, fcntl.LOCK_SH):
            return None  # left behind by a process that was killed
        pid, _, word = os.pread(descriptor, 64, 0).decode("ascii", "replace").partition(" ")
        return DevProcess(int(pid), word.strip() == _READY) if pid.strip().isdigit() else None
    finally:
        os.close(descriptor)


def _lock_soon(descriptor: int) -> bool:
    """Lock the file, although ``running_process`` of another process may hold it for a moment."""
    for _ in range(_TRIES):
        if _try_lock(descriptor, fcntl.LOCK_EX):
            return True
        time.sleep(_PAUSE_S)
    return False


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True

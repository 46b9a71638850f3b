"""A file of lines that is renamed when it is large; processes of one machine may share it."""

import fcntl
import os
from pathlib import Path


class RotatingFile:
    """Appends whole lines to a file. Files are named FILE, FILE.1 (the newest old one), FILE.2...

    Each write first checks whether another process has renamed the file, so that at most the lines
    of one write end up in the renamed one.
    """

    def __init__(self, path: Path, *, bytes_max: int, kept: int, syncs: bool) -> None:
        """Open or create the file. Raises OSError."""
        self._path = path
        self._bytes_max = bytes_max
        self._kept = kept
        self._syncs = syncs
        self._is_torn = False
        self._fd = self._open()

    def append(self, data: bytes) -> None:
        """Write lines, durably if the file ``syncs``. Raises OSError; then some may be missing."""
        self._follow()
        size = os.fstat(self._fd).st_size
        if size and size + len(data) > self._bytes_max:
            self._rotate()
        if self._is_torn:
            data = b"\n" + data
        self._is_torn = True  # until all of it is written
        while data:
            data = data[os.write(self._fd, data) :]
        self._is_torn = False
        if self._syncs:
            os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the file. Nothing may follow."""
        os.close(self._fd)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _follow(self) -> None:
        """Open the file again if its name belongs to another one, or to none."""
        if not self._is_current():
            opened = self._open()
            os.close(self._fd)
            self._fd = opened

    def _is_current(self) -> bool:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return False
        own = os.fstat(self._fd)
        return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)

    def _rotate(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)  # ends when the descriptor is closed
        if self._is_current():
            for number in range(self._kept - 1, 0, -1):
                older = self._numbered(number)
                if older.exists():
                    older.rename(self._numbered(number + 1))
            self._path.rename(self._numbered(1))
        self._follow()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

"""Detects with one system call that no process has committed since the last check.

This saves a query in SQLite's thread fifty times a second. Every commit writes to the write-ahead
log, which changes the log's size or its modification time. That time advances in ticks of some
milliseconds, and two commits within one tick may leave the same values. A check is therefore only
remembered if the last modification is more than ``SETTLED_MS`` old when the check begins.
"""

import os
import time
from pathlib import Path

SETTLED_MS = 100
"""Age in milliseconds of a settled timestamp, well above any kernel's tick of at most 10 ms."""

_Stamp = tuple[int, int, int]


class ChangeProbe:
    """The probe of one database file."""

    def __init__(self, path: Path) -> None:
        self._log = f"{path}-wal"
        self._checked: _Stamp | None = None

    @property
    def is_certain(self) -> bool:
        """True if nothing was committed since the last check began; False if that is unknown."""
        return self._checked is not None and self._stamp() == self._checked

    def begin_check(self) -> None:
        """Remember the state of the log, before the database is queried."""
        stamp = self._stamp()
        self._checked = None
        if stamp is not None and time.time_ns() - stamp[2] > SETTLED_MS * 1_000_000:
            self._checked = stamp

    def reset(self) -> None:
        """Discard the remembered state, since the query failed."""
        self._checked = None

    def _stamp(self) -> _Stamp | None:
        try:
            found = os.stat(self._log)  # in memory as long as the file is open
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

"""Whether anybody can have committed since the last look: one system call, instead of a question
to SQLite in its thread fifty times a second.

Every commit writes to the write-ahead log, which changes its size or its time of change. That time
goes by ticks of some milliseconds, and two commits of one tick may look the same; so a look counts
only if the last change is ``SETTLED_MS`` old when it begins.
"""

import os
import time
from pathlib import Path

SETTLED_MS = 100
"""Far above the tick of any kernel (10 ms at most)."""

_Stamp = tuple[int, int, int]


class ChangeProbe:
    """Of one database file."""

    def __init__(self, path: Path) -> None:
        self._log = f"{path}-wal"
        self._checked: _Stamp | None = None

    @property
    def is_certain(self) -> bool:
        """Nothing was committed since the last look began."""
        return self._checked is not None and self._stamp() == self._checked

    def begin_check(self) -> None:
        """A look begins now."""
        stamp = self._stamp()
        self._checked = None
        if stamp is not None and time.time_ns() - stamp[2] > SETTLED_MS * 1_000_000:
            self._checked = stamp

    def reset(self) -> None:
        """The look failed."""
        self._checked = None

    def _stamp(self) -> _Stamp | None:
        try:
            found = os.stat(self._log)  # in memory as long as the file is open
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

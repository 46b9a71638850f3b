"""Polls the database file for changes by this and other processes, and fires the watches.

Since every process of a cluster does this fifty times a second, it uses a timer instead of a task:
usually one system call shows that nothing has changed (see ``change_probe``), and SQLite's thread
is not used.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from ...core.protocol.errors import MetadataError
from ...core.runtime.tasks import Tasks
from ..watches import Watches
from .change_probe import ChangeProbe

POLL_MS = 20
"""Interval in milliseconds between checks with the probe."""

CHECK_INTERVAL_MS_MAX = 1_000
"""Longest interval in milliseconds between queries of the database, even without a known change."""

ReadChanges = Callable[[int], Awaitable[tuple[int, list[str] | None]]]
"""Returns the number of the last change, and the paths changed after a number (None: unknown)."""


class Poller:
    """The poller of one handle; each ``start`` fires all watches once."""

    def __init__(self, path: Path, read_changes: ReadChanges, tasks: Tasks) -> None:
        self.watches: Watches | None = None
        """The watches to fire; set before the first start."""
        self._read_changes = read_changes
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._probe = ChangeProbe(path)
        self._last_number = -1
        self._check_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_check_wanted = False

    @property
    def is_running(self) -> bool:
        """True between ``start`` and ``stop``."""
        return self._timer is not None or self._task is not None

    def start(self) -> None:
        """Start polling. Safe to repeat."""
        if not self.is_running:
            self._last_number = -1
            self._start_check()

    def stop(self) -> None:
        """Stop polling. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def check_soon(self) -> None:
        """Check without delay, since this handle itself changed something."""
        if self._task is not None:
            self._is_check_wanted = True
        elif self._timer is not None:
            self._timer.cancel()
            self._start_check()

    def _tick(self) -> None:
        if self._loop.time() >= self._check_at or not self._probe.is_certain:
            self._start_check()
        else:
            self._pause()

    def _pause(self) -> None:
        self._timer = self._loop.call_later(POLL_MS / 1000, self._tick)

    def _start_check(self) -> None:
        self._timer = None
        self._task = self._tasks.spawn(self._check(), "sqlite watches")

    async def _check(self) -> None:
        self._is_check_wanted = True
        while self._is_check_wanted:
            self._is_check_wanted = False
            await self._check_once()
        self._task = None
        self._pause()

    async def _check_once(self) -> None:
        assert self.watches is not None
        self._check_at = self._loop.time() + CHECK_INTERVAL_MS_MAX / 1000
        self._probe.begin_check()
        try:
            number, paths = await self._read_changes(self._last_number)
        except MetadataError:
            self._probe.reset()
            self._last_number = -1
            return
        if paths is None or self._last_number < 0:
            self.watches.fire_all()
        else:
            self.watches.changed(paths)
        self._last_number = number

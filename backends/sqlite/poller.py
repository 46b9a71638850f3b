"""Tells watches of changes, those of other processes too, by looking at the file again and again.

A timer and no task, since every process of a cluster does this fifty times a second: most of the
times one system call says that there is nothing to ask SQLite in its thread (see ``quiet``).
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from ...core.protocol.errors import MetadataError
from ...core.runtime.tasks import Tasks
from ..watches import Watches
from .change_probe import ChangeProbe

POLL_MS = 20
"""How often it is asked whether another process changed a watched file."""

CHECK_INTERVAL_MS_MAX = 1_000
"""So often the file itself is asked, whatever its write-ahead log looks like from outside."""

ReadChanges = Callable[[int], Awaitable[tuple[int, list[str] | None]]]
"""The number of the last change, and the paths changed after a number (None: too many to say)."""


class Poller:
    """Of one handle. It looks while it is started, from the beginning each time."""

    def __init__(self, path: Path, read_changes: ReadChanges, tasks: Tasks) -> None:
        self.watches: Watches | None = None
        """Set before the first start."""
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
        """Between ``start`` and ``stop``."""
        return self._timer is not None or self._task is not None

    def start(self) -> None:
        """Begins. Safe to repeat."""
        if not self.is_running:
            self._last_number = -1
            self._start_check()

    def stop(self) -> None:
        """Ends. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def check_soon(self) -> None:
        """This handle itself changed something."""
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

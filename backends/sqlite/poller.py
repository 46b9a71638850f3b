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

LOOK_MS_MAX = 1_000
"""So often the file itself is asked, whatever its write-ahead log looks like from outside."""

Ask = Callable[[int], Awaitable[tuple[int, list[str] | None]]]
"""The number of the last change, and the paths changed after a number (None: too many to say)."""


class Poller:
    """Of one handle. It looks while it is started, from the beginning each time."""

    def __init__(self, path: Path, ask: Ask, tasks: Tasks) -> None:
        self.watches: Watches | None = None
        """Set before the first start."""
        self._ask = ask
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._quiet = ChangeProbe(path)
        self._seen = -1
        self._look_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_hurried = False

    @property
    def is_running(self) -> bool:
        """Between ``start`` and ``stop``."""
        return self._timer is not None or self._task is not None

    def start(self) -> None:
        """Begins. Safe to repeat."""
        if not self.is_running:
            self._seen = -1
            self._look_soon()

    def stop(self) -> None:
        """Ends. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def hurry(self) -> None:
        """This handle itself changed something."""
        if self._task is not None:
            self._is_hurried = True
        elif self._timer is not None:
            self._timer.cancel()
            self._look_soon()

    def _tick(self) -> None:
        if self._loop.time() >= self._look_at or not self._quiet.is_certain:
            self._look_soon()
        else:
            self._pause()

    def _pause(self) -> None:
        self._timer = self._loop.call_later(POLL_MS / 1000, self._tick)

    def _look_soon(self) -> None:
        self._timer = None
        self._task = self._tasks.spawn(self._look(), "sqlite watches")

    async def _look(self) -> None:
        self._is_hurried = True
        while self._is_hurried:
            self._is_hurried = False
            await self._look_once()
        self._task = None
        self._pause()

    async def _look_once(self) -> None:
        assert self.watches is not None
        self._look_at = self._loop.time() + LOOK_MS_MAX / 1000
        self._quiet.look()
        try:
            number, paths = await self._ask(self._seen)
        except MetadataError:
            self._quiet.forget()
            self._seen = -1
            return
        if paths is None or self._seen < 0:
            self.watches.all_changed()
        else:
            self.watches.changed(paths)
        self._seen = number

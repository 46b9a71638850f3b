"""Single flight: at most one run of a piece of work at a time, however often it is requested."""

import asyncio
from collections.abc import Awaitable, Callable

from ..tasks import Tasks, wait_until_done


class SingleFlight:
    """Runs ``work`` in a task of ``tasks`` after each request.

    Requests during a run cause one further run after it, so that every request is followed by a
    whole run. An exception of ``work`` ends the run, and its owner is that of ``tasks``.
    """

    __slots__ = ("_is_requested", "_name", "_task", "_tasks", "_work")

    def __init__(self, tasks: Tasks, work: Callable[[], Awaitable[None]], name: str) -> None:
        self._tasks = tasks
        self._work = work
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self._is_requested = False

    def request(self) -> None:
        """Request a run. Safe to repeat; nothing runs any more once ``tasks`` is closed."""
        self._is_requested = True
        if self._task is None and not self._tasks.is_closed:
            self._task = self._tasks.spawn(self._run(), self._name)

    async def aclose(self) -> None:
        """Cancel the present run, if any, and wait until it has ended."""
        if self._task is not None:
            self._task.cancel()
            await wait_until_done(self._task)

    async def _run(self) -> None:
        try:
            while self._is_requested:
                self._is_requested = False
                await self._work()
        finally:
            self._task = None

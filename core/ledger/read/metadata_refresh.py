"""Looking something up in the metadata store, for reads that can go on without it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ...protocol.errors import RhumblineError, UnavailableError
from ...runtime.tasks import Tasks, settled

LOOK_MS = 500
"""How long reads wait for one look: longer than a round trip between continents, far shorter than
the time-outs of a store that is away."""


class MetadataRefresh:
    """A look that several share. Nobody waits for it beyond ``LOOK_MS`` after its beginning; it
    goes on by itself until the store answers or gives up."""

    __slots__ = ("_error", "_task", "_until", "has_told")

    def __init__(self, tasks: Tasks, work: Callable[[], Awaitable[Any]], name: str) -> None:
        self.has_told = False
        """Whether the store has answered: what is known is what it says."""
        self._error: RhumblineError | None = None
        self._until = asyncio.get_running_loop().time() + LOOK_MS / 1000
        self._task = tasks.spawn(self._run(work), name)

    async def _run(self, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            await work()
            self.has_told = True
        except UnavailableError:
            return  # nothing was learnt
        except RhumblineError as error:
            self._error = error

    @property
    def is_over(self) -> bool:
        """Whether the store has answered or given up."""
        return self._task.done()

    async def wait(self) -> None:
        """Waits for the end, a little. Raises what the store said, unless it was unavailable."""
        try:
            async with asyncio.timeout_at(self._until):
                await settled(self._task)
        except TimeoutError:
            return
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        """Gives the look up. Safe to repeat."""
        self._task.cancel()
        await settled(self._task)

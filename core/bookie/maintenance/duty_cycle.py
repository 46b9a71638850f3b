"""Pauses between slices of background work, so that what clients wait for comes first."""

import asyncio
from collections.abc import Awaitable, Callable

_PAUSE_S_MAX = 1.0


async def nothing_between() -> None:
    """What is done in a pause when nothing has to be."""


class DutyCycle:
    """One piece of background work takes ``share`` (0 to 1) of the time that it goes on.

    Waiting for the disk counts as work: a busy disk is left alone the longer. ``between`` is
    awaited in each pause: what must not wait for the end of long work.
    """

    def __init__(
        self,
        share: Callable[[], float] = lambda: 1.0,
        between: Callable[[], Awaitable[None]] = nothing_between,
    ) -> None:
        self._share = share
        self._between = between
        self._since_s = 0.0

    def begin(self) -> None:
        """Work begins."""
        self._since_s = asyncio.get_running_loop().time()

    async def pause(self) -> None:
        """After a slice that held the loop for a millisecond at most."""
        loop = asyncio.get_running_loop()
        worked_s = loop.time() - self._since_s
        pause_s = worked_s / max(self._share(), 0.01) - worked_s
        await asyncio.sleep(min(max(pause_s, 0.0), _PAUSE_S_MAX))
        await self._between()
        self._since_s = loop.time()

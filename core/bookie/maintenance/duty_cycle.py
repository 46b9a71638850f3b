"""A duty cycle: pauses between slices of background work, so that client requests come first."""

import asyncio
from collections.abc import Awaitable, Callable

_PAUSE_S_MAX = 1.0


async def do_nothing() -> None:
    """The default work in a pause: none."""


class DutyCycle:
    """Limits background work to a ``share`` (0 to 1) of the elapsed time.

    Waiting for the disk counts as work, so pauses are longer when the disk is busy. ``between`` is
    awaited in each pause, for urgent work that must not wait until the background work ends.
    """

    def __init__(
        self,
        share: Callable[[], float] = lambda: 1.0,
        between: Callable[[], Awaitable[None]] = do_nothing,
    ) -> None:
        self._share = share
        self._between = between
        self._since_s = 0.0

    def begin(self) -> None:
        """Starts measuring the work."""
        self._since_s = asyncio.get_running_loop().time()

    async def pause(self) -> None:
        """Pauses after a slice, which should block the event loop for at most a millisecond."""
        loop = asyncio.get_running_loop()
        worked_s = loop.time() - self._since_s
        pause_s = worked_s / max(self._share(), 0.01) - worked_s
        await asyncio.sleep(min(max(pause_s, 0.0), _PAUSE_S_MAX))
        await self._between()
        self._since_s = loop.time()

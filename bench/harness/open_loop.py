"""The due times of an open loop, in which slow responses do not delay later requests."""

import asyncio
import time

_TICK_SECONDS = 0.001


class OpenLoop:
    """Requests that are due at a fixed rate, numbered from 0, the first one now.

    A request that is timed from when it was due includes the time that it waited to be sent, which
    avoids coordinated omission.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate  # requests per second
        self._started = time.perf_counter()
        self._next = 0

    def due_at(self, number: int) -> float:
        """Return when a request is due, on the clock ``time.perf_counter``."""
        return self._started + number / self._rate

    async def due(self) -> range:
        """Wait until requests become due, a millisecond or longer, and return their numbers."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            first, end = self._next, int((time.perf_counter() - self._started) * self._rate) + 1
            if end > first:
                self._next = end
                return range(first, end)

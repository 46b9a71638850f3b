"""Wakes a loop that waits: by a ring, or when its time is up."""

import asyncio
from contextlib import suppress


class Wakeup:
    """One waiter, any number of ringers; a ring while nobody waits is not forgotten."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wakes the waiter. Cheap, safe to repeat: may be a watch's callback."""
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """True when it rang, False when the time was up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        rang = self._event.is_set()
        self._event.clear()
        return rang

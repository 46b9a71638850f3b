"""Wakes a waiting loop, by a call or when a timeout expires."""

import asyncio
from contextlib import suppress


class Wakeup:
    """One waiter and any number of callers of ``wake``; a call while nobody waits is remembered."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Wake the waiter. Cheap and safe to repeat, so it may be the callback of a watch."""
        self._event.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for ``wake``. Returns True if it was called, False after ``seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        was_woken = self._event.is_set()
        self._event.clear()
        return was_woken

"""A read that concurrent callers share. None of them gets a state from before its call."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRead(Generic[T]):
    """Runs ``read`` once for all callers of one iteration of the event loop.

    Each caller gets the outcome of a run that began after its call, so the result is never older
    than that of a read of its own, and no caller waits longer for it. A run whose callers were all
    cancelled is cancelled.
    """

    __slots__ = ("_next", "_read", "_waiting")

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._next: asyncio.Task[T] | None = None  # it has not begun yet
        self._waiting: dict[asyncio.Task[T], int] = {}  # number of callers of each run

    async def get(self) -> T:
        """Return the result of a run. Raises what ``read`` raised in it."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._run(), name="shared read")
            self._waiting[self._next] = 0
        run = self._next
        self._waiting[run] += 1
        try:
            return await asyncio.shield(run)
        finally:
            self._waiting[run] -= 1
            if not self._waiting[run]:
                self._forget(run)

    async def _run(self) -> T:
        self._next = None
        return await self._read()

    def _forget(self, run: "asyncio.Task[T]") -> None:
        del self._waiting[run]
        if self._next is run:
            self._next = None
        run.cancel()

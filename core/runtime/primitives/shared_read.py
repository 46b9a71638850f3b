"""A read that concurrent callers share, although each needs what is true after its call."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRead(Generic[T]):
    """Runs ``read`` for its callers, one run at a time.

    Each caller gets the outcome of a run that began after its call, so the result is never older
    than that of a read of its own. All callers that come during a run share the next one.
    """

    __slots__ = ("_began", "_is_reading", "_outcome", "_read", "_run")

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._is_reading = asyncio.Lock()
        self._began = 0
        """Number of runs that began."""
        self._run = 0
        """The run of ``_outcome``."""
        self._outcome: asyncio.Future[T] | None = None

    async def get(self) -> T:
        """Return the result of a run. Raises what ``read`` raised in it."""
        before = self._began
        async with self._is_reading:
            if self._outcome is None or self._run <= before:
                self._outcome = await self._next_outcome()
            return self._outcome.result()

    async def _next_outcome(self) -> "asyncio.Future[T]":
        self._began += 1
        run = self._began
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            outcome.set_result(await self._read())
        except Exception as error:  # every caller of this run raises it
            outcome.set_exception(error)
        self._run = run
        return outcome

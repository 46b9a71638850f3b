"""Runs the calls of blocking store clients in threads, so that the event loop never blocks."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ...core.protocol.errors import UnavailableError, UnknownOutcomeError

T = TypeVar("T")


class BlockingCalls:
    """A thread pool for the calls of one store, with a deadline for every call.

    A thread cannot be interrupted. A call that misses its deadline continues in its thread, so a
    write that timed out has an unknown outcome.
    """

    def __init__(self, name: str, *, threads: int, timeout_ms: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._name = name
        self._timeout_s = timeout_ms / 1000

    async def read(self, call: Callable[[], T]) -> T:
        """Run a call that changes nothing. Raises UnavailableError if it times out."""
        return await self._run(call, UnavailableError)

    async def write(self, call: Callable[[], T]) -> T:
        """Run a call that may change something. Raises UnknownOutcomeError if it times out."""
        return await self._run(call, UnknownOutcomeError)

    async def _run(self, call: Callable[[], T], timeout_error: type[Exception]) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await future
        except TimeoutError as error:
            raise timeout_error(
                f"{self._name}: no response within {self._timeout_s:g} s"
            ) from error

    async def close(self) -> None:
        """Close the pool without waiting. Calls in progress end in their threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

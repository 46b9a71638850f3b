"""Blocking store clients behind a thread boundary: the loop never waits for a socket or a disk."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ...core.protocol.errors import UnavailableError, UnknownOutcomeError

T = TypeVar("T")


class BlockingCalls:
    """A few threads of one store, with a deadline for every call.

    A thread cannot be interrupted: a call that misses its deadline goes on in its thread, so a
    write that was given up on has an unknown outcome.
    """

    def __init__(self, name: str, *, threads: int, timeout_ms: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._name = name
        self._timeout_s = timeout_ms / 1000

    async def read(self, call: Callable[[], T]) -> T:
        """Runs a call that changes nothing. Raises UnavailableError when its time is up."""
        return await self._run(call, UnavailableError)

    async def write(self, call: Callable[[], T]) -> T:
        """Runs a call that may change something. Raises UnknownOutcomeError when its time is up."""
        return await self._run(call, UnknownOutcomeError)

    async def _run(self, call: Callable[[], T], late: type[Exception]) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await future
        except TimeoutError as error:
            raise late(f"{self._name}: no answer in {self._timeout_s:g} s") from error

    async def close(self) -> None:
        """Waits for nothing: calls that are under way end in their threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

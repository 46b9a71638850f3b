"""Reads from the metadata store on behalf of ledger reads, which can continue without a result."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ...protocol.errors import RhumblineError, UnavailableError
from ...runtime.tasks import Tasks, wait_until_done

WAIT_MS_MAX = 500
"""Longest wait of ledger reads for one refresh, in milliseconds.

It is longer than a round trip between continents, and far shorter than the timeouts of a metadata
store that is unavailable.
"""


class MetadataRefresh:
    """One read of the metadata store that several ledger reads share (rule LED-24).

    No caller waits beyond ``WAIT_MS_MAX`` after its start. It continues in a task of its own until
    the store responds or fails.
    """

    __slots__ = ("_deadline", "_error", "_task", "has_succeeded")

    def __init__(self, tasks: Tasks, work: Callable[[], Awaitable[Any]], name: str) -> None:
        self.has_succeeded = False
        """True once the store has responded, so that the known metadata is current."""
        self._error: RhumblineError | None = None
        self._deadline = asyncio.get_running_loop().time() + WAIT_MS_MAX / 1000
        self._task = tasks.spawn(self._run(work), name)

    async def _run(self, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            await work()
            self.has_succeeded = True
        except UnavailableError:
            return  # the known metadata stays in use
        except RhumblineError as error:
            self._error = error

    @property
    def is_done(self) -> bool:
        """True once the store has responded or failed."""
        return self._task.done()

    async def wait(self) -> None:
        """Waits until it is done or the deadline passes.

        Raises the error of the store, unless the store was unavailable.
        """
        try:
            async with asyncio.timeout_at(self._deadline):
                await wait_until_done(self._task)
        except TimeoutError:
            return
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        """Cancels the read. Safe to repeat."""
        self._task.cancel()
        await wait_until_done(self._task)

"""A run: reads a stream forward from one position for all readers that arrive there."""

import asyncio
from collections.abc import Sequence

from ...core.log.read.entry_source import EntryFetcher
from .entry_block import EntryBlock, EntryPosition

Outcome = Sequence[EntryBlock] | Exception
"""The result of a fetch: the blocks that were read, or the error for all waiting readers."""

_FIRST_REACH = 1_000


class SharedRun:
    """The position of a run, its source, and the readers that wait for its next blocks."""

    __slots__ = ("_waiters", "fetching", "is_closed", "position", "reach", "source", "users")

    def __init__(self, position: EntryPosition, source: EntryFetcher | None) -> None:
        self.position = position
        """The position of the next fetch."""
        self.source = source
        """None: the next fetch opens it at ``position``."""
        self.users = 0
        """Number of cursors that continue with this run; without any it is closed."""
        self.is_closed = False
        self.fetching: asyncio.Task[None] | None = None
        self.reach = _FIRST_REACH
        """Number of entries that one fetch returns, as far as it is known."""
        self._waiters: dict[asyncio.Future[Outcome | None], None] = {}

    def may_reach(self, position: EntryPosition) -> bool:
        """Return whether the fetch in progress may return the entry at ``position``."""
        return (
            self.fetching is not None
            and self.position[0] == position[0]
            and 0 <= position[1] - self.position[1] <= self.reach
        )

    async def arrival(self, timeout_s: float | None) -> Sequence[EntryBlock]:
        """Wait for the fetch in progress and return its blocks.

        Raises its error, and TimeoutError. Cancelling affects neither the fetch nor other readers.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Outcome | None] = loop.create_future()
        self._waiters[waiter] = None
        timer = None if timeout_s is None else loop.call_later(timeout_s, _expire, waiter)
        try:
            outcome = await waiter
        finally:
            self._waiters.pop(waiter, None)
            if timer is not None:
                timer.cancel()
        if outcome is None:
            raise TimeoutError
        if isinstance(outcome, Exception):
            raise outcome.with_traceback(None)
        return outcome

    def wake(self, outcome: Outcome) -> None:
        """Give the outcome of a fetch to all waiting readers."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(outcome)


def _expire(waiter: "asyncio.Future[Outcome | None]") -> None:
    if not waiter.done():
        waiter.set_result(None)

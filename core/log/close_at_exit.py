"""Closing at the end of an ``async with`` block without hiding how the block ended."""

import asyncio
from types import TracebackType
from typing import Self

CANCELLED_CLOSE_S_MAX = 2.0
"""Longest time that closing may delay the cancellation, or the time-out, of a block."""


class ClosesAtExit:
    """The end of an ``async with`` block closes the object.

    The block's own error wins, cancellation included: what closing raises is then attached to it as
    a note. Without one, the error of closing is raised. If the caller is cancelled while the object
    is closed, the cancellation is raised, with the block's error as its context. A block that was
    cancelled, by ``asyncio.timeout`` for example, closes for ``CANCELLED_CLOSE_S_MAX`` at most, and
    then stops without waiting.
    """

    __slots__ = ()

    async def _close_at_exit(self) -> None:
        """Close the object; called once at the end of each block."""
        raise NotImplementedError

    async def _abort_at_exit(self) -> None:
        """Stop without waiting for other processes, because the block was cancelled."""

    async def __aenter__(self) -> Self:
        """Return the object itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; an error of closing never hides an error of the block."""
        try:
            if isinstance(error, asyncio.CancelledError):
                await self._close_in_time(error)
            else:
                await self._close_at_exit()
        except Exception as failure:
            if error is None:
                raise
            if failure is not error:
                error.add_note(f"closing failed as well: {type(failure).__name__}: {failure}")

    async def _close_in_time(self, error: BaseException) -> None:
        try:
            async with asyncio.timeout(CANCELLED_CLOSE_S_MAX) as limit:
                await self._close_at_exit()
        except TimeoutError:
            if not limit.expired():
                raise
            error.add_note(f"closing was not finished after {CANCELLED_CLOSE_S_MAX:g} s")
            await self._abort_at_exit()

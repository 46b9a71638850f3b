"""Closing at the end of an ``async with`` block without hiding how the block ended."""

from types import TracebackType
from typing import Self


class ClosesAtExit:
    """The end of an ``async with`` block closes the object.

    The block's own error wins, cancellation included: what closing raises is then attached to it as
    a note. Without one, the error of closing is raised. If the caller is cancelled while the object
    is closed, the cancellation is raised, with the block's error as its context.
    """

    __slots__ = ()

    async def _close_at_exit(self) -> None:
        """Close the object; called once at the end of each block."""
        raise NotImplementedError

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
            await self._close_at_exit()
        except Exception as failure:
            if error is None:
                raise
            if failure is not error:
                error.add_note(f"closing failed as well: {type(failure).__name__}: {failure}")

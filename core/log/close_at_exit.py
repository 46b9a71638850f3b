"""Closing at the end of an ``async with`` block without hiding how the block ended."""

from collections.abc import Awaitable, Callable


async def close_at_exit(close: Callable[[], Awaitable[None]], error: BaseException | None) -> None:
    """Close at the end of a block that ended with ``error``, or with None.

    The block's own error wins, cancellation included: what ``close`` raises is then attached to it
    as a note. Without one, the error of ``close`` is raised. If the caller is cancelled while
    ``close`` runs, the cancellation is raised, with ``error`` as its context.
    """
    try:
        await close()
    except Exception as failure:
        if error is None:
            raise
        if failure is not error:
            error.add_note(f"closing failed as well: {type(failure).__name__}: {failure}")

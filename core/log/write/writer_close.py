"""The end of a writer session: everything settled, the segment completed, nothing left running."""

import asyncio
from collections.abc import Awaitable, Callable

from ...protocol.errors import DeadlineExceededError, RhumblineError
from ..config import WriterConfig
from .pipeline import Pipeline
from .segment_roll import SegmentRoll


async def close(
    pipeline: Pipeline,
    transition: SegmentRoll,
    config: WriterConfig,
    abort: Callable[[], Awaitable[None]],
    stream: str,
) -> None:
    """Waits until all that was submitted is settled, completes the segment, and stops (``abort``).

    Raises the pipeline's failure, DeadlineExceededError, or why the end could not be recorded.
    """
    pipeline.stop()  # closing makes all visible
    transition.limit(config.failover_ms_max)
    try:
        async with asyncio.timeout(config.close_ms_max / 1000):
            await pipeline.wait_until(
                lambda: (
                    (pipeline.is_drained or pipeline.failure is not None)
                    and not transition.is_running
                )
            )
        if pipeline.failure is not None:
            raise pipeline.failure.with_traceback(None)
        transition.limit(config.failover_ms_max)
        await transition.complete(pipeline.segment)
    except TimeoutError as error:
        raise DeadlineExceededError(
            f"stream {stream}: not all records were acknowledged within "
            f"{config.close_ms_max} ms of closing"
        ) from error
    finally:
        await abort()


async def leave(close: Callable[[], Awaitable[None]], error: BaseException | None) -> None:
    """Closes; an error of closing never hides the one that ends a block."""
    try:
        await close()
    except RhumblineError:
        if error is None:
            raise

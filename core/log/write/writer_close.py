"""The orderly close of a stream writer (rule STR-7)."""

import asyncio
from collections.abc import Awaitable, Callable

from ...protocol.errors import DeadlineExceededError
from ..config import WriterConfig
from .pipeline import Pipeline
from .segment_roll import SegmentRoll


async def close_writer(
    pipeline: Pipeline,
    segment_roll: SegmentRoll,
    config: WriterConfig,
    abort: Callable[[], Awaitable[None]],
    stream: str,
) -> None:
    """Wait until every submitted batch is settled, complete the segment, and call ``abort``.

    Raises the failure of the pipeline, DeadlineExceededError, or the error that prevented the
    completion of the segment.
    """
    pipeline.stop()  # closing the ledger makes all records visible
    segment_roll.limit_duration(config.failover_ms_max)
    try:
        async with asyncio.timeout(config.close_ms_max / 1000):
            await pipeline.wait_until(
                lambda: (
                    (pipeline.is_drained or pipeline.failure is not None)
                    and not segment_roll.is_running
                )
            )
        if pipeline.failure is not None:
            raise pipeline.failure.with_traceback(None)
        segment_roll.limit_duration(config.failover_ms_max)
        await segment_roll.complete(pipeline.segment)
    except TimeoutError as error:
        raise DeadlineExceededError(
            f"stream {stream}: not all records were acknowledged within {config.close_ms_max} ms "
            "of close"
        ) from error
    finally:
        await abort()

"""From one segment to the next: rolling, and going on after a ledger failed. One procedure.

The next segment is created and published while the old one still takes entries. Then the pipeline
is held until nothing is in flight; the old ledger is then either

- whole: entries go on to the next segment at once, the old ledger is closed and completed behind
  them; or
- failed: it is fenced and closed by recovery first, which says for each entry that was in flight
  whether it is in (acknowledged late) or absent (sent again, to the next segment).

Errors that may pass are tried again: for ever while the old ledger still works, up to a deadline
once it failed.

When the stream was lost nothing follows, but the old ledger's end is still looked for: whoever
waits for an entry that was in flight wants to know whether it is in.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ...protocol.errors import RhumblineError, UnknownOutcomeError
from ...protocol.segments import SegmentEnd
from ...runtime.tasks import Tasks
from ..config import WriterConfig
from ..policy import StreamPolicy
from .pipeline import Pipeline
from .segment_chain import OpenSegment, SegmentChain

T = TypeVar("T")


class SegmentRoll:
    """Owns the only task that a writer ever has."""

    def __init__(
        self,
        chain: SegmentChain,
        pipeline: Pipeline,
        config: WriterConfig,
        read_policy: Callable[[], Awaitable[StreamPolicy]],
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self._chain = chain
        self._pipeline = pipeline
        self._config = config
        self._read_policy = read_policy
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks(on_failure=on_bug)
        self._is_running = False
        self._is_wanted = False
        self._give_up_at: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether a transition is under way."""
        return self._is_running

    def begin(self) -> None:
        """Sees to it that another segment follows. Safe to repeat."""
        self._is_wanted = True
        has_failed = self._pipeline.ledger_failure or self._pipeline.failure
        if has_failed is not None and self._give_up_at is None:
            self._give_up_at = self._loop.time() + self._config.failover_ms_max / 1000
        if not self._is_running and not self._tasks.is_closed:
            self._is_running = True
            self._tasks.spawn(self._run(), "next segment")

    def limit(self, timeout_ms: int) -> None:
        """From now on a transition gives up after ``timeout_ms`` at the latest."""
        latest = self._loop.time() + timeout_ms / 1000
        self._give_up_at = latest if self._give_up_at is None else min(latest, self._give_up_at)

    async def aclose(self) -> None:
        """Stops a transition wherever it is. Safe to repeat."""
        await self._tasks.aclose()

    async def _run(self) -> None:
        try:
            try:
                while self._is_wanted and self._pipeline.failure is None:
                    await self._once()
            except RhumblineError as error:
                self._pipeline.fail(error)
                await self._chain.abandon()
            await self._settle_lost()
        finally:
            self._is_running = False
            self._pipeline.wake()

    async def _settle_lost(self) -> None:
        pipeline, segment = self._pipeline, self._pipeline.segment.stored.segment
        while pipeline.unresolved:
            assert pipeline.failure is not None
            await pipeline.wait_until(lambda: not pipeline.in_flight)
            try:
                end = await self._retried(lambda: self._chain.recovered_end(segment))
                pipeline.resolve(end.last_entry_id)
            except RhumblineError:
                pipeline.abandon()

    async def _once(self) -> None:
        pipeline = self._pipeline
        policy = await self._retried(self._read_policy)
        following = await self._retried(lambda: self._chain.next(policy))
        pipeline.is_held = True
        await pipeline.wait_until(lambda: not pipeline.in_flight)
        if pipeline.failure is not None:
            return
        old = pipeline.segment
        if pipeline.ledger_failure is None:
            self._is_wanted = False
            pipeline.switch(following, policy)
            await self.complete(old)
            return
        end = await self._retried(lambda: self._chain.recovered_end(old.stored.segment))
        pipeline.resolve(end.last_entry_id)
        await self._retried(lambda: self._chain.complete(old, end))
        self._is_wanted = False
        self._give_up_at = None
        pipeline.switch(following, policy)

    async def complete(self, segment: OpenSegment) -> None:
        """Closes a segment whose every entry is acknowledged, and records its end."""
        end = await self._retried(lambda: self._closed_end(segment))
        await self._retried(lambda: self._chain.complete(segment, end))

    async def _closed_end(self, segment: OpenSegment) -> SegmentEnd:
        try:
            metadata = await segment.ledger.close()
        except RhumblineError as error:
            if may_pass(error):
                raise
            # Closed or fenced by somebody: recovery tells how it ended, the next compare-and-set
            # whether the stream is still ours.
            return await self._chain.recovered_end(segment.stored.segment)
        assert metadata.last_entry_id == segment.last_entry_id, "every entry was acknowledged"
        return SegmentEnd(
            last_entry_id=metadata.last_entry_id,
            length_bytes=metadata.length,
            record_count=segment.position,
            last_txid=segment.last_txid,
            ends_stream=segment.ends_stream,
            producers_entry=segment.producers_entry,
        )

    async def _retried(self, work: Callable[[], Awaitable[T]]) -> T:
        pause_ms = self._config.backoff_ms_min
        failure = self._pipeline.failure
        while True:
            try:
                return await work()
            except RhumblineError as error:
                is_late = self._give_up_at is not None and self._loop.time() >= self._give_up_at
                if is_late or not may_pass(error) or self._pipeline.failure is not failure:
                    raise
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, self._config.backoff_ms_max)


def may_pass(error: RhumblineError) -> bool:
    """Whether the same step may succeed when it is repeated."""
    return error.retryable or isinstance(error, UnknownOutcomeError)

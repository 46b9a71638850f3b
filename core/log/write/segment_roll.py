"""The segment roll: the move of a writer from one segment to the next (rules STR-8 and STR-9).

The same procedure serves a planned roll and a failed ledger. The next segment is created and
published while the old one still takes entries. Then the pipeline is held until nothing is in
flight. What follows depends on the old ledger:

- It works: entries go to the next segment immediately, and the old ledger is closed and its segment
  completed in the background.
- It failed: recovery fences and closes it first. Each entry that was in flight is either in the
  closed ledger, and is acknowledged late, or absent, and is sent again to the next segment.

Transient errors are retried: without limit while the old ledger works, and up to a deadline once
it failed.

If the stream was lost, no segment follows. The end of the old ledger is still determined, because
it decides the outcome of the entries that were in flight.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from ...protocol.errors import InvariantBrokenError, RhumblineError, UnknownOutcomeError
from ...protocol.segments import SegmentEnd
from ...runtime.event_log import EventLog
from ...runtime.primitives.backoff import Backoff
from ...runtime.tasks import Tasks
from ..config import WriterConfig
from ..policy import StreamPolicy
from .pipeline import Pipeline
from .segment_chain import OpenSegment, SegmentChain

_LOG = EventLog(__name__)

T = TypeVar("T")


class SegmentRoll:
    """Rolls the segments of one writer. It owns the only task that a writer ever has."""

    def __init__(
        self,
        chain: SegmentChain,
        pipeline: Pipeline,
        config: WriterConfig,
        read_policy: Callable[[], Awaitable[StreamPolicy]],
        random: Random,
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self._chain = chain
        self._pipeline = pipeline
        self._config = config
        self._random = random
        self._read_policy = read_policy
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks(on_failure=on_bug)
        self._is_running = False
        self._is_requested = False
        self._give_up_at: float | None = None
        self._next: OpenSegment | None = None  # published, and not used yet

    @property
    def is_running(self) -> bool:
        """True while a roll is running."""
        return self._is_running

    def request(self) -> None:
        """Request a roll to the next segment. Safe to repeat."""
        self._is_requested = True
        if self._pipeline.is_broken and self._give_up_at is None:
            self._give_up_at = self._loop.time() + self._config.failover_ms_max / 1000
        if not self._is_running and not self._tasks.is_closed:
            self._is_running = True
            self._tasks.spawn(self._run(), "next segment")

    def limit_duration(self, timeout_ms: int) -> None:
        """Make the current or next roll give up after at most ``timeout_ms``."""
        latest = self._loop.time() + timeout_ms / 1000
        self._give_up_at = latest if self._give_up_at is None else min(latest, self._give_up_at)

    async def aclose(self) -> None:
        """Cancel a running roll, and release its segment. Safe to repeat."""
        await self._tasks.aclose()
        if self._next is not None:
            self._next.ledger.abandon()

    async def _run(self) -> None:
        try:
            try:
                while self._is_requested and self._pipeline.failure is None:
                    await self._roll_once()
            except RhumblineError as error:
                self._pipeline.fail(error)
                machine = self._pipeline.machine
                _LOG.warning(
                    "stream writer failed", machine=machine, **self._chain.ids(), error=error
                )
                await self._chain.abandon()
                if isinstance(error, InvariantBrokenError):
                    raise  # a bug: ``on_bug`` reports it with its story
            await self._resolve_after_loss()
        finally:
            self._is_running = False
            self._pipeline.wake()

    async def _resolve_after_loss(self) -> None:
        pipeline, segment = self._pipeline, self._pipeline.segment.stored.segment
        while pipeline.unresolved:
            assert pipeline.failure is not None
            await pipeline.wait_until(lambda: not pipeline.in_flight)
            try:
                end = await self._retry(lambda: self._chain.recover_end(segment))
                pipeline.resolve(end.last_entry_id)
            except RhumblineError:
                pipeline.abandon()

    async def _roll_once(self) -> None:
        pipeline = self._pipeline
        policy = await self._retry(self._read_policy)
        self._next = await self._retry(lambda: self._chain.next(policy))
        pipeline.hold()
        await pipeline.wait_until(lambda: not pipeline.in_flight)
        if pipeline.failure is not None:
            return
        old = pipeline.segment
        if not pipeline.is_broken:
            self._is_requested = False
            self._switch(policy)
            await self.complete(old)
            return
        end = await self._retry(lambda: self._chain.recover_end(old.stored.segment))
        pipeline.resolve(end.last_entry_id)
        await self._retry(lambda: self._chain.complete(old, end))
        self._is_requested = False
        self._give_up_at = None
        self._switch(policy)

    def _switch(self, policy: StreamPolicy) -> None:
        following, self._next = self._next, None
        assert following is not None
        self._pipeline.switch(following, policy)

    async def complete(self, segment: OpenSegment) -> None:
        """Close a segment whose entries are all acknowledged, and record its end."""
        end = await self._retry(lambda: self._closed_end(segment))
        await self._retry(lambda: self._chain.complete(segment, end))

    async def _closed_end(self, segment: OpenSegment) -> SegmentEnd:
        try:
            metadata = await segment.ledger.close()
        except RhumblineError as error:
            if is_transient(error):
                raise
            # Another process fenced or closed the ledger. Recovery finds its end, and the next
            # compare-and-set shows whether this writer still owns the stream.
            return await self._chain.recover_end(segment.stored.segment)
        assert metadata.last_entry_id == segment.last_entry_id, "every entry was acknowledged"
        return SegmentEnd(
            last_entry_id=metadata.last_entry_id,
            length_bytes=metadata.length,
            record_count=segment.position,
            last_txid=segment.last_txid,
            ends_stream=segment.ends_stream,
            producers_entry=segment.producers_entry,
            last_created_ms=self._pipeline.last_created_ms,
        )

    async def _retry(self, work: Callable[[], Awaitable[T]]) -> T:
        config = self._config
        backoff = Backoff(self._random, config.backoff_ms_min, config.backoff_ms_max)
        failure = self._pipeline.failure
        while True:
            try:
                return await work()
            except RhumblineError as error:
                is_late = self._give_up_at is not None and self._loop.time() >= self._give_up_at
                if is_late or not is_transient(error) or self._pipeline.failure is not failure:
                    raise
            await backoff.pause()


def is_transient(error: RhumblineError) -> bool:
    """Return True if the same step may succeed when it is repeated."""
    return error.retryable or isinstance(error, UnknownOutcomeError)

"""The buffer of a writer: the open batch, and the conditions under which it is sent.

A batch is sent when it is full, when it is due by the flush policy, or when the application
flushes. There is at most one open batch, and a timer only while there is one. Streams with the
same flush period flush at the same times, so that their entries share packets, disk syncs and
responses.
"""

import asyncio
from collections.abc import Callable

from ...runtime.tracing import Tracer, TraceStep
from .batch import NO_BATCH, Batch
from .pipeline import Pipeline


class Buffer:
    """The open batch of one writer and its flush timer."""

    __slots__ = (
        "_capacity",
        "_flush_at",
        "_is_due",
        "_loop",
        "_pipeline",
        "_stream",
        "_timer",
        "_tracer",
        "_wall_ms",
        "open",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        wall_ms: Callable[[], int],
        stream: str,
        tracer: Tracer | None,
    ) -> None:
        self.open = NO_BATCH
        """The batch that takes records, or NO_BATCH."""
        self._pipeline = pipeline
        self._wall_ms = wall_ms
        self._stream = stream
        self._tracer = tracer
        self._loop = asyncio.get_running_loop()
        self._capacity = 0  # bytes of the open batch
        self._is_due = False  # it is sent as soon as the pipeline can send
        self._flush_at = 0.0  # loop time in seconds of the next periodic flush
        self._timer: asyncio.Handle | None = None

    @property
    def is_waiting(self) -> bool:
        """True if it holds records that will be sent without a further call."""
        return self.open is not NO_BATCH and (self._timer is not None or self._is_due)

    def record_room(self) -> int:
        """Return how many bytes of records still fit the open batch."""
        return 0 if self.open.sets else self.open.free_bytes()

    def batch_for_records(self, size: int, txid: int) -> Batch:
        """Return the open batch with ``size`` bytes reserved.

        A batch without that much room is sent, and a new one begins with ``txid``.
        """
        batch = self.open
        if batch is not NO_BATCH:
            if not batch.sets and batch.reserve(size):
                if batch.span is not None:
                    batch.span.join()
                return batch
            self.submit()
        batch = self._begin(size, txid)
        if self._tracer is not None:
            batch.trace(self._tracer.sample(TraceStep.APPEND, stream=self._stream))
        return batch

    def batch_for_sets(self, size: int, txid: int) -> Batch:
        """Return the open batch of encoded sets with ``size`` bytes reserved.

        Like ``batch_for_records``; a batch holds either records or encoded sets.
        """
        batch = self.open
        if batch.sets and batch.reserve(size):
            return batch
        self.submit()
        batch = self._begin(size, txid)
        batch.close_fast_path()
        return batch

    def submit(self) -> None:
        """Send the open batch now, if there is one."""
        batch = self.open
        if batch is NO_BATCH:
            return
        self.open = NO_BATCH
        self._is_due = False
        batch.bytes = self._capacity - batch.free_bytes()
        batch.room = -1
        self._pipeline.submit(batch)

    def on_can_send(self) -> None:
        """Send a due batch, because the pipeline has room for an entry."""
        if self._is_due:
            self.submit()

    def stop(self) -> None:
        """Cancel the timer. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self, size: int, txid: int) -> Batch:
        flush = self._pipeline.policy.flush
        self._capacity = max(flush.bytes_max, size)
        self.open = batch = Batch(self._capacity - size, txid, self._wall_ms())
        if self._timer is None and flush.period_ms is not None:
            if flush.period_ms == 0 or self._loop.time() >= self._flush_at:
                self._timer = self._loop.call_soon(self._on_timer)
            else:
                self._timer = self._loop.call_at(self._flush_at, self._on_timer)
        return batch

    def _on_timer(self) -> None:
        self._timer = None
        period_ms = self._pipeline.policy.flush.period_ms
        if period_ms:
            now, period_s = self._loop.time(), period_ms / 1000
            self._flush_at += period_s
            if self._flush_at <= now:  # after a pause, align with the other streams again
                self._flush_at = (now // period_s + 1) * period_s
        if self._pipeline.can_send or self._pipeline.failure is not None:
            self.submit()
        else:
            self._is_due = self.open is not NO_BATCH

"""The batch that gathers records now, and when it leaves: full, due by policy, or flushed.

There is at most one, and a timer only while there is one. Streams with the same period leave in
step: their entries share packets, syncs of a disk and answers.
"""

import asyncio
from collections.abc import Callable

from ...runtime.tracing import Tracer, TraceStep
from .batch import NO_BATCH, Batch
from .pipeline import Pipeline


class Buffer:
    """Of one writer."""

    __slots__ = (
        "_capacity",
        "_is_due",
        "_leaves_at",
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
        self._capacity = 0  # of the open batch
        self._is_due = False  # it leaves as soon as the pipeline can send
        self._leaves_at = 0.0  # with periodic flush: nothing leaves before, unless it is full
        self._timer: asyncio.Handle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether records wait in it that will leave by themselves."""
        return self.open is not NO_BATCH and (self._timer is not None or self._is_due)

    def record_room(self) -> int:
        """Bytes of records that the open batch still takes."""
        return 0 if self.open.sets else self.open.free_bytes()

    def of_records(self, size: int, txid: int) -> Batch:
        """The open batch with ``size`` bytes of its room taken; a full one leaves for another, of
        which ``txid`` is the first."""
        batch = self.open
        if batch is not NO_BATCH:
            if not batch.sets and batch.use_room(size):
                return batch
            self.submit()
        batch = self._begin(size, txid)
        if self._tracer is not None:
            batch.trace(self._tracer.sample(TraceStep.APPEND, stream=self._stream))
        return batch

    def of_sets(self, size: int, txid: int) -> Batch:
        """As ``of_records``, for encoded sets: an entry gathers either the ones or the others."""
        batch = self.open
        if batch.sets and batch.use_room(size):
            return batch
        self.submit()
        batch = self._begin(size, txid)
        batch.close_fast_path()
        return batch

    def submit(self) -> None:
        """Has the open batch leave now, if there is one."""
        batch = self.open
        if batch is NO_BATCH:
            return
        self.open = NO_BATCH
        self._is_due = False
        batch.bytes = self._capacity - batch.free_bytes()
        batch.room = -1
        self._pipeline.submit(batch)

    def on_can_send(self) -> None:
        """The pipeline has room for an entry."""
        if self._is_due:
            self.submit()

    def stop(self) -> None:
        """No timer any more. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self, size: int, txid: int) -> Batch:
        flush = self._pipeline.policy.flush
        self._capacity = max(flush.bytes_max, size)
        self.open = batch = Batch(self._capacity - size, txid, self._wall_ms())
        if self._timer is None and flush.period_ms is not None:
            if flush.period_ms == 0 or self._loop.time() >= self._leaves_at:
                self._timer = self._loop.call_soon(self._on_timer)
            else:
                self._timer = self._loop.call_at(self._leaves_at, self._on_timer)
        return batch

    def _on_timer(self) -> None:
        self._timer = None
        period_ms = self._pipeline.policy.flush.period_ms
        if period_ms:
            now, period_s = self._loop.time(), period_ms / 1000
            self._leaves_at += period_s
            if self._leaves_at <= now:  # a pause: then in step with the other streams again
                self._leaves_at = (now // period_s + 1) * period_s
        if self._pipeline.can_send or self._pipeline.failure is not None:
            self.submit()
        else:
            self._is_due = self.open is not NO_BATCH

"""The work of an idle writer: roll an expired segment, and send keepalives (rule STR-8)."""

import asyncio

from ...protocol.record_set import Kind
from ..shared_timer import SharedTimer
from .batch import Batch
from .pipeline import Pipeline, PipelineOwner


class Keepalive:
    """The idle work of one writer, scheduled on the timer that all writers share."""

    def __init__(self, pipeline: Pipeline, owner: PipelineOwner, timer: SharedTimer) -> None:
        self._pipeline = pipeline
        self._owner = owner
        self._timer = timer
        self._loop = asyncio.get_running_loop()
        pipeline.sent_at = self._loop.time()

    def schedule(self) -> None:
        """Schedule the next check: when the segment expires or a keepalive is due."""
        at = self._pipeline.segment.rolls_at
        keepalive_ms = self._pipeline.policy.keepalive_ms
        if keepalive_ms is not None:
            at = min(at, self._pipeline.sent_at + keepalive_ms / 1000)
        self._timer.schedule(at, self._on_due)

    def stop(self) -> None:
        """Cancel the next check. Safe to repeat."""
        self._timer.cancel(self._on_due)

    def _on_due(self) -> None:
        pipeline, now = self._pipeline, self._loop.time()
        segment, policy = pipeline.segment, pipeline.policy
        if now >= segment.rolls_at:
            if segment.position:
                self._owner.on_roll_needed()
                return  # the next segment schedules its own check
            segment.rolls_at = now + policy.roll_ms / 1000  # an empty segment is not rolled
        keepalive_ms = policy.keepalive_ms
        if keepalive_ms is not None and now >= pipeline.sent_at + keepalive_ms / 1000:
            # Also if nothing can be sent now: the next attempt is one period later.
            pipeline.sent_at = now
            if pipeline.can_send:
                now_ms = self._owner.wall_ms()
                pipeline.submit(Batch(0, pipeline.last_txid, now_ms, Kind.KEEPALIVE))
        if pipeline.segment is segment:
            self.schedule()

"""What a writer does though nothing is appended: rolls an old segment, says that it lives."""

import asyncio

from ...protocol.record_set import Kind
from ..shared_timer import SharedTimer
from .batch import Batch
from .pipeline import Pipeline, PipelineOwner


class Keepalive:
    """Of one writer; its times are one alarm among many, behind one timer."""

    def __init__(self, pipeline: Pipeline, owner: PipelineOwner, alarms: SharedTimer) -> None:
        self._pipeline = pipeline
        self._owner = owner
        self._alarms = alarms
        self._loop = asyncio.get_running_loop()
        pipeline.sent_at = self._loop.time()

    def set_alarm(self) -> None:
        """Comes back when the segment is old, or when nothing was sent for too long."""
        at = self._pipeline.segment.rolls_at
        keepalive_ms = self._pipeline.policy.keepalive_ms
        if keepalive_ms is not None:
            at = min(at, self._pipeline.sent_at + keepalive_ms / 1000)
        self._alarms.set(at, self._look)

    def stop(self) -> None:
        """Does not come back. Safe to repeat."""
        self._alarms.drop(self._look)

    def _look(self) -> None:
        pipeline, now = self._pipeline, self._loop.time()
        segment, policy = pipeline.segment, pipeline.policy
        if now >= segment.rolls_at:
            if segment.position:
                self._owner.on_segment_over()
                return  # the next segment sets the alarm
            segment.rolls_at = now + policy.roll_ms / 1000  # an empty one is not worth another
        keepalive_ms = policy.keepalive_ms
        if keepalive_ms is not None and now >= pipeline.sent_at + keepalive_ms / 1000:
            pipeline.sent_at = now  # also if it cannot leave now: it is tried again a period later
            if pipeline.can_send:
                now_ms = self._owner.wall_ms()
                pipeline.submit(Batch(0, pipeline.last_txid, now_ms, Kind.KEEPALIVE))
        if pipeline.segment is segment:
            self.set_alarm()

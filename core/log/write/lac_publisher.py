"""Makes acknowledged records visible when no further entry does so (rule STR-15).

An entry carries the LAC of the moment at which it was sent. Records that are acknowledged later
stay invisible to readers until the next entry is sent. If no entry follows soon, the publisher
sends an explicit LAC; if too few bookies accept that, it sends a flush control record. While many
entries are in flight, the next entry is near and nothing needs to be published.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.record_set import Kind
from .batch import Batch

if TYPE_CHECKING:
    from .pipeline import Pipeline, PipelineOwner
    from .segment_chain import OpenSegment

_INTERVAL_S = 0.0005
"""Minimum interval between two publications. An event loop whose clock has a resolution of 1 ms
publishes at most once per step."""
_FEW_IN_FLIGHT = 3
"""With more entries in flight than this, another entry is expected soon."""
_ITERATIONS_BEFORE_PUBLISHING = 3
"""Event loop iterations that an application needs to await an append and make the next one."""


class LacPublisher:
    """Publishes the LAC of one pipeline. It has a timer only while a publication is pending."""

    def __init__(self, pipeline: "Pipeline", owner: "PipelineOwner") -> None:
        self._is_pending = False  # acknowledged records are still invisible
        self._pipeline = pipeline
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._turns = 0
        self._timer: asyncio.Handle | None = None
        self._published_at = -1.0
        self._hidden_since = 0.0
        self.is_stopped = False
        """True once ``stop`` was called."""

    def on_acked(self) -> None:
        """Note that an entry was acknowledged that readers cannot see yet."""
        if not self._is_pending:
            self._is_pending = True
            self._hidden_since = self._loop.time()

    def on_lac_sent(self) -> None:
        """Note that an entry or a close has made all acknowledged entries visible."""
        self._is_pending = False

    def schedule(self) -> None:
        """Schedule a publication if it is needed and no entry is expected soon."""
        if self._is_pending and len(self._pipeline.in_flight) <= _FEW_IN_FLIGHT:
            self._turns = _ITERATIONS_BEFORE_PUBLISHING
            if self._timer is None and not self.is_stopped:
                self._arm(self._pipeline.policy.flush.visibility_ms / 1000)

    def stop(self) -> None:
        """Cancel the timer and publish nothing more. Safe to repeat."""
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, wait_s: float) -> None:
        if wait_s > 0:
            self._timer = self._loop.call_later(wait_s, self._publish)
        else:
            self._timer = self._loop.call_soon(self._publish)

    def _publish(self) -> None:
        """Send an explicit LAC, unless an entry has been or will soon be sent."""
        self._timer = None
        pipeline = self._pipeline
        if not self._is_pending or not pipeline.can_send:
            return
        flush = pipeline.policy.flush
        if self._owner.is_buffering and (flush.visibility_ms or not flush.period_ms):
            return
        now = self._loop.time()
        due = max(self._hidden_since + flush.visibility_ms / 1000, self._published_at + _INTERVAL_S)
        if due > now or self._turns > 0:
            self._turns -= 1
            self._arm(due - now)
            return
        self._published_at = now
        self._is_pending = False
        on_published = partial(self._on_published, pipeline.segment)
        if not pipeline.segment.ledger.send_explicit_lac(on_published):
            on_published(False)

    def _on_published(self, segment: "OpenSegment", was_accepted: bool) -> None:
        """Send a flush control record if too few bookies accepted the LAC and no entry follows."""
        pipeline = self._pipeline
        if was_accepted or segment is not pipeline.segment or self.is_stopped:
            return
        if pipeline.can_send and not pipeline.in_flight and not self._owner.is_buffering:
            pipeline.submit(Batch(0, pipeline.last_txid, self._owner.wall_ms(), Kind.FLUSH))

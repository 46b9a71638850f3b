"""Tells readers what is confirmed when no entry comes that would.

An entry carries what was confirmed when it left. So what is acknowledged afterwards stays hidden
until the next entry leaves, or the bookies are told without an entry (an explicit LAC), or by a
control record if they will not have it so. With many entries in flight the next one is near.
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
"""At most so often; loops whose clock has steps of a millisecond tell once in each."""
_FEW = 3
"""Entries in flight with which the next one may be far away."""
_TURNS_BEFORE_TELLING = 3
"""An application that awaits an append and makes the next needs this many turns of the loop."""


class LacPublisher:
    """Of one pipeline's entries. It has a timer only while there is something to tell."""

    def __init__(self, pipeline: "Pipeline", owner: "PipelineOwner") -> None:
        self._is_wanted = False  # whether something acknowledged is hidden
        self._pipeline = pipeline
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._turns = 0
        self._timer: asyncio.Handle | None = None
        self._told_at = -1.0
        self._hidden_since = 0.0
        self._is_stopped = False

    def on_acked(self) -> None:
        """An entry that readers wait for was acknowledged."""
        if not self._is_wanted:
            self._is_wanted = True
            self._hidden_since = self._loop.time()

    def on_told(self) -> None:
        """An entry has just left, or its ledger is closed: nothing acknowledged is hidden."""
        self._is_wanted = False

    def watch(self) -> None:
        """Has it told what is hidden, unless an entry leaves soon."""
        if self._is_wanted and len(self._pipeline.in_flight) <= _FEW:
            self._turns = _TURNS_BEFORE_TELLING
            if self._timer is None and not self._is_stopped:
                self._arm(self._pipeline.policy.flush.visibility_ms / 1000)

    def stop(self) -> None:
        """No timer and no control record any more. Safe to repeat."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, wait_s: float) -> None:
        if wait_s > 0:
            self._timer = self._loop.call_later(wait_s, self._tell)
        else:
            self._timer = self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        """Tells what is confirmed, unless data has left or will leave soon enough by itself."""
        self._timer = None
        pipeline = self._pipeline
        if not self._is_wanted or not pipeline.can_send:
            return
        flush = pipeline.policy.flush
        if self._owner.is_buffering and (flush.visibility_ms or not flush.period_ms):
            return
        now = self._loop.time()
        due = max(self._hidden_since + flush.visibility_ms / 1000, self._told_at + _INTERVAL_S)
        if due > now or self._turns > 0:
            self._turns -= 1
            self._arm(due - now)
            return
        self._told_at = now
        self._is_wanted = False
        on_told = partial(self._on_told, pipeline.segment)
        if not pipeline.segment.ledger.tell_lac(on_told):
            on_told(False)

    def _on_told(self, segment: "OpenSegment", was_taken: bool) -> None:
        """If too few bookies took it, an entry tells: the next one, or one made for it."""
        pipeline = self._pipeline
        if was_taken or segment is not pipeline.segment or self._is_stopped:
            return
        if pipeline.can_send and not pipeline.in_flight and not self._owner.is_buffering:
            pipeline.submit(Batch(0, pipeline.last_txid, self._owner.wall_ms(), Kind.FLUSH))

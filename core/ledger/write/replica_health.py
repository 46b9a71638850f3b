"""Decides how a writer treats failed bookies: wait, probe, replace them, or fail the ledger."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ...protocol.bookie_id import BookieId
from ...protocol.errors import (
    DeadlineExceededError,
    OwnershipLostError,
    ReadOnlyError,
    RhumblineError,
    UnauthorizedError,
)
from ...runtime.primitives.backoff import Backoff
from ..add_op import AddOp
from ..replica import Replica
from .ensemble_changer import EnsembleChanger
from .writer_state import WriterState

_PROBE_MS_MIN = 100


class ReplicaHealth:
    """Maintains the failed replicas of one writer, ``WriterState.failed_mask``.

    In delayed mode the ensemble is changed if the other replicas can no longer satisfy P, which is
    evaluated and not counted (bug B19), if a bookie responds that it is read-only, or if a bookie
    has failed for longer than ``underreplicated_ms_max``. In eager mode it is changed after any
    failure. Until then a failed bookie is probed with one entry at a time (rules LED-9, LED-10).
    """

    __slots__ = (
        "_changer",
        "_config",
        "_fail",
        "_loop",
        "_probe_backoff",
        "_renew_copies",
        "_send",
        "_send_missing",
        "_state",
        "_timer",
    )

    def __init__(
        self,
        state: WriterState,
        changer: EnsembleChanger,
        *,
        send: Callable[[Replica, AddOp], bool],
        send_missing: Callable[[Replica], None],
        renew_copies: Callable[[Sequence[BookieId]], Coroutine[Any, Any, int]],
        fail: Callable[[RhumblineError], None],
    ) -> None:
        self._state = state
        self._changer = changer
        self._send = send
        self._send_missing = send_missing
        self._renew_copies = renew_copies
        self._fail = fail
        self._config = state.context.config
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._probe_backoff = Backoff(
            state.context.runtime.random, _PROBE_MS_MIN, self._config.backoff_ms_max
        )

    def on_error(self, replica: Replica, error: RhumblineError) -> None:
        """Handles a request to the replica that failed or could not be sent."""
        state = self._state
        if state.failure is not None or state.replicas[replica.index] is not replica:
            return
        if isinstance(error, OwnershipLostError | UnauthorizedError):
            self._fail(error)
            return
        replica.has_probe = False
        replica.error = error
        if state.failed_mask & replica.bit:
            if isinstance(error, ReadOnlyError):
                self._changer.replace(replica.bit)  # it is back, and takes no entries
            return
        state.mark_failed(replica, self._loop.time())
        state.context.pool.on_failure(replica.bookie)
        if self._config.on_bookie_failure == "close":
            self._fail(error)
            return
        if (
            self._config.change_mode == "eager"
            or isinstance(error, ReadOnlyError)
            or state.view.must_change_ensemble(state.failed_mask)
        ):
            self._changer.replace(state.failed_mask)
        self.start_timer()

    def on_stored(self, replica: Replica) -> None:
        """Marks a failed replica healthy since it stored an entry, and sends what it lacks.

        It stays failed while more than half of its backlog bound is pending.
        """
        replica.has_probe = False
        if replica.lag_bytes > self._config.replica_backlog_bytes_max // 2:
            return
        self._state.mark_healthy(replica)
        self._probe_backoff.reset()
        self._send_missing(replica)

    def on_installed(self) -> None:
        """Probes failed bookies, and replaces those that P needs since a change (perhaps of R)."""
        failed = self._state.failed_mask
        if failed:
            self.start_timer()
        if failed and self._state.view.must_change_ensemble(failed):
            self._changer.replace(failed)

    def offer_probe(self, replica: Replica, op: AddOp) -> bool:
        """Sends ``op`` to a failed replica as its probe, and returns whether it was sent.

        It is not sent if another probe is pending or if the link is backing off. A bookie whose
        copy of the metadata is old is first asked to renew it (rule BAK-11).
        """
        if replica.has_probe or not op.write_mask & replica.bit & ~op.acks:
            return False
        if replica.lag_bytes > self._config.replica_backlog_bytes_max // 2:
            return False
        link = self._state.context.pool.link(replica.bookie)
        if link.connect() is None:
            return False
        if replica.has_old_copy:
            replica.has_probe = True
            name = f"renew the copy of ledger {self._state.ledger_id} on {replica.bookie}"
            self._state.context.tasks.spawn(self._renew_copy(replica), name)
            return False
        if not self._send(replica, op):
            return False
        replica.has_probe = True
        return True

    async def _renew_copy(self, replica: Replica) -> None:
        """Makes a failed bookie renew its copy of the metadata; a probe can follow then."""
        replica.has_old_copy = await self._renew_copies((replica.bookie,)) != 0
        replica.has_probe = False

    def start_timer(self) -> None:
        """Starts the timer for probes and the quorum timeout, unless it runs."""
        if self._timer is None and self._state.failure is None:
            self._timer = self._loop.call_later(self._probe_backoff.next_s(), self._on_timer)

    def stop(self) -> None:
        """Cancels the timer: nothing is probed any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        if self._has_quorum_timed_out():
            return
        state = self._state
        overdue = 0
        now = self._loop.time()
        for replica in state.replicas:
            if state.failed_mask & replica.bit:
                if (now - replica.overdue_from) * 1000 > self._config.underreplicated_ms_max:
                    overdue |= replica.bit
                    replica.overdue_from = now  # if it cannot be replaced now, try again later
                for op in state.queue:
                    if self.offer_probe(replica, op) or replica.has_probe:
                        break
        if overdue:
            self._changer.replace(overdue)
        if state.failed_mask:
            self.start_timer()
        elif self._config.quorum_timeout_ms and state.queue:
            self._probe_backoff.reset()
            self.start_timer()

    def _has_quorum_timed_out(self) -> bool:
        limit_ms = self._config.quorum_timeout_ms
        queue = self._state.queue
        if not limit_ms or not queue:
            return False
        waited_ms = (self._loop.time() - queue[0].pushed_at) * 1000
        if waited_ms <= limit_ms:
            return False
        self._fail(
            DeadlineExceededError(
                f"ledger {self._state.ledger_id}: entry {queue[0].entry_id} has no quorum after "
                f"{int(waited_ms)} ms (quorum_timeout_ms is {limit_ms})"
            )
        )
        return True

"""What a writer does about bookies that fail: wait, probe, have them replaced, or give up."""

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import (
    DeadlineExceededError,
    OwnershipLostError,
    ReadOnlyError,
    RhumblineError,
    UnauthorizedError,
)
from .add_op import AddOp
from .replica import Replica

if TYPE_CHECKING:
    from .ledger_writer import LedgerWriter

_PROBE_MS_MIN = 100


class ReplicaHealth:
    """The failed replicas of one writer. ``mask``: the indices that get no entries now.

    In delayed mode the ensemble is changed when the rest can no longer acknowledge (bug B19: asked
    of the predicate, not counted), when a bookie says that it is read-only, or when one has failed
    for longer than ``underreplicated_ms_max``; in eager mode after any failure. Until then a
    failed bookie is probed with one entry at a time.
    """

    __slots__ = ("_config", "_loop", "_probe_ms", "_timer", "_writer", "mask")

    def __init__(self, writer: "LedgerWriter") -> None:
        self.mask = 0
        self._writer = writer
        self._config = writer.context.config
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._probe_ms = _PROBE_MS_MIN

    def on_error(self, replica: Replica, error: RhumblineError) -> None:
        """A request to the replica failed, or could not be sent."""
        writer = self._writer
        if writer.failure is not None or writer.replicas[replica.index] is not replica:
            return
        if isinstance(error, OwnershipLostError | UnauthorizedError):
            writer.fail(error)
            return
        replica.probe = None
        replica.error = error
        if self.mask & replica.bit:
            return
        self.mask |= replica.bit
        replica.failed_since = replica.patience_from = self._loop.time()
        writer.context.pool.on_failure(replica.bookie)
        if self._config.on_bookie_failure == "close":
            writer.fail(error)
            return
        if (
            self._config.change_mode == "eager"
            or isinstance(error, ReadOnlyError)
            or writer.view.must_change_ensemble(self.mask)
        ):
            writer.changer.replace(self.mask)
        self.watch()

    def on_stored(self, replica: Replica) -> None:
        """A failed replica stored an entry: it gets again what is not confirmed yet."""
        replica.probe = None
        if replica.lag_bytes > self._config.replica_backlog_bytes_max // 2:
            return
        self.mask &= ~replica.bit
        replica.failed_since = None
        replica.error = None
        self._probe_ms = _PROBE_MS_MIN
        self._writer.send_missing(replica)

    def on_replaced(self, replica: Replica) -> None:
        """Another bookie sits at its index now."""
        self.mask &= ~replica.bit

    def offer_probe(self, replica: Replica, op: AddOp) -> bool:
        """Sends ``op`` to a failed replica, unless one is there already or it must rest."""
        if replica.probe is not None or not op.write_mask & replica.bit & ~op.acks:
            return False
        if replica.lag_bytes > self._config.replica_backlog_bytes_max // 2:
            return False
        if replica.link.connect() is None or not self._writer.send(replica, op):
            return False
        replica.probe = op
        return True

    def watch(self) -> None:
        """Sees to it that time passes while a replica has failed or a quorum has a time limit."""
        if self._timer is None and self._writer.failure is None:
            self._timer = self._loop.call_later(self._probe_ms / 1000, self._on_timer)

    def stop(self) -> None:
        """Nothing is probed any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        if self._has_quorum_timed_out():
            return
        overdue = 0
        now = self._loop.time()
        for replica in self._writer.replicas:
            if self.mask & replica.bit:
                if (now - replica.patience_from) * 1000 > self._config.underreplicated_ms_max:
                    overdue |= replica.bit
                    replica.patience_from = now  # if it cannot be replaced now, ask again later
                for op in self._writer.queue:
                    if self.offer_probe(replica, op) or replica.probe is not None:
                        break
        if overdue:
            self._writer.changer.replace(overdue)
        if self.mask:
            self._probe_ms = min(2 * self._probe_ms, self._config.backoff_ms_max)
            self.watch()
        elif self._config.quorum_timeout_ms and self._writer.queue:
            self._probe_ms = _PROBE_MS_MIN
            self.watch()

    def _has_quorum_timed_out(self) -> bool:
        limit_ms = self._config.quorum_timeout_ms
        queue = self._writer.queue
        if not limit_ms or not queue:
            return False
        waited_ms = (self._loop.time() - queue[0].pushed_at) * 1000
        if waited_ms <= limit_ms:
            return False
        self._writer.fail(
            DeadlineExceededError(
                f"ledger {self._writer.ledger_id}: entry {queue[0].entry_id} has no quorum after "
                f"{int(waited_ms)} ms"
            )
        )
        return True

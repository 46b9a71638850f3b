"""Tracks what confirmed entries still lack: pending responses, and copies that will never exist.

P lets an entry be confirmed before its whole write set has responded. A replica whose backlog of
confirmed entries grows too large is treated as failed. Entries that a replica did not store are
recorded and reported for repair (rule LED-11).
"""

import asyncio
from collections.abc import Callable

from ...protocol.errors import RhumblineError, TooManyRequestsError
from ..add_op import AddOp
from ..replica import Replica
from .under_replication import UnderReplication
from .writer_state import WriterState


class ReplicationLag:
    """The missing and pending copies of confirmed entries of one writer.

    ``on_error`` is called soon, but never from within a method, with a replica that lags too far.
    """

    def __init__(
        self, state: WriterState, on_error: Callable[[Replica, RhumblineError], None]
    ) -> None:
        self._state = state
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._backlog_bytes_max = state.context.config.replica_backlog_bytes_max
        self._missing = UnderReplication(state.ledger_id)
        self._outstanding = 0

    @property
    def is_waiting(self) -> bool:
        """True while responses to confirmed entries are pending."""
        return self._outstanding > 0

    def on_confirmed(self, op: AddOp) -> None:
        """Records an entry that was confirmed before its whole write set had stored it."""
        missing = op.write_mask & ~op.acks
        while missing:
            bit = missing & -missing
            missing ^= bit
            replica = self._state.replicas[bit.bit_length() - 1]
            if not op.outstanding & bit:
                self._add_missing(op, replica)
                continue
            replica.lag_bytes += op.size
            self._outstanding += 1
            if replica.lag_bytes > self._backlog_bytes_max:
                error = TooManyRequestsError(f"{replica.bookie} is too far behind its peers")
                self._loop.call_soon(self._on_error, replica, error)

    def on_late_response(self, op: AddOp, replica: Replica, error: RhumblineError | None) -> None:
        """Takes the outcome of a confirmed entry at a replica that had not responded before."""
        replica.lag_bytes -= op.size
        self._outstanding -= 1
        if error is not None:
            self._add_missing(op, replica)
        if self._state.failure is not None and not self._outstanding:
            self.report()

    def report(self) -> None:
        """Reports the missing entries recorded so far to ``on_missing_range``."""
        for missing in self._missing.take():
            self._state.context.on_missing_range(missing)

    def _add_missing(self, op: AddOp, replica: Replica) -> None:
        metadata = self._state.metadata
        first = metadata.fragment_of(op.entry_id).first_entry_id
        self._missing.add(first, replica.bookie, op.entry_id, stride=metadata.ensemble_size)

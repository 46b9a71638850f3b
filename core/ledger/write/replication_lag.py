"""What confirmed entries lack: answers that are still to come, and copies that will never be.

P lets an entry be confirmed while some of its write set have not answered. A replica that falls too
far behind is treated as failed; what it never stored is remembered as holes and told to repair.
"""

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import RhumblineError, TooManyRequestsError
from .add_op import AddOp
from .replica import Replica
from .under_replication import UnderReplication

if TYPE_CHECKING:
    from .ledger_writer import LedgerWriter


class ReplicationLag:
    """Of one writer's ledger."""

    def __init__(self, writer: "LedgerWriter") -> None:
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._backlog_bytes_max = writer.context.config.replica_backlog_bytes_max
        self._holes = UnderReplication(writer.ledger_id)
        self._outstanding = 0

    @property
    def is_waiting(self) -> bool:
        """Whether answers to confirmed entries are still to come."""
        return self._outstanding > 0

    def on_confirmed(self, op: AddOp) -> None:
        """An entry was confirmed that some of its write set did not take, or not yet."""
        missing = op.write_mask & ~op.acks
        while missing:
            bit = missing & -missing
            missing ^= bit
            replica = self._writer.replicas[bit.bit_length() - 1]
            if not op.outstanding & bit:
                self._add_hole(op, replica)
                continue
            replica.lag_bytes += op.size
            self._outstanding += 1
            if replica.lag_bytes > self._backlog_bytes_max:
                error = TooManyRequestsError(f"{replica.bookie} is too far behind its peers")
                self._loop.call_soon(self._writer.failures.on_error, replica, error)

    def on_answer(self, op: AddOp, replica: Replica, error: RhumblineError | None) -> None:
        """The late answer of a replica to a confirmed entry, or that there will be none."""
        replica.lag_bytes -= op.size
        self._outstanding -= 1
        if error is not None:
            self._add_hole(op, replica)
        if self._writer.is_failed and not self._outstanding:
            self.tell()

    def tell(self) -> None:
        """Hands the holes found so far to whoever repairs."""
        for hole in self._holes.take():
            self._writer.context.on_hole(hole)

    def _add_hole(self, op: AddOp, replica: Replica) -> None:
        metadata = self._writer.metadata
        first = metadata.fragment_of(op.entry_id).first_entry_id
        self._holes.add(first, replica.bookie, op.entry_id, stride=metadata.ensemble_size)

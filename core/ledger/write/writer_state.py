"""The state of a ledger writer, and the decisions that need nothing else.

The methods are synchronous: they decide, change the state and return what is left to do. The other
modules of this folder send, wait and call back. They read the attributes and leave every change of
them to these methods, except for the queue and the LAC, which belong to ``LedgerWriter``.
"""

from collections import deque
from collections.abc import Callable, Sequence

from ...protocol.bookie_id import Region
from ...protocol.ensemble_change import replaced_indices
from ...protocol.errors import RhumblineError
from ...protocol.ledger_metadata import NO_ENTRY, LedgerMetadata
from ...protocol.quorum import QuorumView
from ...runtime.metadata_store import Version
from ...runtime.state_machine import StateMachine
from ..add_op import AddOp
from ..context import LedgerContext
from ..replica import Replica
from .writer_life import FAILED, LEDGER_WRITER, WriterEvent, WriterLife

_COMMITTING = WriterLife.COMMITTING


class WriterState:
    """The state of one ledger writer. Compiled modules access its attributes directly.

    ``now`` returns loop time in seconds.
    """

    __slots__ = (
        "_now",
        "context",
        "failed_mask",
        "failure",
        "last_add_confirmed",
        "ledger_id",
        "length",
        "machine",
        "metadata",
        "queue",
        "replicas",
        "version",
        "view",
    )

    def __init__(
        self,
        context: LedgerContext,
        metadata: LedgerMetadata,
        version: Version,
        regions: Sequence[Region | None],
        now: Callable[[], float],
    ) -> None:
        self.context = context
        self.ledger_id = metadata.ledger_id
        self.metadata = metadata  # as stored: never a value that is still being written (bug B6)
        self.version = version
        self.view = QuorumView(metadata.quorum_at(0), regions)
        # The current ensemble, by index.
        self.replicas: list[Replica] = [
            Replica(index, bookie, region)
            for index, (bookie, region) in enumerate(
                zip(metadata.last_fragment.bookies, regions, strict=True)
            )
        ]
        self.failed_mask = 0  # indices of failed replicas: they receive nothing but probes
        self.queue: deque[AddOp] = deque()  # entries that are not confirmed, in order
        self.last_add_confirmed = NO_ENTRY
        self.length = 0  # payload bytes pushed; once failed, payload bytes confirmed
        self.failure: RhumblineError | None = None
        self._now = now
        self.machine = StateMachine(
            LEDGER_WRITER,
            str(self.ledger_id),
            now=now,
            check=self._check,
            check_all=self._check_queue,
        )

    @property
    def is_frozen(self) -> bool:
        """True while a change is being committed: nothing may be confirmed (bug B7)."""
        return self.machine.state is _COMMITTING

    # --- failed bookies -------------------------------------------------------------------------

    def mark_failed(self, replica: Replica, now: float) -> None:
        """Counts a replica as failed from ``now`` (loop time) on."""
        self.failed_mask |= replica.bit
        replica.failed_since = replica.overdue_from = now

    def mark_healthy(self, replica: Replica) -> None:
        """Counts a replica as healthy, since it stored an entry."""
        self.failed_mask &= ~replica.bit
        replica.failed_since = None
        replica.error = None

    # --- ensemble changes -----------------------------------------------------------------------

    def begin_change(self) -> bool:
        """Begins a change of the ensemble.

        Returns False if one is under way, which takes the request over, or if the writer failed.
        """
        if not self.machine.accepts(WriterEvent.CHANGE):
            return False
        self.machine.take(WriterEvent.CHANGE, f"failed: {self._failed_bookies()}")
        return True

    def freeze(self) -> None:
        """Stops callbacks, so that the LAC does not move until ``thaw``."""
        self.machine.take(WriterEvent.FREEZE, f"LAC {self.last_add_confirmed}")

    def install(
        self,
        metadata: LedgerMetadata,
        version: Version,
        regions: Sequence[Region | None],
        old_copies: int = 0,
    ) -> int:
        """Adopts stored metadata with the regions of its last fragment's bookies.

        Drops the acks of replaced bookies in all pending entries at once, so that none is complete
        under both ensembles only (rule LED-15, bug B8). Bookies that remain keep their ``Replica``.
        Returns the mask of the replaced indices.

        Bookies at the indices ``old_copies`` have not renewed their copies of the metadata: they
        count as failed, and their acks are dropped as well (rule BAK-11).
        """
        last = metadata.last_fragment
        assert last.first_entry_id <= self.last_add_confirmed + 1
        gone = 0
        for index in replaced_indices(self.metadata.last_fragment.bookies, last.bookies):
            gone |= 1 << index
            self.replicas[index].last_entry_id = self.last_add_confirmed
            self.replicas[index] = Replica(index, last.bookies[index], regions[index])
        self.failed_mask &= ~gone
        for replica in self.replicas:
            if old_copies & replica.bit:
                gone |= self._distrust(replica)
        self.metadata = metadata
        self.version = version
        self.view = QuorumView(metadata.quorum_at(self.last_add_confirmed + 1), regions)
        for op in self.queue:
            op.acks &= ~gone
            op.outstanding &= ~gone
            op.is_complete = self.view.is_acked(op.acks)
        self.machine.take(
            WriterEvent.INSTALL, f"{', '.join(last.bookies)} from entry {last.first_entry_id} on"
        )
        return gone

    def _distrust(self, old: Replica) -> int:
        """Starts over with a bookie as failed: none of its responses counts; returns its bit."""
        old.last_entry_id = self.last_add_confirmed
        replica = self.replicas[old.index] = Replica(old.index, old.bookie, old.region)
        replica.has_old_copy = True
        self.mark_failed(replica, self._now())
        if old.failed_since is not None:
            replica.failed_since, replica.overdue_from = old.failed_since, old.overdue_from
        return replica.bit

    def rewritten(self, version: Version) -> None:
        """Adopts the version of the same metadata after it was written once more."""
        self.version = version

    def thaw(self) -> None:
        """Allows callbacks again, whether or not the ensemble was changed (bug B9)."""
        if self.is_frozen:
            self.machine.take(WriterEvent.THAW)

    def end_change(self) -> None:
        """Ends the work on changes."""
        self.machine.take(WriterEvent.SETTLE)

    # --- the end --------------------------------------------------------------------------------

    def fail(self, error: RhumblineError, confirmed_length: int) -> list[AddOp]:
        """Ends the writer and returns the entries to call back, in order (rule LED-18)."""
        assert self.failure is None
        pending = list(self.queue)
        self.queue.clear()
        self.length = confirmed_length
        self.failure = error
        self.machine.take(WriterEvent.FAIL, f"{type(error).__name__}: {error}")
        return pending

    def begin_close(self) -> None:
        """Begins to record the end of the ledger."""
        self.machine.take(WriterEvent.CLOSE, f"at entry {self.last_add_confirmed}")

    def end_close(self, stored: LedgerMetadata, version: Version) -> None:
        """Adopts the closed metadata."""
        self.metadata, self.version = stored, version
        self.machine.take(WriterEvent.RECORD, f"at entry {stored.last_entry_id}")

    def interrupt_close(self) -> None:
        """Notes that the end could not be recorded."""
        self.machine.take(WriterEvent.INTERRUPT)

    # --- invariants -----------------------------------------------------------------------------

    def _failed_bookies(self) -> str:
        failed = [replica.bookie for replica in self.replicas if self.failed_mask & replica.bit]
        return ", ".join(failed) or "none"

    def _check(self) -> None:
        has_failed = self.machine.state in FAILED
        assert (self.failure is not None) == has_failed, "a failure is a state"
        assert not (has_failed and self.queue), (
            "a failed writer has called everything back (LED-18)"
        )
        assert self.failed_mask >> len(self.replicas) == 0, "only members fail"
        bookies = [replica.bookie for replica in self.replicas]
        is_closed = self.machine.state is WriterLife.CLOSED  # without an empty last fragment
        stored = list(self.metadata.last_fragment.bookies)
        assert is_closed or bookies == stored, f"{bookies} are not the stored {stored} (LED-6)"

    def _check_queue(self) -> None:
        expected = self.last_add_confirmed
        for op in self.queue:
            expected += 1
            assert op.entry_id == expected, f"entry {op.entry_id}, not {expected}, is next (LED-5)"
            assert not (op.acks | op.outstanding) & ~op.write_mask, "only its write set (LED-7)"
            assert not op.is_done, "called back, but still in the queue (LED-8)"
            assert not op.is_complete or self.view.is_acked(op.acks), "complete without P (LED-15)"

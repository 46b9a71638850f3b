"""The order in which one reader asks the replicas of its ledger."""

from collections.abc import Iterable, Sequence

from ...protocol.bookie_id import BookieId
from ...protocol.quorum import QuorumView
from ..context import LedgerContext
from ..read_policy import ReplicaChoice


class ReplicaOrder:
    """The read policy's order, except that replicas that are silent to this reader come last.

    The policy learns later, and from all readers, that a replica is slow. A single reader must not
    wait for a bookie that hangs more than once.
    """

    __slots__ = ("_context", "_silent")

    def __init__(self, context: LedgerContext) -> None:
        self._context = context
        self._silent: dict[BookieId, None] = {}

    def add_silent(self, bookie: BookieId) -> None:
        """Another replica brought news for which this one was waited for, or it seems to hang."""
        self._silent[bookie] = None

    def is_silent(self, bookie: BookieId) -> bool:
        """Returns whether the replica owes this reader a response."""
        return bookie in self._silent

    def on_response(self, bookie: BookieId) -> None:
        """The replica responded to a long poll, or its connection was lost."""
        self._silent.pop(bookie, None)

    def choose(
        self, bookies: Sequence[BookieId], view: QuorumView, *groups: Iterable[int]
    ) -> list[ReplicaChoice]:
        """Returns members of an ensemble, given by index: the first group before the second."""
        failed = self._context.pool.failed_lately()
        found: list[ReplicaChoice] = []
        last: list[ReplicaChoice] = []
        for group in groups:
            choices = [
                ReplicaChoice(index, bookies[index], view.regions[index], bookies[index] in failed)
                for index in group
            ]
            audible = [choice for choice in choices if choice.bookie not in self._silent]
            found += self._context.reads.order(audible)
            last += [choice for choice in choices if choice.bookie in self._silent]
        return found + last

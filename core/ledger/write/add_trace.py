"""The spans of one traced entry: the add, and each bookie's durable write as it is seen from here.

The bookie's own protocol has no room for a trace, so what a bookie did is the time until it
answered that the entry is durable: its queue and its fsync, and the way there and back.
"""

from collections.abc import Sequence

from ...protocol.errors import RhumblineError
from ...runtime.tracing import Span, Tracer, TraceStep
from .replica import Replica


class AddTrace:
    """Of one ``AddOp``."""

    __slots__ = ("_add", "_stores", "_tracer")

    def __init__(
        self, tracer: Tracer, parents: Sequence[str], *, ledger_id: int, entry_id: int, size: int
    ) -> None:
        self._tracer = tracer
        self._add = tracer.follow(
            TraceStep.ADD, parents, ledger_id=ledger_id, entry_id=entry_id, size_bytes=size
        )
        self._stores: dict[Replica, Span] = {}

    def on_sent(self, replica: Replica) -> None:
        """The entry left for a bookie."""
        self._stores[replica] = self._tracer.follow(
            TraceStep.STORE,
            (self._add.traceparent,),
            bookie=replica.bookie,
            region=replica.region or "",
        )

    def on_answer(self, replica: Replica, error: RhumblineError | None) -> None:
        """The bookie answered, or will not any more."""
        self._stores.pop(replica).end(error)

    def on_done(self, error: RhumblineError | None, regions: tuple[str, ...]) -> None:
        """The entry was called back; some bookies may still answer."""
        self._add.end(error, regions=regions)

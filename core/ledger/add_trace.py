"""The trace spans of one entry: the add, and the durable write at each bookie.

The bookie protocol has no field for a trace. The span of a bookie's write is therefore measured
here, from sending the entry until its response: it includes the network, the bookie's queue and
its fsync.
"""

from collections.abc import Sequence

from ..protocol.errors import RhumblineError
from ..runtime.tracing import Span, Tracer, TraceStep
from .replica import Replica


class AddTrace:
    """The spans of one ``AddOp``."""

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
        """Opens the span of a bookie's write: the entry was sent to it."""
        self._stores[replica] = self._tracer.follow(
            TraceStep.STORE,
            (self._add.traceparent,),
            bookie=replica.bookie,
            region=replica.region or "",
        )

    def on_response(self, replica: Replica, error: RhumblineError | None) -> None:
        """Ends the span of a bookie's write: it responded, or no response will come."""
        self._stores.pop(replica).end(error)

    def on_done(self, error: RhumblineError | None, regions: tuple[str, ...]) -> None:
        """Ends the span of the add: its callback runs. Some bookies may still respond."""
        self._add.end(error, regions=regions)

"""Record sets that producers send to a write proxy, and their results (rule PRX-9)."""

from collections.abc import Callable
from typing import NamedTuple

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import RhumblineError
from ...core.protocol.record_set import NO_PRODUCER, numbering


class Appended(NamedTuple):
    """The result of an acknowledged record set."""

    first: Dlsn
    """Position of the first record; the others follow in the next slots of the entry."""
    record_count: int
    regions: tuple[str, ...]
    """Regions that hold the records on disk; empty if they are no longer known."""


OnAppended = Callable[[Appended | RhumblineError], None]
"""Called exactly once for each item, from the event loop. It must not raise."""


class AppendItem:
    """A record set on its way through a proxy. Treat it as immutable."""

    __slots__ = (
        "client_region",
        "count",
        "expected",
        "first_sequence",
        "keeps_txids",
        "namespace",
        "producer",
        "record_set",
        "stream",
        "trace",
        "tried",
    )

    def __init__(
        self,
        namespace: str,
        stream: str,
        record_set: bytes,
        *,
        keeps_txids: bool = False,
        tried: tuple[str, ...] = (),
        expected: Dlsn | None = None,
    ) -> None:
        """Read the header of the set. Raises InvalidArgumentError if the header is incomplete."""
        self.count, (self.producer, self.first_sequence) = numbering(record_set)
        self.namespace = namespace
        self.stream = stream
        self.record_set = record_set
        self.keeps_txids = keeps_txids
        self.tried = tried
        self.expected = expected
        """The set is appended only if the stream ends here (rule PRX-62)."""
        self.client_region = ""
        """The region of the client; "" if it is not known."""
        self.trace: str | None = None
        """Traceparent of this proxy's span for the set; None if it is not traced."""

    @property
    def is_conditional(self) -> bool:
        """True if the set is appended only where the client expects the end of the stream."""
        return self.expected is not None

    @property
    def is_numbered(self) -> bool:
        """True if the set carries a producer id, so that a retry cannot store it twice."""
        return self.producer != NO_PRODUCER

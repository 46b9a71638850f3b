"""What producers hand to a write proxy: a record set for a stream, and how it is answered."""

from collections.abc import Callable
from typing import NamedTuple

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import RhumblineError
from ...core.protocol.record_set import NO_PRODUCER, numbering


class Appended(NamedTuple):
    """Acknowledged records."""

    first: Dlsn
    """Of the first; the others follow in its slots."""
    record_count: int
    regions: tuple[str, ...]
    """Those that hold it on disk; empty if they are not known any more."""


Done = Callable[[Appended | RhumblineError], None]
"""Called exactly once for each item, from the event loop; it must not raise."""


class AppendItem:
    """A record set on its way through a proxy. Immutable by convention."""

    __slots__ = (
        "count",
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
    ) -> None:
        """Looks at the header only. Raises InvalidArgumentError when that is not there."""
        self.count, (self.producer, self.first_sequence) = numbering(record_set)
        self.namespace = namespace
        self.stream = stream
        self.record_set = record_set
        self.keeps_txids = keeps_txids
        self.tried = tried
        self.trace: str | None = None
        """The span of this proxy's work on it, if it is traced."""

    @property
    def is_numbered(self) -> bool:
        """Whether it may be sent again without being there twice."""
        return self.producer != NO_PRODUCER

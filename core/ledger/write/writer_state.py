"""The state that the parts of a ledger writer share."""

from collections import deque
from collections.abc import Sequence

from ...protocol.bookie_id import Region
from ...protocol.errors import RhumblineError
from ...protocol.ledger_metadata import NO_ENTRY, LedgerMetadata
from ...protocol.quorum import QuorumView
from ...runtime.metadata_store import Version
from ..add_op import AddOp
from ..context import LedgerContext
from ..replica import Replica


class WriterState:
    """The attributes of one ``LedgerWriter`` that its parts read and write.

    It has no behaviour. The parts import this class and not the writer, so imports have no cycle,
    and compiled modules access its attributes directly.
    """

    __slots__ = (
        "context",
        "failed_mask",
        "failure",
        "last_add_confirmed",
        "ledger_id",
        "length",
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
    ) -> None:
        self.context = context
        self.ledger_id = metadata.ledger_id
        self.metadata = metadata  # as stored: never a value that is still being written (bug B6)
        self.version = version
        self.view = QuorumView(metadata.quorum_at(0), regions)
        self.replicas: list[Replica] = []  # the current ensemble, by index
        self.failed_mask = 0  # indices of failed replicas: they receive nothing but probes
        self.queue: deque[AddOp] = deque()  # entries that are not confirmed, in order
        self.last_add_confirmed = NO_ENTRY
        self.length = 0  # payload bytes pushed; once failed, payload bytes confirmed
        self.failure: RhumblineError | None = None

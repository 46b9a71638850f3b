"""One entry that is being added: the only object allocated per entry."""

from collections.abc import Callable

from ..protocol.errors import RhumblineError
from .add_trace import AddTrace
from .replica import Replica

OnDone = Callable[[int, RhumblineError | None, tuple[str, ...]], None]
"""Callback of an add: the entry id, the error or None, and the regions that hold the entry."""

OnAdded = Callable[["AddOp", Replica, RhumblineError | None], None]
"""Called once per send with the outcome at one replica: None if it stored the entry."""


class AddOp:
    """An entry, from ``add`` until every bookie of its write set has responded.

    Sets of ensemble indices are bit masks. ``frame`` is dropped when the entry is confirmed, as it
    is never sent again.
    """

    __slots__ = (
        "acks",
        "entry_id",
        "frame",
        "is_complete",
        "is_done",
        "key",
        "length",
        "on_added",
        "on_done",
        "outstanding",
        "pushed_at",
        "size",
        "trace",
        "was_sent",
        "write_mask",
    )

    def __init__(
        self, on_added: OnAdded, entry_id: int, frame: bytes, size: int, on_done: OnDone
    ) -> None:
        self.on_added = on_added
        self.entry_id = entry_id
        self.frame = frame
        # Ledger and entry id, behind length (4 bytes), packet header (4) and master key (20).
        self.key = frame[28:44]
        self.size = size
        self.on_done = on_done
        self.length = 0
        self.pushed_at = 0.0
        self.write_mask = 0
        self.acks = 0  # indices whose current bookie has stored the entry
        self.outstanding = 0  # indices whose current bookie has not responded yet
        self.trace: AddTrace | None = None
        self.was_sent = False
        self.is_complete = False  # the acks satisfy P; reset if a bookie is replaced
        self.is_done = False  # ``on_done`` was called

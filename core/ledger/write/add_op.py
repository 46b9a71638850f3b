"""One entry on its way: the only object that an add makes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import RhumblineError

if TYPE_CHECKING:
    from .add_trace import AddTrace
    from .ledger_writer import LedgerWriter

OnDone = Callable[[int, RhumblineError | None, tuple[str, ...]], None]
"""(entry id, failure or None, regions that hold the entry durably)."""


class AddOp:
    """An entry from ``add`` until every bookie of its write set has answered.

    Sets of ensemble indices are bit masks. ``frame`` is dropped when the entry is confirmed: from
    then on nothing sends it again.
    """

    __slots__ = (
        "acks",
        "entry_id",
        "frame",
        "is_complete",
        "is_done",
        "key",
        "length",
        "on_done",
        "outstanding",
        "owner",
        "pushed_at",
        "size",
        "trace",
        "was_sent",
        "write_mask",
    )

    def __init__(
        self, owner: "LedgerWriter", entry_id: int, frame: bytes, size: int, on_done: OnDone
    ) -> None:
        self.owner = owner
        self.entry_id = entry_id
        self.frame = frame
        self.key = frame[
            28:44
        ]  # length 4, packet header 4, master key 20; then ledger and entry id
        self.size = size
        self.on_done = on_done
        self.length = 0
        self.pushed_at = 0.0
        self.write_mask = 0
        self.acks = 0  # indices whose present bookie said that it stored the entry
        self.outstanding = 0  # indices whose present bookie has not answered yet
        self.trace: AddTrace | None = None
        self.was_sent = False
        self.is_complete = False  # the acks satisfy P; undone when a bookie is replaced
        self.is_done = False  # the owner has called back

"""A commit group: what one sync makes durable, and who is told when it has."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from ...protocol.errors import RhumblineError
from ..ledger_records import LedgerRecord
from .log_format import encode_record

OnDurable = Callable[[RhumblineError | None], None]


class Outbox:
    """Answers of one connection that wait for a group, and the bytes of their requests."""

    __slots__ = ("answers", "request_bytes")

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.request_bytes = 0


class Answerer(Protocol):
    """Who gets an outbox when its group is durable, or never will be: a connection."""

    def answered(self, outbox: Outbox) -> None:
        """The answers may go out."""
        ...

    def refused(self, outbox: Outbox, error: RhumblineError) -> None:
        """These answers must never go out."""
        ...


class CommitGroup:
    """What the next sync will make durable. The hot path appends to its lists directly."""

    __slots__ = ("adds", "body_bytes", "buffers", "callbacks", "count", "outboxes", "states")

    def __init__(self) -> None:
        self.buffers: list[bytes] = []
        self.body_bytes = 0
        self.count = 0
        self.adds: list[tuple[LedgerRecord, int, int, int, int]] = []
        """(ledger state, entry id, LAC, offset of the entry in the body, its length)"""
        self.outboxes: dict[Answerer, Outbox] = {}
        self.callbacks: list[OnDurable] = []
        self.states: list[bytes] = []

    def outbox_of(self, connection: Answerer) -> Outbox:
        """The connection's answers that wait for this group."""
        outbox = self.outboxes.get(connection)
        if outbox is None:
            outbox = self.outboxes[connection] = Outbox()
        return outbox

    def append_state(self, record: bytes) -> None:
        """Adds a state record."""
        data = encode_record(record, is_state=True)
        self.states.append(record)
        self.buffers.append(data)
        self.body_bytes += len(data)
        self.count += 1


class WaitingAdds:
    """An ``OnDurable`` that can be awaited."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __call__(self, error: RhumblineError | None) -> None:
        """See OnDurable."""
        if self.done.cancelled():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)

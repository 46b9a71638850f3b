"""A commit group: the records that one sync makes durable, and the responses that wait for it."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from ...protocol.errors import RhumblineError
from ..ledger_records import LedgerRecord
from .log_format import encode_record

OnDurable = Callable[[RhumblineError | None], None]
"""Callback with None when a group is durable, or with the error that refused it."""


class Outbox:
    """Responses of one connection that wait for a group, and the bytes of their requests."""

    __slots__ = ("request_bytes", "responses")

    def __init__(self) -> None:
        self.responses: list[bytes] = []
        self.request_bytes = 0


class ResponseSink(Protocol):
    """The receiver of an outbox, usually a connection."""

    def deliver(self, outbox: Outbox) -> None:
        """Sends the responses: their group is durable."""
        ...

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        """Handles the failure of the group: the prepared responses must never be sent."""
        ...


class CommitGroup:
    """The records of the next sync. The hot path appends to the lists directly."""

    __slots__ = ("adds", "body_bytes", "buffers", "callbacks", "count", "outboxes", "states")

    def __init__(self) -> None:
        self.buffers: list[bytes] = []
        self.body_bytes = 0
        self.count = 0
        self.adds: list[tuple[LedgerRecord, int, int, int, int]] = []
        """(ledger, entry id, LAC, offset of the entry in the body, length of the entry)"""
        self.outboxes: dict[ResponseSink, Outbox] = {}
        self.callbacks: list[OnDurable] = []
        self.states: list[bytes] = []

    def outbox_of(self, connection: ResponseSink) -> Outbox:
        """Return the connection's outbox for this group, creating it if needed."""
        outbox = self.outboxes.get(connection)
        if outbox is None:
            outbox = self.outboxes[connection] = Outbox()
        return outbox

    def append_state(self, record: bytes) -> None:
        """Appends a state record."""
        data = encode_record(record, is_state=True)
        self.states.append(record)
        self.buffers.append(data)
        self.body_bytes += len(data)
        self.count += 1


class DurabilityWaiter:
    """An ``OnDurable`` callback that can be awaited."""

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

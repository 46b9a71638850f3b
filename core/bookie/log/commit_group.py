"""A commit group: the records that one sync makes durable, and the requests that wait for it."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from crc32c import crc32c

from ...protocol.errors import RhumblineError
from ..ledger_records import LedgerRecord
from .log_format import RECORD_HEADER, RECORD_HEADER_BYTES, encode_record

OnDurable = Callable[[RhumblineError | None], None]
"""Callback with None when a group is durable, or with the error that refused it."""


class WaitingAdd(Protocol):
    """An add that waits for its group."""

    ledger_id: int

    def response(self, error: RhumblineError | None) -> bytes:
        """Return the response frame for this outcome."""
        ...


class Outbox:
    """The adds of one connection that wait for a group, and the bytes of their requests.

    The responses are encoded, in the order of the adds, when the outcome of the group is known.
    """

    __slots__ = ("adds", "began", "has_requests", "request_bytes")

    def __init__(self) -> None:
        self.began = asyncio.get_running_loop().time()
        """When the first add arrived, in the event loop's time."""
        self.adds: list[bytes | WaitingAdd] = []
        """The key of each v2 add (ledger id and entry id, with which the entry begins and the
        response ends), and the requests of other adds."""
        self.has_requests = False
        """True unless all adds are keys."""
        self.request_bytes = 0


class AddSink(Protocol):
    """The receiver of an outbox, usually a connection."""

    def deliver(self, outbox: Outbox) -> None:
        """Acknowledges the adds: their group is durable."""
        ...

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        """Handles the failure of the group: none of its adds may ever be acknowledged."""
        ...


class CommitGroup:
    """The records of the next sync, and who waits for them."""

    __slots__ = (
        "adds",
        "body_bytes",
        "buffers",
        "callbacks",
        "count",
        "has_urgent_state",
        "outboxes",
        "states",
    )

    def __init__(self) -> None:
        self.buffers: list[bytes] = []
        self.body_bytes = 0
        self.count = 0
        self.adds: list[tuple[LedgerRecord, int, int, int, int]] = []
        """(ledger, entry id, LAC, offset of the entry in the body, length of the entry)"""
        self.has_urgent_state = False
        """True if it holds a state record that must not become durable before earlier adds."""
        self.outboxes: dict[AddSink, Outbox] = {}
        self.callbacks: list[OnDurable] = []
        self.states: list[bytes] = []

    def outbox_of(self, sink: AddSink) -> Outbox:
        """Return the outbox of ``sink`` for this group, creating it if needed."""
        outbox = self.outboxes.get(sink)
        if outbox is None:
            outbox = self.outboxes[sink] = Outbox()
        return outbox

    def append_entry(
        self, ledger: LedgerRecord, entry_id: int, lac: int, entry: bytes, outbox: Outbox
    ) -> None:
        """Appends an entry that the caller checked; the caller puts the add into ``outbox``."""
        size = len(entry)
        offset = self.body_bytes + RECORD_HEADER_BYTES
        self.buffers += (RECORD_HEADER.pack(size, crc32c(entry)), entry)
        self.adds.append((ledger, entry_id, lac, offset, size))
        self.body_bytes = offset + size
        self.count += 1
        outbox.request_bytes += size

    def append_state(self, record: bytes, *, is_urgent: bool = True) -> None:
        """Appends a state record. If it is urgent, no earlier add becomes durable after it."""
        self.states.append(record)
        self.append_encoded([encode_record(record, is_state=True)])
        self.has_urgent_state = self.has_urgent_state or is_urgent

    def append_encoded(self, buffers: list[bytes]) -> None:
        """Appends the bytes of one record."""
        self.buffers += buffers
        self.body_bytes += sum(map(len, buffers))
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

"""Requests to a bookie, independent of their wire form; the forms implement the responses.

There is one small object (slots) for each request, except for plain v2 adds, which need none.
``response`` returns complete frames. ``kind`` and ``began`` (the event loop's time) are for the
``OperationMeter``.
"""

from collections.abc import Sequence
from typing import Protocol

from ...protocol.errors import RhumblineError
from ..log.commit_group import Outbox, WaitingAdd
from .operation_meter import ADD, BATCH_READ, FENCE, READ, WRITE_LAC


class RequestConnection(Protocol):
    """The connection on which a request arrived."""

    def extra_info(self, name: str) -> object:
        """Return what the transport knows about the peer; None if the connection is closed."""
        ...

    @property
    def is_full(self) -> bool:
        """True while so many responses are unsent that entries in memory are read later too."""
        ...

    def send(self, frame: bytes) -> None:
        """Queues a response; it is sent with others of this event-loop iteration."""
        ...

    def send_parts(self, parts: Sequence[bytes | memoryview]) -> None:
        """Sends a response in parts, which must not change afterwards."""
        ...

    def enqueue_read(self, read: "FileRead") -> None:
        """Queues a read that needs a file."""
        ...

    def add_inflight(self, request_bytes: int) -> None:
        """Counts the bytes of a request until its response is sent."""
        ...

    def release_inflight(self, request_bytes: int) -> None:
        """Stops counting the bytes of a request."""
        ...

    def deliver(self, outbox: Outbox) -> None:
        """See commit_group.AddSink."""
        ...

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        """See commit_group.AddSink."""
        ...


class FileRead(Protocol):
    """A request that reads entries from the files of one directory."""

    directory: str
    """The data directory with the files; "" for the bookie's own one, which has the index."""

    is_urgent: bool
    """True if the read does not wait for other reads: a recovery, or a reader of the tail."""

    async def run(self) -> None:
        """Reads and responds. Handles every error that a disk or a peer can cause."""
        ...


class EntryAdd:
    """A request to store an entry, which is well-formed and belongs to ``ledger_id``."""

    __slots__ = ("began", "connection", "entry", "is_recovery", "ledger_id", "master_key")

    kind = ADD

    def __init__(
        self,
        connection: RequestConnection,
        ledger_id: int,
        master_key: bytes,
        entry: bytes,
        *,
        is_recovery: bool,
    ) -> None:
        self.began = 0.0
        self.connection = connection
        self.ledger_id = ledger_id
        self.master_key = master_key
        self.entry = entry
        self.is_recovery = is_recovery

    def waiting(self) -> WaitingAdd | None:
        """Return the request that encodes the response; None if the entry's key is enough."""
        return self

    def response(self, error: RhumblineError | None) -> bytes:
        """Return the response frame for this outcome."""
        raise NotImplementedError


class EntryRead:
    """A request to read an entry (-1: the last one), after fencing the ledger if ``is_fencing``."""

    __slots__ = ("began", "connection", "entry_id", "is_fencing", "ledger_id", "master_key")

    @property
    def kind(self) -> str:
        """The kind that is counted."""
        return FENCE if self.is_fencing else READ

    def __init__(
        self,
        connection: RequestConnection,
        ledger_id: int,
        entry_id: int,
        master_key: bytes,
        *,
        is_fencing: bool,
    ) -> None:
        self.began = 0.0
        self.connection = connection
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.master_key = master_key
        self.is_fencing = is_fencing

    def response(self, error: RhumblineError | None, entry: bytes = b"") -> bytes:
        """Return the response frame for this outcome."""
        raise NotImplementedError


class BatchRead(EntryRead):
    """A request to read consecutive entries from ``entry_id`` on."""

    __slots__ = ("bytes_max", "count_max", "entry_bytes")

    count_max: int
    """Maximum number of entries; no limit if 0 or less."""
    bytes_max: int
    """Maximum size of all entries, counting ``entry_bytes`` of overhead for each."""
    entry_bytes: int

    @property
    def kind(self) -> str:
        """The kind that is counted."""
        return FENCE if self.is_fencing else BATCH_READ

    def batch_response(self, entries: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
        """Return the frame with the entries, in parts. ``response`` encodes an error."""
        raise NotImplementedError


class WriteLac:
    """A request to store an explicit LAC; ``body`` is the signed message of the writer."""

    __slots__ = ("began", "body", "connection", "ledger_id", "master_key")

    kind = WRITE_LAC

    def __init__(
        self, connection: RequestConnection, ledger_id: int, master_key: bytes, body: bytes
    ) -> None:
        self.began = 0.0
        self.connection = connection
        self.ledger_id = ledger_id
        self.master_key = master_key
        self.body = body

    def response(self, error: RhumblineError | None) -> bytes:
        """Return the response frame for this outcome."""
        raise NotImplementedError

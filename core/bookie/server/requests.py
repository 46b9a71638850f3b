"""What a client can ask of a bookie, whichever form it came in; the forms say how it is answered.

One slotted object a request that takes more than a look at memory. ``answer`` makes whole frames.
"""

from collections.abc import Sequence
from typing import Protocol

from ...protocol.errors import RhumblineError
from ..log.commit_group import Outbox


class Reply(Protocol):
    """The connection that a request came on."""

    def send(self, frame: bytes) -> None:
        """Queues an answer; it goes out with others of this turn of the loop."""
        ...

    def send_parts(self, parts: Sequence[bytes | memoryview]) -> None:
        """Sends an answer that is not copied together; behind it the parts must not change."""
        ...

    def read_later(self, read: "FileRead") -> None:
        """Runs a read that needs a file, in its turn."""
        ...

    def expect(self, request_bytes: int) -> None:
        """A request of so many bytes waits for its answer."""
        ...

    def settle(self, request_bytes: int) -> None:
        """It waits no more."""
        ...

    def answered(self, outbox: Outbox) -> None:
        """See commit_group.Answerer."""
        ...

    def refused(self, outbox: Outbox, error: RhumblineError) -> None:
        """See commit_group.Answerer."""
        ...


class FileRead(Protocol):
    """A request whose entries are not in memory."""

    async def run(self) -> None:
        """Reads and answers; raises nothing that a disk or a peer can cause."""
        ...


class EntryAdd:
    """Store an entry, which is well-formed and names ``ledger_id``."""

    __slots__ = ("connection", "entry", "is_recovery", "ledger_id", "master_key")

    def __init__(
        self,
        connection: Reply,
        ledger_id: int,
        master_key: bytes,
        entry: bytes,
        *,
        is_recovery: bool,
    ) -> None:
        self.connection = connection
        self.ledger_id = ledger_id
        self.master_key = master_key
        self.entry = entry
        self.is_recovery = is_recovery

    def answer(self, error: RhumblineError | None) -> bytes:
        """The frame that tells the outcome."""
        raise NotImplementedError


class EntryRead:
    """Read an entry (-1: the last one); with a fence, that comes first."""

    __slots__ = ("connection", "entry_id", "is_fencing", "ledger_id", "master_key")

    def __init__(
        self,
        connection: Reply,
        ledger_id: int,
        entry_id: int,
        master_key: bytes,
        *,
        is_fencing: bool,
    ) -> None:
        self.connection = connection
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.master_key = master_key
        self.is_fencing = is_fencing

    def answer(self, error: RhumblineError | None, entry: bytes = b"") -> bytes:
        """The frame that tells the outcome."""
        raise NotImplementedError


class BatchRead(EntryRead):
    """Read consecutive entries from ``entry_id`` on."""

    __slots__ = ("bytes_max", "count_max", "entry_bytes")

    count_max: int
    """0 or less: no limit."""
    bytes_max: int
    """Of all entries together, with ``entry_bytes`` more for each."""
    entry_bytes: int

    def answer_batch(self, entries: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
        """The frame with the entries found, in parts; an error is told by ``answer``."""
        raise NotImplementedError


class WriteLac:
    """Keep an explicit LAC; ``body`` is well-formed and names ``ledger_id``."""

    __slots__ = ("body", "connection", "ledger_id", "master_key")

    def __init__(self, connection: Reply, ledger_id: int, master_key: bytes, body: bytes) -> None:
        self.connection = connection
        self.ledger_id = ledger_id
        self.master_key = master_key
        self.body = body

    def answer(self, error: RhumblineError | None) -> bytes:
        """The frame that tells the outcome."""
        raise NotImplementedError

"""What streams ask of ledgers. ``core/ledger`` is the implementation; tests bring a small fake."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ..protocol.errors import NoSuchLedgerError, RhumblineError
from ..protocol.ledger_metadata import LedgerMetadata
from ..protocol.quorum import Quorum
from ..protocol.segments import NO_LEDGER, Segment

OnDone = Callable[[int, RhumblineError | None, tuple[str, ...]], None]
"""Called with entry id, error or None, and the regions that hold the entry."""


class LedgerEntry(Protocol):
    """An entry as read."""

    @property
    def entry_id(self) -> int:
        """Its number in the ledger."""
        ...

    @property
    def payload(self) -> bytes | memoryview:
        """What the writer gave to ``add``."""
        ...


class WritableLedger(Protocol):
    """The one writer of a ledger."""

    on_failure: Callable[[RhumblineError], None] | None
    """Called when it fails, after what was pending was called back."""

    on_leaving: Callable[[], None] | None
    """Called when another ledger should follow, though this one works: its bookies are drained."""

    @property
    def failure(self) -> RhumblineError | None:
        """Why it takes nothing more: failed, fenced or closed."""
        ...

    @property
    def ledger_id(self) -> int:
        """Its number."""
        ...

    @property
    def last_add_confirmed(self) -> int:
        """The highest entry up to which all are acknowledged."""
        ...

    async def introduce(self) -> None:
        """Does what can be done beforehand, so that entries need nothing but the bookies."""
        ...

    def add(self, payload: bytes, on_done: OnDone, traces: Sequence[str] = ()) -> int:
        """Sends an entry and returns its id at once; ``on_done`` comes in the order of ids.

        ``traces`` name the spans that it follows from.

        Raises the failure once the ledger failed or was closed, RecordTooLargeError, and
        LimitExceededError when too much is pending.
        """
        ...

    def on_room(self, callback: Callable[[], None]) -> None:
        """Calls back once, when ``add`` takes entries again or never will."""
        ...

    async def close(self) -> LedgerMetadata:
        """Closes at the last confirmed entry; entries that are not yet confirmed fail first."""
        ...

    def tell_lac(self, on_done: Callable[[bool], None]) -> bool:
        """Tells the bookies what is confirmed, without an entry.

        ``on_done`` hears whether a quorum took it; not called when False is returned: nobody can
        be told now.
        """
        ...


class ReadableLedger(Protocol):
    """Reads a ledger, up to what is confirmed."""

    @property
    def ledger_id(self) -> int:
        """Its number."""
        ...

    @property
    def last_add_confirmed(self) -> int:
        """As far as is known here; the last entry once it is closed."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the end is known and final."""
        ...

    async def read(self, first: int, last: int) -> Sequence[LedgerEntry]:
        """Entries from ``first`` on, at least one, at most to ``last`` (<= last_add_confirmed)."""
        ...

    async def update_last_add_confirmed(self, fresh: bool) -> int:
        """Asks the bookies: a quorum of them if ``fresh``, else as good as it goes."""
        ...

    async def wait(self, beyond: int, timeout_ms: int) -> Sequence[LedgerEntry]:
        """Returns when more than ``beyond`` is confirmed (perhaps with entries from ``beyond + 1``
        on), when the ledger is seen closed, or with nothing at the time-out."""
        ...

    async def aclose(self) -> None:
        """Releases watches. Safe to repeat."""
        ...


class LedgerProvider(Protocol):
    """Makes, opens, recovers and deletes ledgers."""

    async def create(
        self,
        quorum: Quorum,
        *,
        password: bytes = b"",
        custom: Mapping[str, bytes] | None = None,
    ) -> WritableLedger:
        """A new ledger, ready for entries."""
        ...

    async def open(self, ledger_id: int, password: bytes = b"") -> ReadableLedger:
        """Opens for reading, without recovery. Raises NoSuchLedgerError."""
        ...

    async def recover(self, ledger_id: int, password: bytes = b"") -> LedgerMetadata:
        """Fences and closes; returns the closed metadata. Any number may race; a repeat is safe."""
        ...

    async def delete(self, ledger_id: int) -> None:
        """Deletes. A repeat is safe."""
        ...


async def delete_ledger(ledgers: LedgerProvider, segment: Segment) -> None:
    """Deletes the segment's ledger, if it still has one. A repeat is safe."""
    if segment.ledger_id == NO_LEDGER:
        return
    try:
        await ledgers.delete(segment.ledger_id)
    except NoSuchLedgerError:
        return  # an earlier attempt came as far

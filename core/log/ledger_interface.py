"""The interface of ledgers that streams use.

``core/ledger`` implements it; unit tests use a fake in memory.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from ..protocol.errors import NoSuchLedgerError, RhumblineError
from ..protocol.ledger_metadata import LedgerMetadata
from ..protocol.quorum import Quorum
from ..protocol.recovery import ProvableEnd
from ..protocol.segments import NO_LEDGER, Segment

ConfirmEnd = Callable[[ProvableEnd], Awaitable[ProvableEnd]]
"""Shows what is provable to an operator, and returns the audit record once it was confirmed."""

OnDone = Callable[[int, RhumblineError | None, tuple[str, ...]], None]
"""Callback of an add: the entry id, the error or None, and the regions that hold the entry."""


class LedgerEntry(Protocol):
    """An entry that was read from a ledger."""

    @property
    def entry_id(self) -> int:
        """The number of the entry in its ledger."""
        ...

    @property
    def payload(self) -> bytes | memoryview:
        """The bytes that the writer passed to ``add``."""
        ...


class WritableLedger(Protocol):
    """A ledger that is open for writing. It has exactly one writer."""

    on_failure: Callable[[RhumblineError], None] | None
    """Called when the ledger fails, after the callbacks of all pending entries."""

    on_drain_requested: Callable[[], None] | None
    """Called when the writer should move to another ledger because bookies of this one are being
    drained. The ledger still takes entries."""

    @property
    def failure(self) -> RhumblineError | None:
        """The reason why the ledger takes no more entries (failed, fenced or closed), or None."""
        ...

    @property
    def ledger_id(self) -> int:
        """The id of the ledger."""
        ...

    @property
    def last_add_confirmed(self) -> int:
        """The highest entry id up to which all entries are acknowledged."""
        ...

    async def introduce(self) -> None:
        """Make the ledger known to its bookies before the first entry.

        Without it, a bookie must read the ledger's metadata before it accepts its first entry.
        """
        ...

    def add(self, payload: bytes, on_done: OnDone, traces: Sequence[str] = ()) -> int:
        """Send an entry and return its id without waiting.

        ``on_done`` is called once per entry, in the order of ids. ``traces`` name the spans that
        the entry follows from. Raises ``failure`` once the ledger failed or was closed,
        RecordTooLargeError, and LimitExceededError when too many entries are pending.
        """
        ...

    def on_room(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when ``add`` has room again or the ledger has failed."""
        ...

    async def close(self) -> LedgerMetadata:
        """Close the ledger at the last confirmed entry. Unconfirmed entries fail first."""
        ...

    def abandon(self) -> None:
        """Stop and release everything, as a crash would: the ledger stays open, and pending
        entries have an unknown outcome. Safe to repeat, and after ``close``."""
        ...

    def send_explicit_lac(self, on_done: Callable[[bool], None]) -> bool:
        """Send the LAC to the bookies without an entry. Return False if that is impossible now.

        ``on_done`` is called with True if a quorum accepted it, else with False. It is not called
        if the method returned False.
        """
        ...


class ReadableLedger(Protocol):
    """A ledger that is open for reading, up to its last confirmed entry."""

    @property
    def ledger_id(self) -> int:
        """The id of the ledger."""
        ...

    @property
    def last_add_confirmed(self) -> int:
        """The LAC as far as this reader knows it; the last entry id of a closed ledger."""
        ...

    @property
    def is_closed(self) -> bool:
        """True if the last entry is known and final."""
        ...

    async def read(self, first: int, last: int, ahead_bytes: int = 0) -> Sequence[LedgerEntry]:
        """Return one or more entries from ``first`` on, at most up to ``last``.

        ``last`` must not be above ``last_add_confirmed``. With ``ahead_bytes``, the caller reads on
        from the entry behind the returned ones: about as many bytes may be read before it asks.
        """
        ...

    async def update_last_add_confirmed(self, fresh: bool) -> int:
        """Read the LAC from the bookies and return it.

        If ``fresh``, wait for responses of a quorum; otherwise use the first responses.
        """
        ...

    async def wait(self, beyond: int, timeout_ms: int) -> Sequence[LedgerEntry]:
        """Wait until an entry above ``beyond`` is confirmed or the ledger is closed.

        Returns entries from ``beyond + 1`` on if it has received any, and nothing after
        ``timeout_ms``.
        """
        ...

    async def aclose(self) -> None:
        """Release watches. Safe to repeat."""
        ...


class LedgerProvider(Protocol):
    """Creates, opens, recovers, fences and deletes ledgers."""

    async def create(
        self,
        quorum: Quorum,
        *,
        password: bytes | None = None,
        custom: Mapping[str, bytes] | None = None,
    ) -> WritableLedger:
        """Create a ledger that is ready for entries."""
        ...

    async def open(
        self, ledger_id: int, password: bytes | None = None, *, stale_ok: bool = False
    ) -> ReadableLedger:
        """Open a ledger for reading, without recovery. Raises NoSuchLedgerError.

        With ``stale_ok`` its metadata may be old (rule LED-26).
        """
        ...

    async def recover(
        self,
        ledger_id: int,
        password: bytes | None = None,
        *,
        min_regions: int | None = None,
        confirm: ConfirmEnd | None = None,
    ) -> LedgerMetadata:
        """Fence and close a ledger, and return its closed metadata.

        ``min_regions`` is the R for what the recovery writes again, as far as the ledger can
        satisfy it; None: the ledger's own. ``confirm`` is for operators: it decides whether a
        ledger whose end cannot be proven is closed at its provable end (rule REC-19). Safe to
        repeat and to run concurrently.
        """
        ...

    async def open_recovered(self, metadata: LedgerMetadata) -> ReadableLedger:
        """Open a ledger for reading with the metadata that ``recover`` returned."""
        ...

    async def fence(self, ledger_id: int, password: bytes | None = None) -> None:
        """Return when no add to the ledger can be acknowledged any more, by whichever writer.

        Unlike ``recover`` it does not determine where the ledger ends (rule REC-20). Safe to
        repeat. Raises NoSuchLedgerError, RecoveryIncompleteError (too few bookies were fenced).
        """
        ...

    async def delete(self, ledger_id: int) -> None:
        """Delete a ledger. Safe to repeat."""
        ...


async def delete_ledger(ledgers: LedgerProvider, segment: Segment) -> None:
    """Delete the ledger of ``segment``, if it still has one. Safe to repeat."""
    if segment.ledger_id == NO_LEDGER:
        return
    try:
        await ledgers.delete(segment.ledger_id)
    except NoSuchLedgerError:
        return  # an earlier attempt has deleted it

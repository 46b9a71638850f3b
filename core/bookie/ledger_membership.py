"""Membership checks: a linearizable read shows whether a ledger's metadata names this bookie.

A bookie must not accept plain adds for an unknown ledger, or deny its entries to a recovery, only
because a client connected to it: the address may have belonged to another bookie before (rules
BKE-6 and BKE-7, bugs B13 and B14).
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from ..protocol.bookie_id import BookieId
from ..protocol.errors import ClosedError, NoSuchLedgerError, RhumblineError, TooManyRequestsError
from ..protocol.ledger_metadata import LedgerMetadata
from ..runtime.metadata_store import Version
from ..runtime.tasks import Tasks
from ..wire.ledger_metadata import encode


class MetadataReader(Protocol):
    """Access to ledger metadata: the only use of the metadata store in a bookie's data path."""

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, Version]:
        """Return the ledger's metadata.

        Raises NoSuchLedgerError, MetadataError, CorruptionError.
        """
        ...


class MembershipCheck(Enum):
    """The outcome of a check; the value completes the message "the ledger's metadata ..."."""

    NAMED = "names this bookie"
    NOT_NAMED = "does not name this bookie"
    DELETED = "does not exist"
    UNKNOWN = "could not be read"


OnMembership = Callable[[MembershipCheck], None]
OnMetadata = Callable[[LedgerMetadata | RhumblineError], None]


class LedgerMembership:
    """Reads ledger metadata with one read per ledger at a time, shared by all waiting callbacks."""

    def __init__(
        self, ledgers: MetadataReader, bookie: BookieId, tasks: Tasks, waiting_count_max: int
    ) -> None:
        self._ledgers = ledgers
        self._bookie = bookie
        self._tasks = tasks
        self._waiting_count_max = waiting_count_max
        self._waiting: dict[int, list[OnMembership]] = {}
        self._found: dict[int, bytes] = {}
        self.waiting_count = 0

    def check(self, ledger_id: int, on_check: OnMembership) -> None:
        """Calls back once with the outcome. Raises TooManyRequestsError if too many wait."""
        self._count_waiting()
        waiting = self._waiting.get(ledger_id)
        if waiting is not None:
            waiting.append(on_check)
            return
        self._waiting[ledger_id] = [on_check]
        self._tasks.spawn(self._check_once(ledger_id), f"look up ledger {ledger_id}")

    def is_reading(self, ledger_id: int) -> bool:
        """Return whether a check that begins now would share a read that began earlier."""
        return ledger_id in self._waiting

    def read_again(self, ledger_id: int, on_read: OnMetadata) -> None:
        """Calls back once with the metadata, read after this call, or with the reason why not.

        Raises TooManyRequestsError if too many wait.
        """
        self._count_waiting()
        self._tasks.spawn(self._read_once(ledger_id, on_read), f"read ledger {ledger_id} again")

    async def _read_once(self, ledger_id: int, on_read: OnMetadata) -> None:
        found: LedgerMetadata | RhumblineError = ClosedError("the bookie is stopping")
        try:
            found = await self.metadata(ledger_id)
        except RhumblineError as error:
            found = error
        finally:
            self.waiting_count -= 1
            on_read(found)

    def _count_waiting(self) -> None:
        if self.waiting_count >= self._waiting_count_max:
            raise TooManyRequestsError(
                f"{self.waiting_count} requests wait for ledger metadata "
                f"(at most {self._waiting_count_max})"
            )
        self.waiting_count += 1

    async def _check_once(self, ledger_id: int) -> None:
        membership = MembershipCheck.UNKNOWN
        try:
            membership, metadata = await self._check_now(ledger_id)
            if metadata is not None and membership is MembershipCheck.NAMED:
                self._found[ledger_id] = encode(metadata)
        finally:
            waiting = self._waiting.pop(ledger_id)
            self.waiting_count -= len(waiting)
            for on_check in waiting:
                on_check(membership)
            self._found.pop(ledger_id, None)

    def metadata_of(self, ledger_id: int) -> bytes:
        """Return the encoded metadata that the check found; only while its callbacks run."""
        return self._found.get(ledger_id, b"")

    async def metadata(self, ledger_id: int) -> LedgerMetadata:
        """Return the ledger's metadata, read now. Raises as ``MetadataReader.read``."""
        return (await self._ledgers.read(ledger_id))[0]

    async def read(self, ledger_id: int) -> MembershipCheck:
        """Reads the ledger's metadata and returns the outcome."""
        return (await self._check_now(ledger_id))[0]

    async def _check_now(self, ledger_id: int) -> tuple[MembershipCheck, LedgerMetadata | None]:
        try:
            metadata = await self.metadata(ledger_id)
        except NoSuchLedgerError:
            return MembershipCheck.DELETED, None
        except RhumblineError:
            return MembershipCheck.UNKNOWN, None
        named = any(self._bookie in fragment.bookies for fragment in metadata.fragments)
        return MembershipCheck.NAMED if named else MembershipCheck.NOT_NAMED, metadata

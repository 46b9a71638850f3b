"""Whether a ledger's metadata names this bookie: one linearizable point read, shared by who asks.

A bookie that never saw a ledger has no right to take plain adds for it, or to say that it never had
an entry of it, merely because somebody connected to it (bugs B13, B14): the address may have been
another bookie's.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from ..protocol.bookie_id import BookieId
from ..protocol.errors import NoSuchLedgerError, RhumblineError, TooManyRequestsError
from ..protocol.ledger_metadata import LedgerMetadata
from ..runtime.metadata_store import Version
from ..runtime.tasks import Tasks


class MetadataReader(Protocol):
    """The one question that a bookie's data path asks of the metadata store."""

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, Version]:
        """The ledger's metadata. Raises NoSuchLedgerError, MetadataError, CorruptionError."""
        ...


class MembershipCheck(Enum):
    """What the metadata says."""

    NAMED = "named"
    NOT_NAMED = "not named"
    GONE = "gone"
    UNKNOWN = "unknown"


OnProof = Callable[[MembershipCheck], None]


class LedgerMembership:
    """Looks ledgers up, each once at a time; callers wait as callbacks, in order."""

    def __init__(
        self, ledgers: MetadataReader, bookie: BookieId, tasks: Tasks, waiting_count_max: int
    ) -> None:
        self._ledgers = ledgers
        self._bookie = bookie
        self._tasks = tasks
        self._waiting_count_max = waiting_count_max
        self._waiting: dict[int, list[OnProof]] = {}
        self.waiting_count = 0

    def ask(self, ledger_id: int, on_proof: OnProof) -> None:
        """Calls back once with the answer. Raises TooManyRequestsError when too many wait."""
        if self.waiting_count >= self._waiting_count_max:
            raise TooManyRequestsError("too many requests wait for ledger metadata")
        waiting = self._waiting.get(ledger_id)
        self.waiting_count += 1
        if waiting is not None:
            waiting.append(on_proof)
            return
        self._waiting[ledger_id] = [on_proof]
        self._tasks.spawn(self._look(ledger_id), f"look up ledger {ledger_id}")

    async def _look(self, ledger_id: int) -> None:
        proof = MembershipCheck.UNKNOWN
        try:
            proof = await self.look(ledger_id)
        finally:
            waiting = self._waiting.pop(ledger_id)
            self.waiting_count -= len(waiting)
            for on_proof in waiting:
                on_proof(proof)

    async def look(self, ledger_id: int) -> MembershipCheck:
        """Reads the metadata now."""
        try:
            metadata, _ = await self._ledgers.read(ledger_id)
        except NoSuchLedgerError:
            return MembershipCheck.GONE
        except RhumblineError:
            return MembershipCheck.UNKNOWN
        named = any(self._bookie in fragment.bookies for fragment in metadata.fragments)
        return MembershipCheck.NAMED if named else MembershipCheck.NOT_NAMED

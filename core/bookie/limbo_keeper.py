"""Getting out of limbo: draws the bound, and lets ledgers out once they are closed or gone.

A closed ledger's end is decided, so a wrong "never" can no longer shorten it; what is missing here
is for repair to find. Ledgers that were checked against their peers are let out by ``clear``.
"""

from typing import Protocol

from ..protocol.errors import CorruptionError, NoSuchLedgerError
from ..protocol.ledger_metadata import LedgerMetadata, LedgerState
from ..runtime.metadata_store import Version
from .ledger_state import limbo_cleared_record, limbo_records
from .storage import Storage

_LOOKS_AT_ONCE = 1_000


class LimboMetadata(Protocol):
    """What limbo asks of the metadata store."""

    async def next_id(self) -> int:
        """A new ledger id, above all that were ever given. Raises MetadataError."""
        ...

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, Version]:
        """See proofs.LedgerReader."""
        ...


class LimboKeeper:
    """Shrinks the limbo of one storage."""

    def __init__(self, storage: Storage, metadata: LimboMetadata) -> None:
        self._storage = storage
        self._metadata = metadata
        self._next = 0

    async def step(self) -> None:
        """Looks at the next ledgers in limbo. Raises MetadataError; a repeat goes on.

        Ends the limbo when no ledger known here is in it and the bound is drawn: for ledgers that
        are not known here it stays, because one of them may have been among the lost.
        """
        limbo = self._storage.states.limbo
        if not limbo.is_active:
            return
        if limbo.below is None:
            limbo.begin(await self._metadata.next_id())
            for record in list(limbo_records(limbo)):
                await self._storage.journal(record)
            self._storage.states.settle()
        waiting = [one for one in sorted(self._storage.states.ledgers) if limbo.covers(one)]
        later = [one for one in waiting if one >= self._next]
        for ledger_id in (later or waiting)[:_LOOKS_AT_ONCE]:
            self._next = ledger_id + 1
            if await self._is_decided(ledger_id):
                await self.clear(ledger_id)

    async def _is_decided(self, ledger_id: int) -> bool:
        try:
            metadata, _ = await self._metadata.read(ledger_id)
        except NoSuchLedgerError:
            return True
        except CorruptionError:
            return False
        return metadata.state is LedgerState.CLOSED

    async def clear(self, ledger_id: int) -> None:
        """The ledger was closed, or its entries were compared with its peers'."""
        states = self._storage.states
        if states.limbo.covers(ledger_id):
            states.limbo.clear(ledger_id)
            await self._storage.journal(limbo_cleared_record(ledger_id))
            ledger = states.ledgers.get(ledger_id)
            if ledger is not None:
                states.settle_ledger(ledger)


async def clear_all(storage: Storage) -> None:
    """By an operator's word: the disk is trusted, nothing was lost.

    Wrong if something was: then "never had it" may be a lie, and shorten a ledger.
    """
    states = storage.states
    states.limbo.begin(0)
    for record in list(limbo_records(states.limbo)):
        await storage.journal(record)
    states.settle()

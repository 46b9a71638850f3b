"""Refreshes the copies of ledger metadata that a bookie keeps (rule BAK-1).

A bookie keeps the metadata that proved its membership. Each round reads the metadata of ledgers
whose copy is missing or not of a closed ledger again, and of some closed ledgers in turn, because
repair changes their ensembles.
"""

from bisect import bisect_right
from itertools import islice

from ...protocol.errors import CorruptionError, NoSuchLedgerError
from ...protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...runtime.primitives.slices import slices
from ...wire.ledger_metadata import decode, encode
from ..server.entry_service import EntryService

READS_MAX = 1_000
"""Maximum number of ledgers that are not known to be closed, in one round."""

CLOSED_READS_MAX = 100
"""Maximum number of closed ledgers in one round."""


class MetadataCopies:
    """The copies of one bookie, refreshed by ``refresh``."""

    def __init__(self, service: EntryService) -> None:
        self._service = service
        self._final: dict[int, None] = {}
        """Ledgers whose copy is of a closed ledger, the one read longest ago first."""
        self._open_after = -1
        self.refreshed_count = 0

    async def refresh(self) -> None:
        """Run one round. Raises MetadataError; the next round continues.

        A ledger without metadata is left to the garbage collector.
        """
        held = self._service.ledgers
        async for ids in slices(list(self._final)):
            for ledger_id in ids:
                if ledger_id not in held:
                    self._final.pop(ledger_id, None)
        for ledger_id in list(islice(self._final, CLOSED_READS_MAX)):
            await self._refresh(ledger_id)
        waiting: list[int] = []
        async for ids in slices(list(held)):
            waiting += [known for known in ids if known not in self._final]
        waiting.sort()
        later = waiting[bisect_right(waiting, self._open_after) :]
        batch = (later or waiting)[:READS_MAX]
        self._open_after = batch[-1] if len(batch) == READS_MAX else -1
        for ledger_id in batch:
            await self._refresh(ledger_id)

    async def _refresh(self, ledger_id: int) -> None:
        self._final.pop(ledger_id, None)
        storage = self._service.storage
        known = self._copy(ledger_id)
        try:
            found = await self._service.membership.metadata(ledger_id)
        except (NoSuchLedgerError, CorruptionError):
            return
        ledger = self._service.ledgers.get(ledger_id)
        if ledger is None:
            return
        if found != known:
            storage.refresh_copy(ledger, encode(found))
            self.refreshed_count += 1
        if found.state is LedgerState.CLOSED:
            self._final[ledger_id] = None

    def _copy(self, ledger_id: int) -> LedgerMetadata | None:
        data = self._service.storage.states.copies.get(ledger_id)
        try:
            return None if data is None else decode(ledger_id, data)
        except CorruptionError:
            return None

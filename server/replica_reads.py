"""Reads entries from the other replicas of a ledger, for a bookie that lost its own copy."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from ..core.ledger.client import LedgerClient
from ..core.ledger.config import LedgerConfig
from ..core.ledger.read.ledger_reader import LedgerReader
from ..core.metadata.bookie_directory import BookieDirectory
from ..core.metadata.ledger_ids import GLOBAL_STORE, store_number_of
from ..core.metadata.ledger_store import LedgerStore
from ..core.protocol.bookie_id import Region
from ..core.protocol.errors import NoSuchLedgerError
from ..core.runtime.runtime import Runtime
from ..core.wire.entry import encode_entry
from ..placement.region_aware import RegionAwarePlacement


class ReplicaReads:
    """Reads entries with verified digests from the replicas of a ledger.

    It reads like any client, so a request may also reach the bookie itself, which reports its
    damage; then the next replica is tried. Entries are fetched one at a time. The reader of the
    last ledger stays open.
    """

    def __init__(
        self, runtime: Runtime, ledgers: LedgerStore, directory: BookieDirectory, region: Region
    ) -> None:
        self._ledgers = ledgers
        self._client = LedgerClient(
            runtime, ledgers, directory, RegionAwarePlacement(), LedgerConfig(), region
        )
        self._reader: LedgerReader | None = None
        self._turn = asyncio.Lock()

    async def fetch(self, ledger_id: int, entry_id: int) -> bytes | None:
        """Return the entry as its writer encoded it; None if it is not confirmed.

        Raises the errors of the replicas or of the metadata store.
        """
        async with self._turn:
            reader = await self._reader_of(ledger_id)
            if entry_id > reader.last_add_confirmed:
                await reader.update_last_add_confirmed()
            if entry_id > reader.last_add_confirmed:
                return None
            (entry,) = await reader.read(entry_id, entry_id)
            return encode_entry(
                reader.digest, ledger_id, entry_id, entry.lac, entry.length, entry.payload
            )

    async def _reader_of(self, ledger_id: int) -> LedgerReader:
        if self._reader is None or self._reader.ledger_id != ledger_id:
            await self._close_reader()
            metadata, _ = await self._ledgers.read(ledger_id)
            self._reader = await self._client.open(ledger_id, metadata.password)
        return self._reader

    async def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.aclose()

    async def aclose(self) -> None:
        """Close all connections. Safe to repeat."""
        await self._close_reader()
        await self._client.aclose()


class ReplicaReadsOfStores:
    """Reads entries of the ledgers of several metadata stores, by the numbers in their ids."""

    def __init__(self, by_number: Mapping[int, ReplicaReads]) -> None:
        """The reads of the global store are used for ids of unknown stores."""
        self._by_number = by_number

    async def fetch(self, ledger_id: int, entry_id: int) -> bytes | None:
        """Return the entry as its writer encoded it; see ``ReplicaReads.fetch``."""
        first = self._by_number.get(store_number_of(ledger_id), self._by_number[GLOBAL_STORE])
        try:
            return await first.fetch(ledger_id, entry_id)
        except NoSuchLedgerError as error:
            missing = error
        for reads in self._by_number.values():
            if reads is not first:
                with suppress(NoSuchLedgerError):  # it may have been moved there (rule LED-28)
                    return await reads.fetch(ledger_id, entry_id)
        raise missing

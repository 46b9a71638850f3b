"""The metadata of every ledger, read many at a time: one by one, a look takes a round trip each."""

from collections.abc import AsyncIterator

from ..core.metadata.ledgers import LedgerStore
from ..core.protocol.errors import NoSuchLedgerError
from ..core.protocol.ledger_metadata import LedgerMetadata
from ..core.runtime.metadata_store import Version
from ..core.runtime.tasks import run_all

AT_ONCE = 64
"""Reads on their way together: a store some 10 ms away gives thousands a second, and its other
clients wait for one batch of them at most."""


async def all_ledgers(ledgers: LedgerStore) -> AsyncIterator[tuple[LedgerMetadata, Version]]:
    """In order of their ids; those made or deleted meanwhile may be among them or not.

    Raises MetadataUnavailableError, CorruptionError.
    """

    async def one(ledger_id: int) -> tuple[LedgerMetadata, Version] | None:
        try:
            return await ledgers.read(ledger_id)
        except NoSuchLedgerError:
            return None  # deleted meanwhile

    after: int | None = None
    while page := await ledgers.ids(after):
        for start in range(0, len(page), AT_ONCE):
            reads = [one(ledger_id) for ledger_id in page[start : start + AT_ONCE]]
            for found in await run_all(reads, "read ledger metadata"):
                if found is not None:
                    yield found
        after = page[-1]

"""Reads the metadata of all ledgers, concurrently because each read costs a round trip."""

from collections.abc import AsyncGenerator, Callable

from ..core.metadata.ledger_store import LedgerStore
from ..core.protocol.errors import CorruptionError, NoSuchLedgerError
from ..core.protocol.ledger_metadata import LedgerMetadata
from ..core.runtime.metadata_store import Version
from ..core.runtime.tasks import run_all

AT_ONCE = 64
"""Number of concurrent reads. A store 10 ms away then serves thousands of reads per second; other
clients wait for at most one batch."""


OnUnreadable = Callable[[CorruptionError], None]


def _refuse(error: CorruptionError) -> None:
    raise error


async def all_ledgers(
    ledgers: LedgerStore, on_unreadable: OnUnreadable = _refuse
) -> AsyncGenerator[tuple[LedgerMetadata, Version]]:
    """Yield all ledgers in order of their ids; those created or deleted meanwhile may be missing.

    ``on_unreadable`` is called for metadata that is damaged or foreign, and the scan continues.
    Raises MetadataUnavailableError, and without ``on_unreadable`` CorruptionError.
    """

    async def read(ledger_id: int) -> tuple[LedgerMetadata, Version] | None:
        try:
            return await ledgers.read(ledger_id)
        except NoSuchLedgerError:
            return None  # deleted meanwhile
        except CorruptionError as error:
            on_unreadable(CorruptionError(f"ledger {ledger_id}: {error}"))
            return None

    after: int | None = None
    while page := await ledgers.ids(after):
        for start in range(0, len(page), AT_ONCE):
            reads = [read(ledger_id) for ledger_id in page[start : start + AT_ONCE]]
            for found in await run_all(reads, "read ledger metadata"):
                if found is not None:
                    yield found
        after = page[-1]

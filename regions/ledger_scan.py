"""The metadata of every ledger, read many at a time: one by one, a look takes a round trip each."""

from collections.abc import AsyncIterator, Callable

from ..core.metadata.ledger_store import LedgerStore
from ..core.protocol.errors import CorruptionError, NoSuchLedgerError
from ..core.protocol.ledger_metadata import LedgerMetadata
from ..core.runtime.metadata_store import Version
from ..core.runtime.tasks import run_all

AT_ONCE = 64
"""Reads on their way together: a store some 10 ms away gives thousands a second, and its other
clients wait for one batch of them at most."""


OnUnreadable = Callable[[CorruptionError], None]


def _refuse(error: CorruptionError) -> None:
    raise error


async def all_ledgers(
    ledgers: LedgerStore, on_unreadable: OnUnreadable = _refuse
) -> AsyncIterator[tuple[LedgerMetadata, Version]]:
    """In order of their ids; those made or deleted meanwhile may be among them or not.

    ``on_unreadable`` hears of metadata that is damaged or not ours; the others come all the same.
    Raises MetadataUnavailableError, and without ``on_unreadable`` CorruptionError.
    """

    async def one(ledger_id: int) -> tuple[LedgerMetadata, Version] | None:
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
            reads = [one(ledger_id) for ledger_id in page[start : start + AT_ONCE]]
            for found in await run_all(reads, "read ledger metadata"):
                if found is not None:
                    yield found
        after = page[-1]

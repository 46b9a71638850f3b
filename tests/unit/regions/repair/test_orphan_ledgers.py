"""The lookups of one audit are bounded, and only ledgers created for a segment count."""

from typing import cast

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.ledger_metadata import (
    LSSN_KEY,
    NAMESPACE_KEY,
    STREAM_KEY,
    Fragment,
    LedgerMetadata,
)
from rhumbline.regions.repair import orphan_ledgers
from rhumbline.regions.repair.orphan_ledgers import OrphanLedgers

UNREFERENCED = {NAMESPACE_KEY: b"n", STREAM_KEY: b"gone", LSSN_KEY: b"1"}


def ledger(ledger_id: int, custom: dict[str, bytes]) -> LedgerMetadata:
    bookies = (BookieId("b1@00000001"),)
    return LedgerMetadata(ledger_id, 1, 1, 1, (Fragment(0, bookies),), custom=custom)


class Client:
    def __init__(self) -> None:
        self.deleted: list[int] = []

    async def recover(self, ledger_id: int) -> LedgerMetadata:
        return ledger(ledger_id, UNREFERENCED).closed(-1, 0)

    async def delete(self, ledger_id: int) -> None:
        self.deleted.append(ledger_id)


async def test_open_ledgers_of_other_clients_do_not_use_up_the_lookups() -> None:
    client = Client()
    orphans = OrphanLedgers(MemoryStore(), cast(LedgerClient, client))
    orphans.begin_audit()
    limit = orphan_ledgers._LOOKUPS_PER_AUDIT_MAX
    for ledger_id in range(limit):
        assert not await orphans.remove(ledger(ledger_id, {}))
    for ledger_id in range(limit, 2 * limit):
        assert await orphans.remove(ledger(ledger_id, UNREFERENCED))
    assert not await orphans.remove(ledger(2 * limit, UNREFERENCED)), (
        "the lookups of this audit are used up"
    )
    orphans.begin_audit()
    assert await orphans.remove(ledger(2 * limit, UNREFERENCED))
    assert client.deleted == list(range(limit, 2 * limit + 1))

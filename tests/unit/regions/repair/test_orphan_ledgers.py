"""What an auditor asks of in one look is bounded, and only what was made for a segment counts."""

import asyncio
from typing import cast

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.log.write.segment_chain import LSSN_KEY, NAMESPACE_KEY, STREAM_KEY
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.regions.repair import orphan_ledgers
from rhumbline.regions.repair.orphan_ledgers import OrphanLedgers

OF_NOBODY = {NAMESPACE_KEY: b"n", STREAM_KEY: b"gone", LSSN_KEY: b"1"}


def ledger(ledger_id: int, custom: dict[str, bytes]) -> LedgerMetadata:
    bookies = (BookieId("b1@00000001"),)
    return LedgerMetadata(ledger_id, 1, 1, 1, (Fragment(0, bookies),), custom=custom)


class Client:
    def __init__(self) -> None:
        self.deleted: list[int] = []

    async def recover(self, ledger_id: int) -> LedgerMetadata:
        return ledger(ledger_id, OF_NOBODY).closed(-1, 0)

    async def delete(self, ledger_id: int) -> None:
        self.deleted.append(ledger_id)


def test_open_ledgers_of_other_clients_do_not_use_up_a_look() -> None:
    async def main() -> None:
        client = Client()
        one = OrphanLedgers(MemoryStore(), cast(LedgerClient, client))
        one.begin_look()
        most = orphan_ledgers._ASKED_A_LOOK_MAX
        for ledger_id in range(most):
            assert not await one.remove(ledger(ledger_id, {}))
        for ledger_id in range(most, 2 * most):
            assert await one.remove(ledger(ledger_id, OF_NOBODY))
        assert not await one.remove(ledger(2 * most, OF_NOBODY)), "this look has asked enough"
        one.begin_look()
        assert await one.remove(ledger(2 * most, OF_NOBODY))
        assert client.deleted == list(range(most, 2 * most + 1))

    asyncio.run(main())

"""The owner of a ledger is read once for all that wait, and a failed read is told to them."""

import asyncio

import pytest

from rhumbline.core.bookie.permissions import ledger_owners
from rhumbline.core.bookie.permissions.ledger_owners import LedgerOwner, LedgerOwners, owner_of
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    NoSuchLedgerError,
    RhumblineError,
    TooManyRequestsError,
    UnknownStateError,
)
from rhumbline.core.protocol.ledger_metadata import (
    NAMESPACE_KEY,
    STREAM_KEY,
    Fragment,
    LedgerMetadata,
)
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

ORDERS = {NAMESPACE_KEY: b"acme", STREAM_KEY: b"orders"}
FOUND = LedgerOwner("acme", "orders")


class Ledgers:
    """The metadata of ledgers below 100, which can be out of reach, or silent."""

    def __init__(self) -> None:
        self.read_count = 0
        self.is_cut = self.is_silent = False

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, Version]:
        """See MetadataReader."""
        self.read_count += 1
        if self.is_silent:
            await asyncio.Event().wait()
        await asyncio.sleep(0.01)
        if self.is_cut:
            raise MetadataUnavailableError("cut off")
        if ledger_id >= 100:
            raise NoSuchLedgerError(f"ledger {ledger_id} does not exist")
        fragments = (Fragment(0, (BookieId("b1@00000001"),)),)
        return LedgerMetadata(ledger_id, 1, 1, 1, fragments, custom=ORDERS), Version("1")


Results = list[tuple[int, LedgerOwner | RhumblineError]]


@pytest.mark.run_by(runner=run_jumping)
async def test_one_read_serves_all_that_wait_in_their_order() -> None:
    ledgers, tasks, results = Ledgers(), Tasks(), Results()
    owners = LedgerOwners(ledgers, tasks, 4)
    assert owners.known(7) is None
    for number in range(2):
        owners.find(7, "c", lambda found, number=number: results.append((number, found)))  # type: ignore[misc]
    with pytest.raises(TooManyRequestsError, match="2 requests of this client and 0 others"):
        owners.find(8, "c", lambda _: None)
    assert results == []
    await asyncio.sleep(1)
    assert results == [(0, FOUND), (1, FOUND)]
    assert ledgers.read_count == 1
    assert owners.known(7) == FOUND
    owners.find(8, "c", lambda found: results.append((8, found)))
    await asyncio.sleep(1)
    assert results[-1] == (8, FOUND)
    await tasks.aclose()


@pytest.mark.run_by(runner=run_jumping)
async def test_each_client_leaves_places_to_others() -> None:
    tasks = Tasks()
    owners = LedgerOwners(Ledgers(), tasks, 12)

    def places(client: str) -> int:
        """Return how many places the client gets."""
        with pytest.raises(TooManyRequestsError):
            for count in range(20):
                owners.find(count, client, lambda _: None)
        return count

    assert [places(client) for client in "abcde"] == [6, 3, 2, 1, 0]
    await asyncio.sleep(1)
    assert places("e") == 6
    await tasks.aclose()


@pytest.mark.run_by(runner=run_jumping)
async def test_an_owner_that_is_not_found_is_looked_up_again() -> None:
    ledgers, tasks, results = Ledgers(), Tasks(), Results()
    owners = LedgerOwners(ledgers, tasks, 6)
    owners.find(100, "c", lambda found: results.append((100, found)))
    await asyncio.sleep(1)
    ledgers.is_cut = True
    owners.find(7, "c", lambda found: results.append((7, found)))
    await asyncio.sleep(1)
    ledgers.is_cut, ledgers.is_silent = False, True
    owners.find(7, "c", lambda found: results.append((7, found)))
    await asyncio.sleep(10)
    ledgers.is_silent = False
    owners.find(7, "c", lambda found: results.append((7, found)))
    await asyncio.sleep(1)
    kinds = [found if isinstance(found, LedgerOwner) else type(found) for _, found in results]
    assert kinds == [NoSuchLedgerError, UnknownStateError, UnknownStateError, FOUND]
    await tasks.aclose()


@pytest.mark.run_by(runner=run_jumping)
async def test_few_owners_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_owners, "_OWNERS_MAX", 2)
    tasks = Tasks()
    owners = LedgerOwners(Ledgers(), tasks, 6)
    for ledger_id in (1, 2):
        owners.find(ledger_id, "c", lambda _: None)
        await asyncio.sleep(1)
    assert owners.known(1) == FOUND
    owners.find(3, "c", lambda _: None)
    await asyncio.sleep(1)
    assert [owners.known(ledger_id) for ledger_id in (1, 2, 3)] == [FOUND, None, FOUND]
    await tasks.aclose()


@pytest.mark.run_by(runner=run_jumping)
async def test_shutdown_answers_what_waits() -> None:
    ledgers, tasks, results = Ledgers(), Tasks(), Results()
    ledgers.is_silent = True
    owners = LedgerOwners(ledgers, tasks, 6)
    owners.find(7, "c", lambda found: results.append((7, found)))
    await asyncio.sleep(0)
    await tasks.aclose()
    ((_, found),) = results
    assert isinstance(found, UnknownStateError)


def test_a_ledger_without_a_stream_has_no_owner() -> None:
    assert owner_of(ORDERS) == FOUND
    assert owner_of({}) == owner_of({NAMESPACE_KEY: b"acme"}) == LedgerOwner()
    assert owner_of({**ORDERS, STREAM_KEY: b"\xff"}) == LedgerOwner()

"""An introduced ledger accepts its first add while the metadata store is unavailable.

A writer introduces a ledger by an explicit LAC of -1 before its first add. An introduction must not
create a ledger whose metadata does not name the bookie, undo a fence, or restore a deleted ledger.
"""

import asyncio
from typing import cast

import pytest

from rhumbline.core.bookie.ledger_membership import (
    LedgerMembership,
    MembershipCheck,
    MetadataReader,
)
from rhumbline.core.protocol.bookie_id import BookieId, check_bookie_id
from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    NoSuchLedgerError,
    RhumblineError,
    TooManyRequestsError,
)
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.core.wire.v2 import Code
from rhumbline.core.wire.v3 import Status
from rhumbline.tests.unit.core.bookie.bookie_world import (
    entry,
    introduce,
    one_bookie,
    unavailable,
)


async def test_first_add_of_an_introduced_ledger_needs_no_metadata_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_bookie() as (world, _, wire):
        assert await introduce(wire, 1) == Status.OK
        monkeypatch.setattr(world.store, "get", unavailable)
        assert await wire.add(entry(1, 0)) == Code.OK
        assert await wire.add(entry(2, 0)) != Code.OK, "the ledger was not introduced"
        assert await wire.read(1, 0) == (Code.OK, entry(1, 0))


async def test_introduction_fails_if_the_metadata_does_not_name_the_bookie() -> None:
    async with one_bookie() as (world, bookie, wire):
        await world.make_ledger(20, check_bookie_id("other@00000001"))
        for ledger_id in (20, 21):
            assert await introduce(wire, ledger_id) == Status.UNKNOWN_STATE
            assert ledger_id not in bookie.service.ledgers
            assert await wire.add(entry(ledger_id, 0)) != Code.OK


async def test_fence_before_or_after_an_introduction_holds() -> None:
    async with one_bookie() as (_, _bookie, wire):
        assert await introduce(wire, 1) == Status.OK
        assert await wire.fence(1) == Code.NO_ENTRY
        assert await wire.fence(2) == Code.NO_ENTRY
        assert await introduce(wire, 2) == Status.OK
        for ledger_id in (1, 2):
            assert await wire.add(entry(ledger_id, 0)) == Code.FENCED


async def test_introduction_does_not_restore_a_deleted_ledger() -> None:
    async with one_bookie() as (world, bookie, wire):
        assert await introduce(wire, 2) == Status.OK
        await world.ledgers.delete(2)
        bookie.service.storage.delete_ledger(2)
        assert await introduce(wire, 2) == Status.NO_LEDGER
        assert await wire.add(entry(2, 0)) == Code.NO_LEDGER


class GatedReader:
    """Metadata of ledgers that is read when the gate opens."""

    def __init__(self, results: dict[int, LedgerMetadata | RhumblineError]) -> None:
        self.gate = asyncio.Event()
        self.results = results
        self.read_ids: list[int] = []

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, object]:
        self.read_ids.append(ledger_id)
        await self.gate.wait()
        found = self.results[ledger_id]
        if isinstance(found, RhumblineError):
            raise found
        return found, None


def metadata_of(ledger_id: int, *ensembles: tuple[str, ...]) -> LedgerMetadata:
    fragments = tuple(
        Fragment(10 * at, tuple(BookieId(bookie) for bookie in ensemble))
        for at, ensemble in enumerate(ensembles)
    )
    return LedgerMetadata(ledger_id, 1, 1, 1, fragments, creation_token=1)


async def test_requests_for_one_ledger_share_a_read_and_their_number_is_limited() -> None:
    reader = GatedReader(
        {
            1: metadata_of(1, ("other@00000001",), ("me@00000001",)),
            2: metadata_of(2, ("other@00000001",)),
            3: NoSuchLedgerError("no ledger 3"),
            4: MetadataUnavailableError("the store is unavailable"),
        }
    )
    tasks = Tasks()
    membership = LedgerMembership(
        cast(MetadataReader, reader), BookieId("me@00000001"), tasks, waiting_count_max=5
    )
    found: list[tuple[int, MembershipCheck]] = []
    for ledger_id in (1, 1, 2, 3, 4):
        membership.check(ledger_id, lambda check, at=ledger_id: found.append((at, check)))  # type: ignore[misc]
    assert membership.waiting_count == 5
    with pytest.raises(TooManyRequestsError, match=r"^5 requests wait .* \(at most 5\)$"):
        membership.check(1, lambda check: None)
    await asyncio.sleep(0)
    assert reader.read_ids == [1, 2, 3, 4]
    reader.gate.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert found == [
        (1, MembershipCheck.NAMED),
        (1, MembershipCheck.NAMED),
        (2, MembershipCheck.NOT_NAMED),
        (3, MembershipCheck.DELETED),
        (4, MembershipCheck.UNKNOWN),
    ]
    assert membership.waiting_count == 0
    membership.check(1, lambda check: found.append((9, check)))
    for _ in range(5):
        await asyncio.sleep(0)
    assert found[-1] == (9, MembershipCheck.NAMED)
    assert reader.read_ids == [1, 2, 3, 4, 1], "an outcome is not kept"
    await tasks.aclose()

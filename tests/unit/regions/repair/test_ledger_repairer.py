"""The members of a fragment are completed at the same time."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import BookieUnavailableError, NoSuchEntryError
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire.availability import Availability, decode, encode, runs_of
from rhumbline.core.wire.entry import Entry
from rhumbline.placement.region_aware import RegionAwarePlacement
from rhumbline.regions.repair.config import RepairConfig
from rhumbline.regions.repair.errors import NoCopyError, RepairStuckError
from rhumbline.regions.repair.ledger_repairer import LedgerRepairer
from rhumbline.regions.repair.liveness import Liveness
from rhumbline.regions.states import PlacementStates
from rhumbline.regions.steered_directory import SteeredDirectory
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.log_world import ManualClock

pytestmark = pytest.mark.run_by(runner=run_jumping)

BOOKIES = tuple(BookieId(f"b{number}@00000001") for number in range(3))
ROUND_TRIP_S = 0.1


@dataclass(slots=True)
class FarBookies:
    """Bookies that are ``ROUND_TRIP_S`` away, and the entries of the ledger that they have."""

    held: dict[BookieId, list[int]]
    refusing: BookieId | None = None
    """The bookie that stores nothing."""
    unreadable: list[int] = field(default_factory=list)
    """Entries of which there is no good copy."""

    async def list_entries(self, bookie: BookieId, _ledger_id: int) -> Availability:
        await asyncio.sleep(ROUND_TRIP_S)
        return decode(encode(runs_of(self.held[bookie])))

    async def put(self, bookie: BookieId, _ledger: LedgerMetadata, entries: Sequence[Entry]) -> int:
        await asyncio.sleep(ROUND_TRIP_S)
        if bookie == self.refusing:
            raise BookieUnavailableError(f"{bookie} is full")
        self.held[bookie] += [entry.entry_id for entry in entries]
        return len(entries)

    async def read(self, first: int, last: int) -> list[Entry]:
        await asyncio.sleep(ROUND_TRIP_S)
        if first in self.unreadable:
            raise NoSuchEntryError(f"entry {first}")
        return [Entry(entry_id, entry_id - 1, 10, b"0123456789") for entry_id in (first, last)][:1]

    async def aclose(self) -> None:
        """Does nothing: it is its own reader."""


async def repair(bookies: FarBookies) -> float:
    """Repair a ledger of two entries on three bookies; return the seconds that this took."""
    store = MemoryStore()
    client = SimpleNamespace(copies=bookies, reader=lambda _metadata, _version: bookies)
    repairer = LedgerRepairer(
        Runtime(ManualClock(), Random(1)),
        cast(LedgerClient, client),
        store,
        SteeredDirectory(store),
        RegionAwarePlacement(),
        config=RepairConfig(),
    )
    ledger = LedgerMetadata(7, 3, 3, 2, (Fragment(0, BOOKIES),), creation_token=1).closed(1, 20)
    present = [BookieInfo(bookie) for bookie in BOOKIES]
    liveness = Liveness(PlacementStates(), present, {info.bookie: info for info in present}, {})
    loop = asyncio.get_running_loop()
    began = loop.time()
    await repairer.repair(ledger, cast(Version, 1), liveness)
    return loop.time() - began


async def test_members_list_their_entries_at_the_same_time() -> None:
    took_s = await repair(FarBookies({bookie: [0, 1] for bookie in BOOKIES}))
    assert took_s == pytest.approx(ROUND_TRIP_S)


async def test_members_are_filled_at_the_same_time() -> None:
    bookies = FarBookies({BOOKIES[0]: [0, 1], BOOKIES[1]: [0], BOOKIES[2]: [0]})
    took_s = await repair(bookies)
    assert took_s == pytest.approx(4 * ROUND_TRIP_S), "list, read, store, list"
    assert bookies.held == {bookie: [0, 1] for bookie in BOOKIES}


async def test_a_member_that_refuses_copies_does_not_stop_the_others() -> None:
    """A refusal is quick, so that a long copy would be cancelled again in each attempt."""
    bookies = FarBookies({BOOKIES[0]: [0, 1], BOOKIES[1]: [1], BOOKIES[2]: []}, refusing=BOOKIES[1])
    with pytest.raises(RepairStuckError, match="b1@00000001 does not accept copies"):
        await repair(bookies)
    assert bookies.held[BOOKIES[2]] == [0, 1]


async def test_an_entry_without_a_copy_is_reported_before_other_reasons() -> None:
    bookies = FarBookies(
        {BOOKIES[0]: [0], BOOKIES[1]: [1], BOOKIES[2]: [0]},
        refusing=BOOKIES[1],
        unreadable=[1],
    )
    with pytest.raises(NoCopyError, match="entry 1 has no good copy"):
        await repair(bookies)

"""The snapshots of repair count the writable bookies of each region."""

from collections.abc import Mapping, Sequence
from typing import cast

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import BookieUnavailableError
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire.registration import Registration
from rhumbline.placement.spread.spread_improvement import move_to_spread
from rhumbline.regions.repair.liveness import LivenessMonitor
from rhumbline.regions.states import PlacementState, PlacementStates
from rhumbline.regions.steered_directory import SteeredDirectory

HOMES = {"b1": "bonn", "b2": "bonn", "o1": "oslo", "r1": "rome", "plain": None}


class Directory:
    """The bookies of ``HOMES``, of which some are writable or read-only."""

    def __init__(self) -> None:
        self.states = self
        self.writable: Sequence[str] = tuple(HOMES)
        self.closed: Sequence[str] = ()
        self.placement = PlacementStates()

    async def read(self) -> PlacementStates:
        return self.placement

    async def everything(self) -> list[BookieInfo]:
        return [BookieInfo(BookieId(b), await self.region_of(BookieId(b))) for b in self.writable]

    async def read_only(self) -> list[BookieId]:
        return [BookieId(name) for name in self.closed]

    async def all_known(self) -> list[BookieId]:
        return [BookieId(name) for name in HOMES]

    async def registration(self, bookie: BookieId) -> None:
        raise BookieUnavailableError("its registration ended a moment ago")

    def last_known(self, bookie: BookieId, region: Region | None) -> BookieInfo:
        return BookieInfo(bookie, region)

    async def region_of(self, bookie: BookieId) -> Region | None:
        home = HOMES[bookie]
        return None if home is None else Region(home)


async def counted(directory: Directory) -> Mapping[str, int]:
    monitor = LivenessMonitor(cast(SteeredDirectory, directory), 60_000)
    assert monitor.writable_by_region == {}, "nothing is known before the first snapshot"
    await monitor.snapshot()
    return monitor.writable_by_region


async def test_region_without_a_writable_bookie_counts_as_zero() -> None:
    directory = Directory()
    assert await counted(directory) == {"bonn": 2, "oslo": 1, "rome": 1}
    directory.writable, directory.closed = ("b1", "r1"), ("o1",)
    assert await counted(directory) == {"bonn": 1, "oslo": 0, "rome": 1}


async def test_region_that_an_operator_took_out_of_service_is_left_out() -> None:
    directory = Directory()
    drained = PlacementState.DRAINED
    directory.placement = PlacementStates().with_region(Region("oslo"), drained)
    assert await counted(directory) == {"bonn": 2, "rome": 1}
    directory.placement = PlacementStates().with_bookie(BookieId("b1"), drained)
    assert await counted(directory) == {"bonn": 1, "oslo": 1, "rome": 1}


async def test_copies_on_read_only_bookies_of_one_rack_can_be_spread_to_another_rack() -> None:
    """The rack of a read-only bookie was not known, so copies that shared it were left there."""
    store = MemoryStore()
    directory = SteeredDirectory(store)
    session = await store.session(10_000)
    bookies = [BookieId(f"b{n}@00000001") for n in range(3)]
    for number, bookie in enumerate(bookies):
        rack = "r2" if number == 2 else "r1"
        properties = {"region": "bonn", "rack": rack}
        registration = Registration(bookie, f"host{number}", 1, properties)
        await directory.register(session, registration, read_only=number < 2)
    liveness = await LivenessMonitor(directory, 60_000).snapshot()
    members = [liveness.present[bookie] for bookie in bookies[:2]]
    assert [member.rack for member in members] == ["r1", "r1"]
    found = move_to_spread(Quorum(2, 2, 2), members, liveness.spare(bookies[:2], ()), {})
    assert found is not None and found[1][2] == "r2"
    directory.close()

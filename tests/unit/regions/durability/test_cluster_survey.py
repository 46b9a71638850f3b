"""The states of bookies are read from the store, and never guessed."""

from random import Random

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.cluster_layout import Paths, initialise_cluster
from rhumbline.core.protocol.bookie_id import BookieId, Region, check_bookie_id
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.core.runtime.metadata_store import Session
from rhumbline.core.wire.cookie import Cookie
from rhumbline.core.wire.registration import LIMBO, LOST, RACK, Registration
from rhumbline.regions.durability.cluster_survey import read_cluster
from rhumbline.regions.durability.copy_states import CopyState
from rhumbline.regions.states import PlacementState
from rhumbline.regions.steered_directory import SteeredDirectory
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)


def bookie_id(name: str) -> BookieId:
    return check_bookie_id(f"{name}@00000001")


class World:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.directory = SteeredDirectory(self.store)

    async def start(self) -> Session:
        await initialise_cluster(self.store, Random(1))
        return await self.store.session(1_000_000)

    async def add(
        self,
        name: str,
        session: Session | None,
        *,
        has_cookie: bool = True,
        read_only: bool = False,
        properties: dict[str, str] | None = None,
    ) -> BookieId:
        bookie = bookie_id(name)
        await self.directory.record_region(bookie, Region("rome"))
        if has_cookie:
            await self.directory.write_cookie(Cookie(bookie, "journal", ("ledgers",), "cluster"))
        if session is not None:
            labels = {RACK: f"rack-{name}", **(properties or {})}
            registration = Registration(bookie, name, 1, labels)
            await self.directory.register(session, registration, read_only=read_only)
        return bookie


async def test_each_bookie_has_the_state_that_the_store_shows() -> None:
    world = World()
    session = await world.start()
    await world.add("up", session)
    await world.add("full", session, read_only=True)
    await world.add("limbo", session, properties={LIMBO: "yes"})
    odd = await world.add("odd", session)
    await world.store.put(Paths().registration(odd, read_only=False), b"does not parse")
    await world.add("apache", session)
    partly = await world.add("partly", session, properties={LOST: "3,7-8"})
    await world.add("holey", session, properties={LOST: "all"})
    await world.add("down", None)
    await world.add("gone", None, has_cookie=False)
    await world.add("lost", None)
    await world.add("drained", session)
    await world.add("offline", session)
    await world.directory.states.change(
        lambda states: states.with_bookie(bookie_id("drained"), PlacementState.DRAINED).with_bookie(
            bookie_id("offline"), PlacementState.OFFLINE
        )
    )
    found = await read_cluster(
        world.directory, [bookie_id("gone"), bookie_id("up")], given_up=[bookie_id("lost")]
    )
    states = {bookie.partition("@")[0]: member for bookie, member in found.members.items()}
    assert {name: member.state for name, member in states.items()} == {
        "up": CopyState.UP,
        "full": CopyState.UP,
        "limbo": CopyState.LIMBO,
        "odd": CopyState.LIMBO,
        "apache": CopyState.UP,
        "partly": CopyState.UP,
        "holey": CopyState.INCOMPLETE,
        "down": CopyState.DOWN,
        "gone": CopyState.DECOMMISSIONED,
        "lost": CopyState.LOST,
        "drained": CopyState.DRAINING,
        "offline": CopyState.LOST,
    }
    assert states["up"].path == ("rome", None, "rack-up", "up")
    assert states["full"].path == ("rome", None, "rack-full", "full"), "also of a read-only one"
    assert states["down"].path == states["gone"].path == ("rome", None, None, None)
    adds = sorted(name for name, member in states.items() if member.accepts_adds)
    assert adds == ["apache", "drained", "holey", "offline", "partly", "up"]
    open_to_ledgers = sorted(n for n, m in states.items() if m.accepts_ledgers)
    assert open_to_ledgers == ["apache", "holey", "partly", "up"]
    assert {b: ids for b, ids in found.lacking.items() if ids} == {partly: frozenset((3, 7, 8))}
    world.directory.close()


async def test_registrations_that_cannot_be_read_are_an_error() -> None:
    class CutOff(MemoryStore):
        is_cut_off = False

        async def children(self, path: str, **options: object) -> list[str]:
            if self.is_cut_off:
                raise MetadataUnavailableError("cut off")
            return await super().children(path)

    world = World()
    world.store = CutOff()
    world.directory = SteeredDirectory(world.store)
    await world.add("up", await world.start())
    assert (await read_cluster(world.directory, ())).of(bookie_id("up")).state is CopyState.UP
    world.store.is_cut_off = True
    with pytest.raises(MetadataUnavailableError):
        await read_cluster(world.directory, ())
    world.directory.close()

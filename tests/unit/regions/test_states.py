"""Region and bookie states: what an operator closed gets no new data, in every process."""

import asyncio

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import CorruptionError, LimitExceededError
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.core.wire.cookie import Cookie
from rhumbline.core.wire.registration import Registration
from rhumbline.regions.cached_states import CachedStates
from rhumbline.regions.states import (
    REREAD_MS,
    PlacementState,
    PlacementStates,
    PlacementStateStore,
    decode,
    encode,
)
from rhumbline.regions.steered_directory import SteeredDirectory
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LossyStore

pytestmark = pytest.mark.run_by(runner=run_jumping)

BOOKIES = {"a0@00000001": "a", "a1@00000001": "a", "b0@00000001": "b"}
A, B = Region("a"), Region("b")


async def cluster(store: MetadataStore) -> SteeredDirectory:
    directory = SteeredDirectory(store)
    session = await store.session(10_000)
    for name, region in BOOKIES.items():
        bookie = BookieId(name)
        await directory.record_region(bookie, Region(region))
        registration = Registration(bookie, "host", 1, {"rack": f"r-{name[1]}"})
        await directory.register(session, registration)
    return directory


async def open_bookies(directory: SteeredDirectory) -> list[str]:
    return [str(info.bookie) for info in await directory.snapshot()]


async def put(directory: SteeredDirectory, region: Region, state: PlacementState) -> None:
    await directory.states.change(lambda states: states.with_region(region, state))


async def test_command_is_effective_for_every_choice_that_starts_after_it() -> None:
    store = MemoryStore()
    here, elsewhere = await cluster(store), SteeredDirectory(store)
    assert await open_bookies(elsewhere) == list(BOOKIES)
    for state in PlacementState:
        await put(here, A, state)
        assert await open_bookies(elsewhere) == ["b0@00000001"]
    assert len(await elsewhere.everything()) == 3
    await here.states.change(lambda states: states.with_region(A, None))
    assert await open_bookies(elsewhere) == list(BOOKIES)


async def test_choice_waits_for_one_round_trip() -> None:
    """It waited for two, because the states were read after the list of bookies."""
    store = LossyStore(MemoryStore())
    directory = await cluster(store)
    await directory.snapshot()  # the regions and addresses are known from now on
    store.delay_s = lambda: 0.08
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert await open_bookies(directory) == list(BOOKIES)
    assert loop.time() - began_s == pytest.approx(0.08)


async def test_single_bookie_can_be_closed() -> None:
    directory = await cluster(MemoryStore())
    bookie = BookieId("a0@00000001")
    await directory.states.change(lambda states: states.with_bookie(bookie, PlacementState.DRAINED))
    assert await open_bookies(directory) == ["a1@00000001", "b0@00000001"]
    assert directory.rack_of(BookieId("a1@00000001")) == "r-1"


def test_stronger_of_two_states_is_effective() -> None:
    bookie = BookieId("a0@00000001")
    states = (
        PlacementStates()
        .with_region(A, PlacementState.OFFLINE)
        .with_bookie(bookie, PlacementState.DISALLOWED)
    )
    assert states.of(bookie, A) is PlacementState.OFFLINE
    assert states.of(bookie, B) is PlacementState.DISALLOWED
    assert states.of(BookieId("b0@00000001"), B) is None
    assert states.of(BookieId("b0@00000001"), None) is None
    assert states.open_to_new([BookieInfo(bookie, B), BookieInfo(BookieId("x"), None)]) == [
        BookieInfo(BookieId("x"), None)
    ]


def test_states_survive_the_round_trip_and_damage_is_detected() -> None:
    states = PlacementStates(
        {A: PlacementState.DRAINED}, {BookieId("b0@00000001"): PlacementState.OFFLINE}
    )
    assert decode(encode(states)) == states
    for data in (b"", b"[]", b"{}", b'{"regions":{"a":"gone"},"bookies":{}}', b'{"regions":[]}'):
        with pytest.raises(CorruptionError):
            decode(data)
    with pytest.raises(LimitExceededError, match="drain whole regions"):
        encode(
            PlacementStates(
                {}, {BookieId(f"b{i}@00000001"): PlacementState.DRAINED for i in range(5000)}
            )
        )


async def test_concurrent_changes_of_two_operators_are_both_applied() -> None:
    store = MemoryStore()
    one, other = PlacementStateStore(store), PlacementStateStore(store)

    def late(states: PlacementStates) -> PlacementStates:
        return states.with_region(A, PlacementState.DRAINED)

    await asyncio.gather(
        one.change(late),
        other.change(lambda states: states.with_region(B, PlacementState.DISALLOWED)),
    )
    assert await one.read() == PlacementStates(
        {A: PlacementState.DRAINED, B: PlacementState.DISALLOWED}
    )


async def test_lost_reply_is_resolved() -> None:
    store = LossyStore(MemoryStore())
    states = PlacementStateStore(store)
    store.outcomes = [LOST_REPLY]
    await states.change(lambda known: known.with_region(A, PlacementState.DRAINED))
    assert (await states.read()).regions == {A: PlacementState.DRAINED}


async def test_cached_states_are_refreshed_even_without_a_watch() -> None:
    store = MemoryStore()
    states = PlacementStateStore(store)
    follower = CachedStates(states)
    assert not follower.is_offline("a")
    await asyncio.sleep(0.01)
    await states.change(lambda known: known.with_region(A, PlacementState.OFFLINE))
    await asyncio.sleep(0.01)
    assert follower.is_offline("a"), "the watch called back"
    follower._watch.close()
    await states.change(lambda known: known.with_region(A, None))
    await asyncio.sleep(REREAD_MS / 1000 + 0.01)
    assert follower.is_offline("a"), "outdated, and the access starts a refresh"
    await asyncio.sleep(0.01)
    assert not follower.is_offline("a")
    await follower.aclose()


async def test_default_quorums_count_regions_that_take_new_data() -> None:
    store = MemoryStore()
    directory = await cluster(store)
    for name in (*BOOKIES, "x0@00000001"):
        if name[0] == "x":
            await directory.record_region(BookieId(name), Region("x"))
        await directory.write_cookie(Cookie(BookieId(name), "j", ("l",), "instance"))
    assert {info.region for info in await directory.configured()} == {"a", "b", "x"}
    assert [info.bookie for info in await directory.in_usable_regions()] == sorted(BOOKIES)
    await directory.states.change(lambda states: states.with_region(A, PlacementState.DRAINED))
    assert [info.region for info in await directory.in_usable_regions()] == ["b"]
    await directory.states.change(lambda states: states.with_region(B, PlacementState.OFFLINE))
    assert len(await directory.in_usable_regions()) == 4, "nothing takes data: all count"
    assert await directory.declared_regions() is None
    await store.close()

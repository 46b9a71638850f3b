"""Each metadata store is asked only about the ledgers whose ids it owns (rule BKE-26)."""

from dataclasses import replace
from random import Random

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.cluster_layout import Paths, initialise_cluster
from rhumbline.core.metadata.join_regional_store import join_regional_store
from rhumbline.core.metadata.ledger_ids import id_range_of
from rhumbline.core.metadata.ledger_places import encode_place
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.metadata.ledger_stores import LedgerStores
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    NodeExistsError,
    NoSuchLedgerError,
)
from rhumbline.core.protocol.ledger_metadata import MOVING_KEY, Fragment, LedgerMetadata
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire.ledger_metadata import encode
from rhumbline.tests.support.fakes.ledger_numbers import create
from rhumbline.tests.unit.core.bookie.bookie_world import FixedClock

BOOKIES = (BookieId("b@00000000"),)
EAST, WEST, NEVER = (id_range_of(number).start for number in (1, 2, 9))


class World:
    """A global store and the stores of east (1) and west (2)."""

    async def start(self) -> "World":
        self.store, self.east, self.west = MemoryStore(), MemoryStore(), MemoryStore()
        await initialise_cluster(self.store, Random(1))
        runtime = Runtime(FixedClock(), Random(3))
        for region, store in (("east", self.east), ("west", self.west)):
            await join_regional_store(self.store, store, region, runtime)
        regional = LedgerStore(self.east, number=1)
        self.ledgers = LedgerStores(LedgerStore(self.store), regional)
        self.only_global = LedgerStores(LedgerStore(self.store))
        return self

    async def make(self, store: MemoryStore, *ids: int) -> None:
        for id_ in ids:
            fragments = (Fragment(0, BOOKIES),)
            await create(store, LedgerMetadata(id_, 1, 1, 1, fragments, creation_token=1))


async def test_a_ledger_is_read_from_the_store_of_its_range() -> None:
    world = await World().start()
    await world.make(world.store, 4, NEVER + 4)
    await world.make(world.east, EAST + 4)
    for id_ in (4, EAST + 4, NEVER + 4):
        assert (await world.ledgers.read(id_))[0].ledger_id == id_
    for id_ in (5, EAST + 5, NEVER + 5):
        with pytest.raises(NoSuchLedgerError):
            await world.ledgers.read(id_)


async def test_what_an_unknown_store_owns_is_never_reported_as_deleted() -> None:
    """The trap: the setting of the regional store was lost, and the global one is asked."""
    world = await World().start()
    await world.make(world.east, EAST + 4)
    for stores, id_ in (
        (world.only_global, EAST + 4),
        (world.only_global, EAST + 5),
        (world.ledgers, WEST + 5),
    ):
        with pytest.raises(MetadataUnavailableError, match="not in the settings of this process"):
            await stores.read(id_)


async def test_an_unreachable_store_does_not_hide_the_other() -> None:
    world = await World().start()
    await world.make(world.east, EAST + 4)
    world.store.disconnect()
    assert (await world.ledgers.read(EAST + 4))[0].ledger_id == EAST + 4
    with pytest.raises(NoSuchLedgerError):
        await world.ledgers.read(EAST + 5)
    for id_ in (4, WEST + 4, NEVER + 4):
        with pytest.raises(MetadataUnavailableError):
            await world.ledgers.read(id_)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_hold_the_ledgers_of_all_stores_once_in_order(limit: int) -> None:
    world = await World().start()
    await world.make(world.store, 3, 2**31 + 5, NEVER, NEVER + 1)
    await world.make(world.east, EAST, EAST + 1, EAST + 2)
    found: list[int] = []
    after: int | None = None
    while page := await world.ledgers.ids(after, limit):
        assert len(page) <= limit
        found += page
        after = page[-1]
    assert found == [3, 2**31 + 5, EAST, EAST + 1, EAST + 2, NEVER, NEVER + 1]
    assert await world.ledgers.ids(EAST + 1, 2) == [EAST + 2, NEVER]


async def test_each_store_gives_a_bound_of_its_ids() -> None:
    world = await World().start()
    assert await world.ledgers.next_ids([]) == [0, EAST]
    assert await world.ledgers.next_ids([0]) == [EAST + 1]
    assert await world.ledgers.next_ids([0, 1]) == []


async def move(world: World, source: MemoryStore, target: MemoryStore, ledger_id: int) -> None:
    """Move the metadata of a ledger; both stores say where it is."""
    paths = Paths()
    value = await source.get(paths.ledger(ledger_id))
    number = 0 if target is world.store else 1
    for store in (source, target):
        path, data = paths.place(ledger_id), encode_place(number)
        try:
            await store.create(path, data)
        except NodeExistsError:
            await store.put(path, data)
    await target.create(paths.ledger(ledger_id), value.data)
    await source.delete(paths.ledger(ledger_id))


async def test_a_moved_ledger_is_read_where_it_is() -> None:
    world = await World().start()
    await world.make(world.store, 4)
    await world.make(world.east, EAST + 4)
    await move(world, world.store, world.east, 4)
    await move(world, world.east, world.store, EAST + 4)
    for id_ in (4, EAST + 4):
        assert (await world.ledgers.read(id_))[0].ledger_id == id_
    assert (await world.only_global.read(EAST + 4))[0].ledger_id == EAST + 4
    assert await world.ledgers.ids() == [4, EAST + 4]
    for owner in world.ledgers.all:
        listed = await world.ledgers.listed_elsewhere(owner)
        assert listed == ({4} if owner.number == 0 else {EAST + 4})


async def test_a_moved_ledger_is_deleted_only_if_the_store_that_has_it_does_not_know_it() -> None:
    world = await World().start()
    await world.make(world.store, 4)
    await world.make(world.east, EAST + 4)
    await move(world, world.store, world.east, 4)
    await move(world, world.east, world.store, EAST + 4)
    await world.east.delete(Paths().ledger(4))
    await world.store.delete(Paths().ledger(EAST + 4))
    for stores, id_ in (
        (world.ledgers, 4),
        (world.ledgers, EAST + 4),
        (world.only_global, EAST + 4),
    ):
        with pytest.raises(NoSuchLedgerError):
            await stores.read(id_)
    with pytest.raises(MetadataUnavailableError, match="not in the settings of this process"):
        await world.only_global.read(4)


async def test_a_ledger_that_came_home_and_was_deleted_is_deleted() -> None:
    world = await World().start()
    await world.make(world.store, 4)
    await move(world, world.store, world.east, 4)
    await move(world, world.east, world.store, 4)
    assert (await world.ledgers.read(4))[0].ledger_id == 4
    await world.store.delete(Paths().ledger(4))
    with pytest.raises(NoSuchLedgerError):
        await world.ledgers.read(4)


async def test_a_store_that_does_not_say_that_it_has_a_ledger_is_not_believed() -> None:
    """The trap: the address of the regional store leads to another store, which knows nothing."""
    world = await World().start()
    await world.make(world.store, 4)
    await move(world, world.store, world.east, 4)
    other = LedgerStores(LedgerStore(world.store), LedgerStore(world.west, number=1))
    with pytest.raises(MetadataUnavailableError, match="is being moved"):
        await other.read(4)
    world.east.disconnect()
    with pytest.raises(MetadataUnavailableError):
        await world.ledgers.read(4)
    assert await world.ledgers.listed_elsewhere(world.ledgers.all[0]) == set()


async def test_a_ledger_that_is_being_moved_proves_nothing() -> None:
    """Repair may have changed its copy in the other store already."""
    world = await World().start()
    await world.make(world.store, 4)
    path = Paths().ledger(4)
    metadata, _ = await world.ledgers.read(4)
    frozen = replace(metadata, custom={MOVING_KEY: b"1"})
    await world.store.put(path, encode(frozen))
    with pytest.raises(MetadataUnavailableError, match="is being moved"):
        await world.ledgers.read(4)

"""A bookie with ledgers of two metadata stores asks each of them only about its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.metadata.join_regional_store import join_regional_store
from rhumbline.core.metadata.ledger_ids import id_range_of
from rhumbline.core.metadata.ledger_places import encode_place
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.metadata.regional_store import RegionalStore
from rhumbline.core.protocol.bookie_id import Region
from rhumbline.core.protocol.errors import WrongClusterError
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.runtime.metadata_store import Create, Delete, Operation
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.support.fakes.ledger_numbers import create
from rhumbline.tests.unit.core.bookie.bookie_world import PASSWORD, Wire, World, entry
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import SMALL, UNLIMITED

LOCAL = id_range_of(1).start


class RegionalWorld(World):
    """A world whose region east has a metadata store of its own."""

    async def start(self) -> None:
        await super().start()
        self.east = MemoryStore()
        await join_regional_store(self.store, self.east, "east", self.runtime)
        self.regional = await RegionalStore.open(self.east, Region("east"))

    async def open_in_both(self, disk: MemoryDisk, *, has_regional: bool = True) -> Bookie:
        await self.rewind_starts(disk)
        bookie = await Bookie.open(
            self.runtime,
            disk,
            UNLIMITED,
            self.ledgers,
            self.directory,
            regional=self.regional if has_regional else None,
        )
        await bookie.serve("127.0.0.1", 0)
        return bookie

    async def make_local(self, ledger_id: int, bookie: Bookie) -> None:
        fragments = (Fragment(0, (bookie.bookie_id,)),)
        metadata = LedgerMetadata(
            ledger_id, 1, 1, 1, fragments, password=PASSWORD, creation_token=1
        )
        await create(self.east, metadata)


@asynccontextmanager
async def regional_bookie() -> AsyncIterator[tuple[RegionalWorld, MemoryDisk, Bookie, Wire]]:
    world, disk = RegionalWorld(), MemoryDisk()
    await world.start()
    await world.format(disk)
    bookie = await world.open_in_both(disk)
    wire = await Wire.connect(bookie)
    try:
        yield world, disk, bookie, wire
    finally:
        await wire.aclose()
        await bookie.aclose()
        world.regional.close()
        await world.aclose()


async def test_the_bookie_registers_in_both_stores() -> None:
    async with regional_bookie() as (world, _, bookie, _):
        assert await world.directory.writable() == [bookie.bookie_id]
        local = BookieDirectory(world.east)
        assert await local.writable() == [bookie.bookie_id]
        assert await local.region_of(bookie.bookie_id) == "east"
        assert await local.read_cookie(bookie.bookie_id) is not None
        bookie.set_read_only(True)
        while await local.read_only() != [bookie.bookie_id]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await bookie.aclose()
        assert await local.read_only() == await world.directory.read_only() == []
        local.close()


async def test_local_ledgers_need_only_the_regional_store() -> None:
    async with regional_bookie() as (world, _, bookie, wire):
        await world.make_local(LOCAL, bookie)
        world.store.disconnect()
        assert await wire.add(entry(LOCAL, 0)) == Code.OK
        assert await wire.fence(LOCAL, 1) == Code.NO_ENTRY
        assert await wire.add(entry(7, 0)) == Code.IO, "the global store cannot be asked"


async def test_a_ledger_is_deleted_only_if_the_store_of_its_range_does_not_know_it() -> None:
    async with regional_bookie() as (world, _, bookie, wire):
        await world.make_ledger(4, bookie.bookie_id)
        await world.make_ledger(5, bookie.bookie_id)
        for ledger_id in (LOCAL, LOCAL + 1):
            await world.make_local(ledger_id, bookie)
        for ledger_id in (4, 5, LOCAL, LOCAL + 1):
            assert await wire.add(entry(ledger_id, 0)) == Code.OK
        await bookie.maintenance.step()
        assert sorted(bookie.service.ledgers) == [4, 5, LOCAL, LOCAL + 1]
        await world.ledgers.delete(5)
        await LedgerStore(world.east, number=1).delete(LOCAL + 1)
        await bookie.maintenance.step()
        assert sorted(bookie.service.ledgers) == [4, LOCAL]
        assert bookie.statistics()["deleted_ledgers"] == 2


@pytest.mark.parametrize("is_regional_cut", [False, True])
async def test_an_unreachable_store_keeps_its_ledgers_and_stops_nothing_else(
    *, is_regional_cut: bool
) -> None:
    async with regional_bookie() as (world, _, bookie, wire):
        await world.make_ledger(4, bookie.bookie_id)
        await world.make_local(LOCAL, bookie)
        for ledger_id in (4, LOCAL):
            assert await wire.add(entry(ledger_id, 0)) == Code.OK
        await world.ledgers.delete(4)
        await LedgerStore(world.east, number=1).delete(LOCAL)
        (world.east if is_regional_cut else world.store).disconnect()
        await bookie.maintenance.step()
        assert sorted(bookie.service.ledgers) == [LOCAL if is_regional_cut else 4]
        assert bookie.maintenance.failed_count == 1


async def test_without_its_setting_the_ledgers_of_the_regional_store_are_kept() -> None:
    async with regional_bookie() as (world, disk, bookie, wire):
        await world.make_local(LOCAL, bookie)
        assert await wire.add(entry(LOCAL, 0)) == Code.OK
        await bookie.aclose()
        again = await world.open_in_both(disk, has_regional=False)
        await again.maintenance.step()
        assert list(again.service.ledgers) == [LOCAL]
        await again.aclose()


async def test_a_regional_store_in_place_of_the_global_one_deletes_nothing() -> None:
    async with regional_bookie() as (world, disk, bookie, wire):
        await world.make_ledger(4, bookie.bookie_id)
        assert await wire.add(entry(4, 0)) == Code.OK
        collector = bookie.maintenance.collectors[0]
        bookie.maintenance.collectors = [
            collector._replace(read_instance_id=BookieDirectory(world.east).global_instance_id)
        ]
        await bookie.maintenance.step()
        assert "is a regional metadata store" in str(bookie.maintenance.last_failure)
        assert list(bookie.service.ledgers) == [4]
        await bookie.aclose()
        with pytest.raises(WrongClusterError, match="is a regional metadata store"):
            await Bookie.open(
                world.runtime, disk, SMALL, LedgerStore(world.east), BookieDirectory(world.east)
            )


async def test_the_regional_store_must_be_that_of_the_bookies_region_and_cluster() -> None:
    async with regional_bookie() as (world, disk, bookie, _):
        await bookie.aclose()
        west = MemoryStore()
        await join_regional_store(world.store, west, "west", world.runtime)
        other = RegionalWorld(9)
        await other.start()
        for regional, message in (
            (await RegionalStore.open(west, Region("west")), "store is that of region west"),
            (other.regional, "the regional metadata store belongs to cluster"),
        ):
            with pytest.raises(WrongClusterError, match=message):
                await Bookie.open(
                    world.runtime, disk, SMALL, world.ledgers, world.directory, regional=regional
                )
            regional.close()
        await other.aclose()


async def test_limbo_covers_the_ledgers_of_both_stores() -> None:
    async with regional_bookie() as (world, _, bookie, wire):
        await world.make_ledger(4, bookie.bookie_id)
        await world.make_local(LOCAL, bookie)
        for ledger_id in (4, LOCAL):
            assert await wire.add(entry(ledger_id, 0)) == Code.OK
        stores = (LedgerStore(world.east, number=1), world.ledgers)
        for store in stores:
            while (await store.next_id()) % LOCAL < 4:
                pass
        await bookie.storage.begin_limbo()
        await bookie.maintenance.step()
        for ledger_id in (4, LOCAL):
            assert await wire.add(entry(ledger_id, 1)) == Code.IO, "an open ledger stays in limbo"
        for store in stores:
            number = await store.new_number()
            fragments = (Fragment(0, (bookie.bookie_id,)),)
            await store.create(
                LedgerMetadata(
                    number.ledger_id, 1, 1, 1, fragments, password=PASSWORD, creation_token=1
                ),
                number,
            )
            assert await wire.add(entry(number.ledger_id, 0)) == Code.OK, "made after the damage"


async def test_a_moved_ledger_is_collected_when_the_store_that_has_it_deletes_it() -> None:
    async with regional_bookie() as (world, _, bookie, wire):
        await world.make_ledger(4, bookie.bookie_id)
        await world.make_local(LOCAL, bookie)
        for ledger_id in (4, LOCAL):
            assert await wire.add(entry(ledger_id, 0)) == Code.OK

        async def collect() -> list[int]:
            await bookie.maintenance.step()
            return sorted(bookie.service.ledgers)

        paths = Paths()
        for source, target, ledger_id in (
            (world.store, world.east, 4),
            (world.east, world.store, LOCAL),
        ):
            number = encode_place(1 if target is world.east else 0)
            value = await source.get(paths.ledger(ledger_id))
            steps: tuple[list[Operation], list[Operation]] = (
                [
                    Create(paths.ledger(ledger_id), value.data),
                    Create(paths.place(ledger_id), number),
                ],
                [Delete(paths.ledger(ledger_id)), Create(paths.place(ledger_id), number)],
            )
            for store, step in zip((target, source), steps, strict=True):
                await store.txn(step)
                assert await collect() == [4, LOCAL]
        world.east.disconnect()
        assert await collect() == [4, LOCAL], "the store that has a ledger cannot be asked"
        world.east.reconnect()
        await world.east.delete(paths.ledger(4))
        assert await collect() == [LOCAL]
        await world.store.delete(paths.ledger(LOCAL))
        assert await collect() == []

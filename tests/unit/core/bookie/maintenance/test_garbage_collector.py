"""Garbage collection deletes only ledgers whose metadata is missing, and frees their space."""

from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import SMALL, all_there, fill


async def test_deleted_ledgers_free_their_space_and_do_not_return() -> None:
    disk = MemoryDisk()
    async with one_bookie(SMALL, disk) as (world, bookie, wire):
        await fill(wire, 100)
        await bookie.maintenance.step()
        size = sum(len(content) for content in disk.files.values())
        for ledger_id in (2, 3):
            await world.ledgers.delete(ledger_id)
        bookie.maintenance.may_delete_many = True
        await bookie.maintenance.step()
        await wire.add(entry(1, 100))
        for _ in range(12):
            await bookie.maintenance.step()
        assert sum(len(content) for content in disk.files.values()) < size * 0.6
        await all_there(wire, (1,), 100)
        assert await wire.read(2, 0) == (Code.NO_LEDGER, b"")
        for flags in (0, v2.FLAG_RECOVERY_ADD):
            assert await wire.add(entry(2, 100), flags) in (Code.NO_LEDGER, Code.IO)
        image = disk.copy()
        await bookie.aclose()
        again = await world.open(image, SMALL)
        second = await Wire.connect(again)
        assert await second.read(2, 0) == (Code.NO_LEDGER, b"")
        assert await second.add(entry(2, 100), v2.FLAG_RECOVERY_ADD) == Code.NO_LEDGER
        await all_there(second, (1,), 100)
        await second.aclose()
        await again.aclose()


async def test_one_cycle_deletes_at_most_a_tenth_of_the_ledgers() -> None:
    async with one_bookie(SMALL) as (world, bookie, wire):
        for ledger_id in range(10, 50):
            await world.make_ledger(ledger_id, bookie.bookie_id)
            assert await wire.add(entry(ledger_id, 0)) == Code.OK
        for ledger_id in range(10, 40):
            await world.ledgers.delete(ledger_id)
        await bookie.maintenance.step()
        figures = bookie.statistics()
        assert (figures["deleted_ledgers"], figures["ledgers_held_back"]) == (4, 26)
        bookie.maintenance.may_delete_many = True
        await bookie.maintenance.step()
        assert bookie.statistics()["deleted_ledgers"] == 30
        assert sorted(bookie.service.ledgers) == list(range(40, 50))


async def test_nothing_is_deleted_if_the_store_is_wrong_or_unavailable() -> None:
    async with one_bookie(SMALL) as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        other = World(8)
        await other.start()
        collector = bookie.collector
        bookie.maintenance._read_instance_id = other.directory.instance_id
        await world.ledgers.delete(1)
        await bookie.maintenance.step()
        assert "nothing is deleted" in str(bookie.maintenance.last_failure)
        assert collector.deleted_count == 0

        bookie.maintenance._read_instance_id = world.directory.instance_id
        world.store.disconnect()
        await bookie.maintenance.step()
        assert collector.deleted_count == 0
        assert 1 in bookie.service.ledgers
        world.store.reconnect()
        await other.aclose()

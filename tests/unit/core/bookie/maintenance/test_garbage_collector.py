"""Garbage collection deletes only ledgers whose metadata is missing, and frees their space."""

import asyncio

import pytest

from rhumbline.core.bookie.index.entry_index import IndexedEntry
from rhumbline.core.bookie.ledger_records import MASTER_KEY_BYTES
from rhumbline.core.bookie.maintenance.garbage_collector import CollectionReport, GarbageCollector
from rhumbline.core.bookie.maintenance.maintenance import CollectorOfStore
from rhumbline.core.protocol.errors import WrongClusterError
from rhumbline.core.runtime.primitives.slices import ITEMS_PER_SLICE
from rhumbline.core.wire import v2, v3
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.support.fakes.turns import counted_turns
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import SMALL, UNLIMITED, all_there, fill


async def test_deleted_ledgers_free_their_space_and_do_not_return() -> None:
    disk = MemoryDisk()
    async with one_bookie(UNLIMITED, disk) as (world, bookie, wire):
        await fill(wire, 100)
        await bookie.maintenance.step()
        size = sum(len(content) for content in disk.files.values())
        for ledger_id in (2, 3):
            await world.ledgers.delete(ledger_id)
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
        with recorded_log("rhumbline.core.bookie.maintenance.maintenance") as log:
            await bookie.maintenance.step()
        (fields,) = log.fields("garbage collected")
        assert fields.pop("duration_ms") >= 0
        assert fields == {"bookie": bookie.bookie_id, "ledgers": 4, "held_back": 26}
        figures = bookie.statistics()
        assert (figures["deleted_ledgers"], figures["ledgers_held_back"]) == (4, 26)
        bookie.collector._config = UNLIMITED
        await bookie.maintenance.step()
        assert bookie.statistics()["deleted_ledgers"] == 30
        assert sorted(bookie.service.ledgers) == list(range(40, 50))


async def test_nothing_is_deleted_if_the_store_is_wrong_or_unavailable() -> None:
    async with one_bookie(SMALL) as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        other = World(8)
        await other.start()
        collector = bookie.collector
        own = bookie.maintenance.collectors
        bookie.maintenance.collectors = [
            CollectorOfStore(collector, other.directory.global_instance_id)
        ]
        await world.ledgers.delete(1)
        await bookie.maintenance.step()
        assert "nothing is deleted" in str(bookie.maintenance.last_failure)
        assert collector.deleted_count == 0

        bookie.maintenance.collectors = own
        world.store.disconnect()
        await bookie.maintenance.step()
        assert collector.deleted_count == 0
        assert 1 in bookie.service.ledgers
        world.store.reconnect()
        await other.aclose()


class Listing:
    """A listing of ledger ids in pages."""

    def __init__(self, ids: list[int], page: int = 1_000) -> None:
        self.all = ids
        self.page = page
        self.calls: list[tuple[int | None, int]] = []

    async def ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        self.calls.append((after, limit))
        later = [ledger_id for ledger_id in self.all if after is None or ledger_id > after]
        return later[: min(limit, self.page)]


async def test_each_page_of_the_listing_is_read_and_only_missing_ledgers_are_checked() -> None:
    async with one_bookie(SMALL) as (world, bookie, wire):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        for ledger_id in range(1, 8):
            assert await wire.add(entry(ledger_id, 0)) == Code.OK
        for ledger_id in (3, 6):
            await world.ledgers.delete(ledger_id)
        listing = Listing([1, 2, 4, 5, 8, 9], page=2)
        collector = GarbageCollector(bookie.service, listing, SMALL)
        assert (collector.deleted_count, collector.held_back_count) == (0, 0)
        report = await collector.collect("id", "id")
        assert listing.calls == [(None, 1_000), (2, 1_000), (5, 1_000), (9, 1_000)]
        assert report == CollectionReport(missing=2, deleted=1, held_back=1)
        assert (collector.deleted_count, collector.held_back_count) == (1, 1)
        assert sorted(bookie.service.ledgers) == [1, 2, 4, 5, 6, 7], "7 has metadata"
        collector._config = UNLIMITED
        report = await collector.collect("id", "id")
        assert report == CollectionReport(missing=1, deleted=1, held_back=0)
        assert (collector.deleted_count, collector.held_back_count) == (2, 0)
        for ledger_id in (1, 2):
            await world.ledgers.delete(ledger_id)
        report = await collector.collect("id", "id")
        assert report == CollectionReport(), "a listed ledger is not checked"
        listing.all = []
        report = await collector.collect("id", "id")
        assert report == CollectionReport(missing=2, deleted=2, held_back=0)
        with pytest.raises(WrongClusterError, match="belongs to cluster id, not to other"):
            await collector.collect("id", "other")


async def test_tombstones_are_dropped_when_their_time_is_over() -> None:
    async with one_bookie(SMALL) as (world, bookie, _):
        now = world.clock.now_ms
        tombstones = bookie.storage.states.tombstones
        tombstones.update({1: now - SMALL.tombstone_ms, 2: now - SMALL.tombstone_ms - 1, 3: now})
        await bookie.collector.collect("id", "id")
        assert sorted(tombstones) == [1, 3]


async def test_rows_of_unknown_ledgers_are_dropped() -> None:
    async with one_bookie(SMALL) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        index = bookie.storage.index
        index.put([IndexedEntry(77, 0, 5, 5), IndexedEntry(78, 0, 5, 5)])
        await bookie.collector.collect("id", "id")
        assert set(index.ledgers()) == {1}


async def test_dropping_many_rows_lets_other_tasks_run() -> None:
    async with one_bookie(SMALL) as (_, bookie, _):
        bookie.storage.index.put([IndexedEntry(number, 0, 5, 5) for number in range(1, 2_002)])
        async with counted_turns() as turns:
            await bookie.collector._drop_orphans()
            assert turns.count == 3, "one for each thousand"
        assert bookie.storage.index.ledgers() == []


async def test_poll_of_a_deleted_ledger_is_woken() -> None:
    async with one_bookie(SMALL) as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        ledger = bookie.service.ledgers[1]
        request = v3.long_poll_request(5, 1, previous_lac=5, timeout_ms=60_000)
        wire.send(v3.frame(request))
        while not bookie.statistics()["parked_polls"]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await world.ledgers.delete(1)
        listing = Listing([])
        await GarbageCollector(bookie.service, listing, SMALL).collect("i", "i")
        await wire.response3()
        assert not ledger.accepts_adds
        assert bookie.statistics()["parked_polls"] == 0


async def test_a_collection_among_many_ledgers_lets_other_tasks_run() -> None:
    async with one_bookie(SMALL) as (_, bookie, _):
        states = bookie.storage.states
        for ledger_id in range(100, 100 + 2 * ITEMS_PER_SLICE):
            states.create(ledger_id, bytes(MASTER_KEY_BYTES))
        async with counted_turns() as turns:
            assert len(await bookie.collector._owned()) == 2 * ITEMS_PER_SLICE
            assert turns.count == 2, "one for each slice"

"""A storage with very many ledgers, and the checkpoint of an orderly shutdown."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.index.index_directory import index_path
from rhumbline.core.bookie.log.commit_group import Outbox
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, FixedClock, Wire, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import SMALL, all_there, fill, log_paths

ME = BookieId("b1@0000abcd")


class CountingSink:
    """Counts the delivered responses."""

    def __init__(self) -> None:
        self.count = 0

    def deliver(self, outbox: Outbox) -> None:
        self.count += len(outbox.adds)

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        raise error


async def test_storage_holds_a_hundred_thousand_ledgers() -> None:
    disk = MemoryDisk()
    runtime = Runtime(FixedClock(), Random(1))
    config = BookieConfig(tail_cache_bytes=1 << 20)
    storage = Storage(runtime, disk, config, ME)
    await storage.open()
    sink = CountingSink()
    count = 100_000
    for ledger_id in range(count):
        ledger = storage.create_ledger(ledger_id, KEY, is_proven=True)
        storage.add(ledger, entry(ledger_id, 0), sink, b"")
        if ledger_id % 1000 == 0:
            await asyncio.sleep(0)
    storage.fence(storage.states.ledgers[count - 1], lambda error: None)
    await storage.aclose()
    assert sink.count == count
    again = Storage(runtime, disk, config, ME)
    await again.open()
    assert len(again.states.ledgers) == count
    assert again.states.ledgers[count - 1].is_fenced
    location = await again.locate(count - 1, 0)
    assert await again.read(count - 1, 0, location) == entry(count - 1, 0)
    await again.aclose()


async def test_orderly_shutdown_leaves_a_short_log_for_the_next_start() -> None:
    async def start() -> Bookie:
        return await world.open(disk, BookieConfig(maintenance_ms=3_600_000))

    disk = MemoryDisk()
    large = bytes(200_000)
    async with one_bookie(SMALL, disk) as (world, first, _):
        await first.aclose()
        for start_count in range(3):
            bookie = await start()
            wire = await Wire.connect(bookie)
            before = len(log_paths(disk))
            for number in range(40 * start_count):
                assert (await wire.read(1, number))[1] == entry(1, number, large)
            for number in range(40 * start_count, 40 * start_count + 40):
                assert await wire.add(entry(1, number, large)) == Code.OK
            assert await wire.fence(2 + start_count) == Code.NO_ENTRY
            await wire.aclose()
            await bookie.aclose()
            assert len(log_paths(disk)) == before + 1
            assert len(disk.files[max(log_paths(disk))]) < 10_000
        bookie = await start()
        wire = await Wire.connect(bookie)
        assert [await wire.add(entry(number, 0)) for number in (2, 3, 4)] == [Code.FENCED] * 3
        await wire.aclose()
        await bookie.aclose()


@pytest.mark.parametrize("is_data_damaged", [False, True], ids=["index only", "data too"])
async def test_damaged_index_makes_entries_unknown_until_it_was_built_again(
    is_data_damaged: bool,
) -> None:
    """Such damage used to end the process, or to drop the client's connection."""
    disk = MemoryDisk()
    async with one_bookie(replace(SMALL, index_cache_bytes=0), disk) as (_, bookie, wire):
        assert bookie._maintenance_task is not None
        bookie._maintenance_task.cancel()
        await fill(wire, 120)
        storage = bookie.storage
        await storage.write_indexes()
        number = storage.sealed_logs[0]
        path = index_path(number)
        intact = bytes(disk.files[path])
        disk.files[path][:] = bytes(len(intact))
        if is_data_damaged:
            disk.files[min(log_paths(disk))][30_000] ^= 1
        code, _ = await wire.read(1, 0)
        assert code == Code.IO
        assert (await wire.read(1, 119))[0] == Code.OK, "other files are not concerned"
        assert [damage.number for damage in storage.damages] == [number]
        assert storage.damages[0].reason.startswith(path)
        assert list(storage.damaged_indexes) == [number]
        await storage.rebuild_indexes()
        assert storage.damaged_indexes == {}
        assert storage.states.limbo.is_active == is_data_damaged
        assert (await wire.read(1, 0))[0] == Code.OK
        if is_data_damaged:
            codes = {(await wire.read(1, entry_id))[0] for entry_id in range(121)}
            assert codes == {Code.OK, Code.IO}, "nothing is denied"
        else:
            assert disk.files[path] == intact
            await all_there(wire, (1, 2, 3), 120)
            assert (await wire.read(1, 120))[0] == Code.NO_ENTRY

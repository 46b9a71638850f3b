"""Compacted logs are removed, and every entry can still be read."""

from dataclasses import replace

import pytest

from rhumbline.core.bookie.log.log_format import FILE_HEADER_BYTES, LOG_KIND
from rhumbline.core.bookie.maintenance.compactor import Compactor
from rhumbline.core.bookie.maintenance.duty_cycle import DutyCycle
from rhumbline.core.bookie.maintenance.scrubber import restore_entry
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import PAYLOAD, SMALL, all_there, fill, log_paths


async def test_compacted_logs_are_removed_and_every_entry_is_still_readable() -> None:
    disk = MemoryDisk()
    async with one_bookie(SMALL, disk) as (world, first, _):
        await first.aclose()
        bookie = await world.open(disk, SMALL)
        wire = await Wire.connect(bookie)
        await fill(wire, 200)
        await bookie.maintenance.step()
        after = bookie.statistics()
        assert after["maintenance_failures"] == 0
        assert after["sealed_logs"] == 0
        assert after["sorted_files"] >= 5
        assert len([p for p in disk.files if p.startswith("log/")]) == 1
        await all_there(wire, (1, 2, 3), 200)
        await wire.aclose()
        await bookie.aclose()
        again = await world.open(disk, SMALL)
        assert again.storage.damages == []
        wire = await Wire.connect(again)
        await all_there(wire, (1, 2, 3), 200)
        assert await wire.add(entry(1, 200, PAYLOAD)) == Code.OK
        await wire.aclose()
        await again.aclose()


@pytest.mark.parametrize("which", ["logs", "sorted files"])
async def test_compaction_copies_entries_that_a_damaged_index_does_not_name(which: str) -> None:
    """The compactor used to take 183 of 183 intact entries for garbage and destroy them."""
    disk = MemoryDisk()
    async with one_bookie(replace(SMALL, index_cache_bytes=0), disk) as (_, bookie, wire):
        assert bookie._maintenance_task is not None
        bookie._maintenance_task.cancel()
        storage, compactor = bookie.storage, bookie.maintenance.compactor
        await fill(wire, 120)
        await storage.write_indexes()
        if which == "sorted files":
            await bookie.maintenance.step()
            assert len(storage.sorted) >= 3
        for path in [path for path in disk.files if path.startswith("index/")]:
            disk.files[path][:] = bytes(len(disk.files[path]))
        if which == "sorted files":
            for number in list(storage.sorted):
                assert await compactor.compact_sorted_file(number)
        else:
            while storage.sealed_logs:
                assert await compactor.compact_log(storage.sealed_logs[0])
        await all_there(wire, (1, 2, 3), 120)


async def test_garbage_is_deleted_ledgers_and_earlier_copies_in_the_same_file() -> None:
    disk = MemoryDisk()
    async with one_bookie(SMALL, disk) as (_, bookie, wire):
        assert bookie._maintenance_task is not None
        bookie._maintenance_task.cancel()
        storage, compactor = bookie.storage, bookie.maintenance.compactor
        await fill(wire, 20)
        await fill(wire, 60)
        storage.delete_ledger(2)
        await storage.journal(storage.states.manifest.encode())
        await storage.write_indexes()
        sealed = [path for path in log_paths(disk) if int(path[4:14]) in storage.sealed_logs]
        log_bytes = sum(len(disk.files[path]) for path in sealed)
        while storage.sealed_logs:
            assert await compactor.compact_log(storage.sealed_logs[0])
        for number, known in storage.sorted.items():
            columns = await storage.index.files[number].columns()
            assert [ledger_id for ledger_id, _ in columns] == [1, 3]
            assert known.entry_bytes == sum(sum(rows.lengths) for _, rows in columns)
        assert sum(known.entry_bytes for known in storage.sorted.values()) < 0.6 * log_bytes
        await all_there(wire, (1, 3), 60)


async def test_live_bytes_are_counted_from_the_file_after_a_deletion_only() -> None:
    """A row per ledger of every sorted file in memory took 1.4 GB for a million ledgers."""
    disk = MemoryDisk()
    async with one_bookie(replace(SMALL, compact_below_percent=0), disk) as (_, bookie, wire):
        assert bookie._maintenance_task is not None
        bookie._maintenance_task.cancel()
        storage = bookie.storage
        await fill(wire, 120)
        await bookie.maintenance.step()
        before = dict(storage.sorted)
        assert {known.counted_at for known in before.values()} == {0}
        assert all(known.live_bytes == known.entry_bytes for known in before.values())
        storage.delete_ledger(2)
        await storage.journal(storage.states.manifest.encode())
        await bookie.maintenance.step()
        assert storage.sorted == before
        for number, known in before.items():
            columns = dict(await storage.index.files[number].columns())
            assert known.counted_at == 1
            assert known.live_bytes == sum(sum(columns[key].lengths) for key in (1, 3))


class CountingDuty(DutyCycle):
    """Counts pauses."""

    count = 0

    async def pause(self) -> None:
        self.count += 1


async def test_there_is_a_pause_for_each_thousand_rows_of_cost() -> None:
    async with one_bookie(SMALL) as (_, bookie, _):
        compactor = Compactor(bookie.storage, duty := CountingDuty())
        for cost, pauses in ((999, 0), (1, 1), (1_000, 2), (2_500, 3), (999, 3), (2, 4)):
            await compactor._spend(cost)
            assert duty.count == pauses


async def test_verification_before_a_copy_pauses_after_each_mebibyte() -> None:
    async with one_bookie(replace(SMALL, log_file_bytes=8 << 20)) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        storage = bookie.storage
        for number in range(1, 31):
            await restore_entry(storage, entry(1, number, bytes(100_000)))
        storage.log.roll_next()
        await storage.write_manifest()
        (log,) = storage.sealed_logs
        compactor = Compactor(storage, duty := CountingDuty())
        end = storage.data_files[log].end
        await compactor._read(LOG_KIND, log, FILE_HEADER_BYTES, end)
        assert duty.count == 2, "after 11 groups, and after 11 more"

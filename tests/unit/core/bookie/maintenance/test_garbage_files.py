"""Files of which no ledger has entries are removed before anything is copied."""

from dataclasses import replace

from rhumbline.core.bookie.log.file_set import file_path
from rhumbline.core.bookie.log.log_format import LOG_KIND, SORTED_KIND
from rhumbline.tests.unit.core.bookie.bookie_world import one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import SMALL, all_there, fill

QUIET = replace(SMALL, collect_ms=3_600_000)


async def test_garbage_files_are_removed_without_copying() -> None:
    disk = MemoryDisk()
    async with one_bookie(QUIET, disk) as (_, bookie, wire):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        maintenance, storage = bookie.maintenance, bookie.storage
        await fill(wire, 100)
        await maintenance.step()
        sorted_files = list(storage.sorted)
        assert sorted_files and not storage.sealed_logs
        maintenance._config = replace(QUIET, sealed_logs_kept=99)
        for ledger_id in (1, 2, 3):
            storage.delete_ledger(ledger_id)
        written = maintenance.compactor.written_bytes
        await maintenance.step()
        assert not storage.sorted
        assert maintenance.garbage_files.removed_count == len(sorted_files)
        assert maintenance.compactor.written_bytes == written
        assert not any(file_path(SORTED_KIND, number) in disk.files for number in sorted_files)
        assert storage.states.manifest.sorted_files == {}


async def test_garbage_logs_are_removed_from_the_oldest_on_though_they_would_be_kept() -> None:
    disk = MemoryDisk()
    config = replace(QUIET, sealed_logs_kept=99)
    async with one_bookie(config, disk) as (_, bookie, wire):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        storage = bookie.storage
        await fill(wire, 100)
        logs = list(storage.sealed_logs)
        await bookie.maintenance.step()
        assert storage.sealed_logs == logs
        for ledger_id in (1, 2):
            storage.delete_ledger(ledger_id)
        await bookie.maintenance.step()
        assert storage.sealed_logs == logs, "each has entries of ledger 3"
        await all_there(wire, (3,), 100)
        storage.delete_ledger(3)
        await bookie.maintenance.step()
        assert storage.sealed_logs == []
        assert not storage.sorted
        assert storage.states.manifest.log_floor == storage.log.number
        assert not any(file_path(LOG_KIND, number) in disk.files for number in logs)


async def test_damaged_garbage_file_is_kept_for_the_scrubber() -> None:
    disk = MemoryDisk()
    async with one_bookie(QUIET, disk) as (_, bookie, wire):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        storage, maintenance = bookie.storage, bookie.maintenance
        await fill(wire, 100)
        await maintenance.step()
        number = next(iter(storage.sorted))
        for ledger_id in (1, 2, 3):
            storage.delete_ledger(ledger_id)

        async def refuse(number: int) -> bool:
            return False

        maintenance.compactor.compact_sorted_file = refuse  # type: ignore[method-assign]
        await maintenance.step()
        assert number in maintenance._damaged
        assert "files" in maintenance.recovery.obstacles["damaged files"]
        assert maintenance.garbage_files.removed_count == 0

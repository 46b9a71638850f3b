"""The maintenance task does what is due, and continues after a failure."""

import asyncio
from dataclasses import replace

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.index.index_directory import index_path
from rhumbline.core.bookie.log.file_set import file_path
from rhumbline.core.bookie.log.log_format import SORTED_KIND
from rhumbline.core.bookie.maintenance.garbage_collector import CollectionReport
from rhumbline.core.bookie.maintenance.maintenance import CollectorOfStore
from rhumbline.core.protocol.errors import DiskFailedError, MetadataUnavailableError
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.bookie.bookie_world import World, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import SMALL, all_there, fill

QUIET = replace(SMALL, collect_ms=3_600_000)


async def test_failed_work_is_counted_and_the_rest_of_the_round_is_done() -> None:
    async with one_bookie(SMALL) as (_, bookie, wire):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        maintenance = bookie.maintenance
        assert (maintenance.failed_count, maintenance.last_failure) == (0, None)
        failure = DiskFailedError("I/O error")

        async def fail(*_: object, **__: object) -> CollectionReport:
            raise failure

        bookie.collector.collect = fail  # type: ignore[method-assign]
        await fill(wire, 100)
        with recorded_log("rhumbline.core.bookie.maintenance.maintenance") as log:
            await maintenance.step()
            await maintenance.step()
        assert log.fields("maintenance failed") == [
            {
                "bookie": bookie.bookie_id,
                "work": "collect garbage",
                "error": "DiskFailedError: I/O error",
            }
        ], "at most one line in ten seconds"
        assert (maintenance.failed_count, maintenance.last_failure) == (2, failure)
        assert len(bookie.storage.sorted) > 1, "logs were compacted all the same"
        assert bookie.storage.sealed_logs == []
        await maintenance.step()
        assert maintenance.failed_count == 3
        await all_there(wire, (1, 2, 3), 100)


async def test_garbage_is_collected_at_intervals() -> None:
    async with one_bookie(QUIET) as (_, bookie, _):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        calls: list[tuple[str, str]] = []

        async def collect(instance_id: str, expected: str) -> CollectionReport:
            calls.append((instance_id, expected))
            return CollectionReport()

        bookie.collector.collect = collect  # type: ignore[method-assign]
        maintenance = bookie.maintenance
        maintenance._collected_s = None
        await maintenance.step()
        await maintenance.step()
        assert len(calls) == 1
        assert calls[0][0] == calls[0][1] != ""
        maintenance._config = replace(QUIET, collect_ms=0)
        await maintenance.step()
        assert len(calls) == 2


async def test_newest_sealed_logs_are_kept_and_the_oldest_compacted_first() -> None:
    async with one_bookie(replace(QUIET, sealed_logs_kept=2)) as (_, bookie, wire):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        storage = bookie.storage
        await fill(wire, 200)
        logs = list(storage.sealed_logs)
        assert len(logs) > 4
        assert storage.index.sealed_tiers
        await bookie.maintenance.step()
        assert storage.sealed_logs == logs[-2:]
        assert len(storage.sorted) == len(logs) - 2
        assert storage.index.sealed_tiers == {}
        assert storage.states.manifest.log_floor == logs[-2]
        assert storage.states.manifest.sorted_files == {
            number: known.end for number, known in storage.sorted.items()
        }
        await all_there(wire, (1, 2, 3), 200)


@pytest.mark.parametrize(("percent", "is_rewritten"), [(30, False), (34, True)])
async def test_sorted_file_with_the_most_garbage_is_rewritten_below_the_share(
    percent: int, is_rewritten: bool
) -> None:
    disk = MemoryDisk()
    config = replace(QUIET, compact_below_percent=percent)
    async with one_bookie(config, disk) as (_, bookie, wire):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        await fill(wire, 100)
        await bookie.maintenance.step()
        before = list(bookie.storage.sorted)
        assert all(
            known.live_bytes == known.entry_bytes for known in bookie.storage.sorted.values()
        )
        for ledger_id in (2, 3):
            bookie.storage.delete_ledger(ledger_id)
        await bookie.maintenance.step()
        shares = [known.live_bytes / known.entry_bytes for known in bookie.storage.sorted.values()]
        after = list(bookie.storage.sorted)
        if not is_rewritten:
            assert after == before
            assert all(0.3 < share < 0.35 for share in shares)
            return
        assert len(set(after) - set(before)) == 1
        (gone,) = set(before) - set(after)
        assert file_path(SORTED_KIND, gone) not in disk.files
        assert index_path(gone) not in disk.files
        assert len(after) == len(before)
        await all_there(wire, (1,), 100)


async def test_retired_files_are_rewritten_one_in_a_round() -> None:
    async with one_bookie(replace(QUIET, compact_below_percent=0)) as (_, bookie, wire):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        await fill(wire, 100)
        await bookie.maintenance.step()
        first, second = list(bookie.storage.sorted)[:2]
        bookie.maintenance.retire_files([999, first, second])
        await bookie.maintenance.step()
        assert first not in bookie.storage.sorted
        assert second in bookie.storage.sorted
        await bookie.maintenance.step()
        assert second not in bookie.storage.sorted
        numbers = list(bookie.storage.sorted)
        await bookie.maintenance.step()
        assert list(bookie.storage.sorted) == numbers, "each is rewritten once"
        await all_there(wire, (1, 2, 3), 100)


async def test_unavailable_metadata_store_is_a_failure_of_the_round() -> None:
    async with one_bookie(SMALL) as (_, bookie, _):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]

        async def instance_id() -> str:
            raise MetadataUnavailableError("no session")

        bookie.maintenance.collectors = [CollectorOfStore(bookie.collector, instance_id)]
        await bookie.maintenance.step()
        assert isinstance(bookie.maintenance.last_failure, MetadataUnavailableError)


@pytest.mark.run_by(runner=run_jumping)
async def test_share_of_compaction_is_a_half_when_no_add_came_for_a_tenth_of_a_second() -> None:
    world = World()
    await world.start()
    disk = MemoryDisk()
    await world.format(disk)
    config = replace(QUIET, sealed_logs_kept=1, compaction_backlog_logs=10)
    bookie = await Bookie.open(world.runtime, disk, config, world.ledgers, world.directory)
    maintenance, storage = bookie.maintenance, bookie.storage
    for logs, share in (([], 0.1), ([1, 2], 0.1), ([1, 2, 3, 4], 0.3), (list(range(99)), 1.0)):
        storage.sealed_logs[:] = logs
        storage.log.written_bytes += 1
        assert maintenance._share() == share
    maintenance._busy_until_s = asyncio.get_running_loop().time()
    assert maintenance._share() == 0.5
    storage.log.written_bytes += 1
    assert maintenance._share() == 1.0
    assert maintenance._busy_until_s == asyncio.get_running_loop().time() + 0.1
    await asyncio.sleep(0.09)
    assert maintenance._share() == 1.0
    await asyncio.sleep(0.02)
    assert maintenance._share() == 0.5
    storage.sealed_logs.clear()
    await bookie.aclose()
    await world.aclose()

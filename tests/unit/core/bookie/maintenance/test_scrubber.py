"""The scrubber finds and repairs corrupt entries; unrepaired entries stay unknown."""

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.index.index_directory import index_path
from rhumbline.core.bookie.index.index_file import FOOTER_BYTES
from rhumbline.core.bookie.maintenance.offline_verify import verify_storage
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import PAYLOAD, SMALL, all_there, fill


def rot_sorted_files(disk: MemoryDisk) -> int:
    """Flips one bit in the middle of each sorted file."""
    paths = [path for path in disk.files if path.startswith("sorted/")]
    for path in paths:
        content = disk.files[path]
        content[len(content) // 2] ^= 0x04
    return len(paths)


async def unknown_entries(bookie: Bookie, wire: Wire, count: int) -> list[tuple[int, int]]:
    found = []
    for ledger_id in (1, 2, 3):
        for number in range(count):
            code, body = await wire.read(ledger_id, number)
            if code == Code.OK:
                assert body == entry(ledger_id, number, PAYLOAD)
            else:
                assert code == Code.IO
                found.append((ledger_id, number))
    return found


async def test_corrupt_entries_are_fetched_rewritten_and_read_back() -> None:
    disk = MemoryDisk()
    async with one_bookie(SMALL, disk) as (world, bookie, wire):
        await fill(wire, 120)
        await bookie.maintenance.step()
        clean = await bookie.scrubber.walk()
        assert (clean.damages, clean.repaired_count) == ([], 0)
        assert clean.file_count == len(bookie.storage.sorted)
        count = rot_sorted_files(disk)
        assert count >= 3
        bookie.storage.files._chunks.clear()
        unknown = await unknown_entries(bookie, wire, 120)
        assert 0 < len(unknown) <= count
        report = await bookie.scrubber.walk()
        assert len(report.damages) >= count
        assert sorted(report.unreadable) == unknown

        async def fetch(ledger_id: int, entry_id: int) -> bytes | None:
            if (ledger_id, entry_id) == unknown[0]:
                return entry(ledger_id, entry_id + 1, PAYLOAD)
            return entry(ledger_id, entry_id, PAYLOAD)

        bookie.scrubber.fetch = fetch
        report = await bookie.scrubber.walk()
        assert report.unreadable == [unknown[0]]
        assert report.repaired_count == len(unknown) - 1
        assert await unknown_entries(bookie, wire, 120) == [unknown[0]]

        async def honest(ledger_id: int, entry_id: int) -> bytes | None:
            return entry(ledger_id, entry_id, PAYLOAD)

        bookie.scrubber.fetch = honest
        assert (await bookie.scrubber.walk()).repaired_count == 1
        await all_there(wire, (1, 2, 3), 120)
        bookie.maintenance.retire_files([damage.number for damage in report.damages])
        for _ in report.damages:
            await bookie.maintenance.step()
        assert (await bookie.scrubber.walk()).damages == []
        assert (await verify_storage(disk)).damages == ()
        await all_there(wire, (1, 2, 3), 120)
        image = disk.copy()
        await bookie.aclose()
        again = await world.open(image, SMALL)
        second = await Wire.connect(again)
        await all_there(second, (1, 2, 3), 120)
        await second.aclose()
        await again.aclose()


@pytest.mark.parametrize("part", ["block", "directory", "footer", "all"])
async def test_damaged_index_files_are_found_and_built_again(part: str) -> None:
    """Before, damage to a part that is in memory was noticed at the next start only."""
    disk = MemoryDisk()
    async with one_bookie(SMALL, disk) as (_, bookie, wire):
        await fill(wire, 120)
        await bookie.maintenance.step()
        assert (await bookie.scrubber.walk()).damaged_indexes == []
        files = dict(bookie.storage.index.files)
        good = {number: bytes(disk.files[index_path(number)]) for number in files}
        for number, content in good.items():
            if part == "all":
                await disk.remove(index_path(number))
            else:
                at = {"block": 1, "directory": -FOOTER_BYTES - 3, "footer": -9}[part]
                disk.files[index_path(number)][at % len(content)] ^= 0x10
        report = await bookie.scrubber.walk()
        assert sorted(report.damaged_indexes) == sorted(files)
        await bookie.maintenance.step()
        assert bookie.storage.damaged_indexes == {}
        rebuilt = {number: bytes(disk.files[index_path(number)]) for number in files}
        assert rebuilt == good
        assert (await bookie.scrubber.walk()).damaged_indexes == []
        await all_there(wire, (1, 2, 3), 120)


async def test_damaged_log_is_kept_until_it_is_repaired() -> None:
    disk = MemoryDisk()
    async with one_bookie(SMALL, disk) as (_, bookie, wire):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        await fill(wire, 120)
        path = min(path for path in disk.files if path.startswith("log/"))
        disk.files[path][30_000] ^= 0x40
        await bookie.maintenance.step()
        assert path in disk.files
        unknown = await unknown_entries(bookie, wire, 120)

        async def fetch(ledger_id: int, entry_id: int) -> bytes | None:
            return entry(ledger_id, entry_id, PAYLOAD)

        bookie.scrubber.fetch = fetch
        report = await bookie.scrubber.walk()
        assert report.repaired_count >= len(unknown)
        bookie.maintenance.retire_files([])
        for _ in range(3):
            await bookie.maintenance.step()
        assert path not in disk.files
        await all_there(wire, (1, 2, 3), 120)

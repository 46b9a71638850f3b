"""The scrubber finds and repairs corrupt entries; unrepaired entries stay unknown."""

import asyncio
from random import Random

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.index.entry_index import IndexedEntry
from rhumbline.core.bookie.index.index_directory import index_path
from rhumbline.core.bookie.index.index_file import FOOTER_BYTES
from rhumbline.core.bookie.log.file_set import file_path
from rhumbline.core.bookie.log.group_split import LARGE_LEDGER_BYTES, split_group
from rhumbline.core.bookie.log.log_format import LOG_KIND, OFFSET_BITS, OFFSET_MASK, SORTED_KIND
from rhumbline.core.bookie.log.replay import Damage
from rhumbline.core.bookie.log.sorted_file import SortedFile
from rhumbline.core.bookie.maintenance.compactor import Compactor
from rhumbline.core.bookie.maintenance.offline_verify import verify_storage
from rhumbline.core.bookie.maintenance.scrubber import Scrubber, _is_in, restore_entry
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import DiskFailedError, NoSuchLedgerError
from rhumbline.core.runtime.primitives.rate_limiter import RateLimiter
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import (
    KEY,
    CountingSink,
    FixedClock,
    Wire,
    entry,
    one_bookie,
)
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


async def one_damaged_group(disk: MemoryDisk) -> tuple[Storage, SortedFile]:
    """Return a storage with a sorted file of 20 entries, of which one is damaged."""
    storage = Storage(Runtime(FixedClock(), Random(1)), disk, SMALL, BookieId("b1@00000001"))
    await storage.open()
    ledger = storage.create_ledger(1, KEY, is_proven=True)
    for number in range(20):
        await restore_entry(storage, entry(1, number, PAYLOAD))
    storage.log.roll_next()
    await storage.write_manifest()
    await storage.write_indexes()
    await Compactor(storage).compact_log(storage.sealed_logs[0])
    (known,) = storage.sorted.values()
    location = await storage.locate(1, 7)
    disk.files[file_path(SORTED_KIND, known.number)][location.position & OFFSET_MASK] ^= 1
    assert ledger.accepts_adds
    return storage, known


async def test_intact_entries_of_a_damaged_group_are_rescued_and_the_bad_one_restored() -> None:
    disk = MemoryDisk()
    storage, known = await one_damaged_group(disk)
    scrubber = Scrubber(storage, 1 << 40)
    assert (scrubber.last_report, scrubber.repaired_count) == (None, 0)
    report = await scrubber.walk()
    assert scrubber.last_report is report
    assert (report.file_count, report.verified_bytes) == (1, known.end)
    assert [damage.number for damage in report.damages] == [known.number]
    assert (report.rescued_count, report.repaired_count) == (19, 0)
    assert report.unreadable == [(1, 7)]

    answers: list[bytes | None] = [
        None,
        entry(1, 8, PAYLOAD),
        entry(2, 7, PAYLOAD),
        entry(1, 7, PAYLOAD)[:31],
    ]
    asked: list[tuple[int, int]] = []

    async def fetch(ledger_id: int, entry_id: int) -> bytes | None:
        asked.append((ledger_id, entry_id))
        return answers.pop(0)

    scrubber.fetch = fetch
    for _ in range(4):
        report = await scrubber.walk()
        assert (report.rescued_count, report.repaired_count) == (0, 0), "rescued once"
        assert report.unreadable == [(1, 7)]
    answers.append(entry(1, 7, PAYLOAD))
    report = await scrubber.walk()
    assert (report.repaired_count, report.unreadable, scrubber.repaired_count) == (1, [], 1)
    assert asked == [(1, 7)] * 5
    for number in range(20):
        location = await storage.locate(1, number)
        assert await storage.read(1, number, location) == entry(1, number, PAYLOAD)
    report = await scrubber.walk()
    assert (report.repaired_count, report.rescued_count, report.unreadable) == (0, 0, [])
    assert len(report.damages) == 1, "the file itself is still damaged"
    await storage.aclose()


async def test_file_with_a_damaged_header_is_damaged_as_a_whole() -> None:
    disk = MemoryDisk()
    storage, known = await one_damaged_group(disk)
    path = file_path(SORTED_KIND, known.number)
    disk.files[path][5] ^= 1
    report = await Scrubber(storage, 1 << 40).walk()
    (damage,) = report.damages
    assert (damage.number, damage.start, damage.end) == (known.number, 0, OFFSET_MASK)
    assert report.verified_bytes == 0
    assert report.rescued_count == 19
    disk.files[path][5] ^= 1
    storage.data_files[known.number] = storage.data_files[known.number]._replace(generation=1)
    report = await Scrubber(storage, 1 << 40).walk()
    assert [damage.reason for damage in report.damages] == [
        f"{path}: the header is not that of this file"
    ]
    del storage.data_files[known.number]
    report = await Scrubber(storage, 1 << 40).walk()
    assert len(report.damages) == 1
    await storage.aclose()


async def test_deleted_ledgers_and_damaged_index_files_need_no_repair() -> None:
    disk = MemoryDisk()
    storage, known = await one_damaged_group(disk)
    content = disk.files[index_path(known.number)]
    content[3] ^= 1
    report = await Scrubber(storage, 1 << 40).walk()
    assert len(report.damages) == 1
    assert (report.rescued_count, report.unreadable) == (0, []), "the index is built again first"
    content[3] ^= 1
    storage.delete_ledger(1)
    report = await Scrubber(storage, 1 << 40).walk()
    assert len(report.damages) == 1
    assert (report.rescued_count, report.unreadable) == (0, [])
    await storage.aclose()


async def test_entry_is_restored_only_to_a_known_ledger_and_a_working_log() -> None:
    disk = MemoryDisk()
    storage, _ = await one_damaged_group(disk)
    with pytest.raises(NoSuchLedgerError):
        await restore_entry(storage, entry(2, 0))
    disk.is_failing = True
    with pytest.raises(DiskFailedError):
        await restore_entry(storage, entry(1, 30))
    with pytest.raises(DiskFailedError):
        await restore_entry(storage, entry(1, 31))
    await storage.aclose()


async def test_entries_are_restored_in_a_group_that_is_divided() -> None:
    """A restored entry without a key failed the write log when its group was divided."""
    storage, _ = await one_damaged_group(MemoryDisk())
    large = storage.create_ledger(2, KEY, is_proven=True)
    sink = CountingSink()
    restoring = [
        asyncio.ensure_future(restore_entry(storage, data))
        for data in (entry(1, 30), entry(2, 0, PAYLOAD))
    ]
    await asyncio.sleep(0)
    storage.add(large, entry(2, 1, bytes(LARGE_LEDGER_BYTES)), sink)
    storage.log.group.has_urgent_state = False  # that of the new ledger
    parts = split_group(storage.log.group, {})
    assert parts is not None, "the group would not be divided"
    assert [len(part.adds) for part in parts] == [1, 2]
    await asyncio.gather(*restoring)
    assert (storage.log.failure, sink.count) == (None, 1)
    await storage.aclose()


async def test_newer_copy_counts_only_if_it_can_be_read() -> None:
    """A copy in the log that rots too made the scrubber leave the entry unreadable."""
    disk = MemoryDisk()
    storage, _ = await one_damaged_group(disk)
    older = await storage.locate(1, 7)
    await restore_entry(storage, entry(1, 7, PAYLOAD))
    newer = await storage.locate(1, 7)
    assert newer != older
    disk.files[file_path(LOG_KIND, storage.log.number)][newer.position & OFFSET_MASK] ^= 1
    report = await Scrubber(storage, 1 << 40).walk()
    assert report.unreadable == [(1, 7)]
    disk.files[file_path(LOG_KIND, storage.log.number)][newer.position & OFFSET_MASK] ^= 1
    report = await Scrubber(storage, 1 << 40).walk()
    assert report.unreadable == []
    await storage.aclose()


@pytest.mark.parametrize(
    ("start", "length", "is_in"),
    [(90, 10, False), (90, 11, True), (100, 5, True), (119, 1, True), (120, 9, False)],
)
def test_row_is_damaged_if_it_shares_a_byte_with_the_region(
    start: int, length: int, is_in: bool
) -> None:
    damages = [Damage(4, 3, 5, "rotten"), Damage(4, 100, 120, "rotten")]
    assert _is_in(IndexedEntry(1, 0, 4 << OFFSET_BITS | start, length), 4, damages) == is_in
    assert not _is_in(IndexedEntry(1, 0, 5 << OFFSET_BITS | start, length), 4, damages)


async def test_bytes_that_are_scrubbed_pass_the_rate_limiter() -> None:
    disk = MemoryDisk()
    storage, known = await one_damaged_group(disk)
    for number in range(20, 25):
        await restore_entry(storage, entry(1, number, bytes(400_000)))
    storage.log.roll_next()
    await storage.write_manifest()
    amounts: list[float] = []

    class NotingLimiter(RateLimiter):
        async def acquire(self, amount: float) -> None:
            amounts.append(amount)

    scrubber = Scrubber(storage, 1 << 40)
    scrubber._rate_limiter = NotingLimiter(None)
    await scrubber.walk()
    assert amounts[-1] == storage.index.files[known.number]._directory_offset
    assert sum(amounts[:-1]) > 2_000_000
    await storage.aclose()

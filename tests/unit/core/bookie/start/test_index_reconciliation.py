"""A start finds the rows of every file in use, and removes nothing while damage is known."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.identity import read_identity
from rhumbline.core.bookie.index.index_directory import IndexDirectory, index_path
from rhumbline.core.bookie.ledger_records import LedgerRecords
from rhumbline.core.bookie.log.file_set import FileSet
from rhumbline.core.bookie.log.log_format import SORTED_KIND
from rhumbline.core.bookie.log.sorted_file import SortedFile
from rhumbline.core.bookie.maintenance.limbo_recovery import end_limbo
from rhumbline.core.bookie.start.index_reconciliation import adopt_sorted_files, rank_of
from rhumbline.core.bookie.start.startup import OpenedFiles
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, World
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import SMALL, all_there, fill, log_paths

COUNT = 125


KEPT = replace(SMALL, sealed_logs_kept=2)


async def filled(
    disk: MemoryDisk, config: BookieConfig = SMALL, *, is_compacted: bool = True
) -> tuple[World, MemoryDisk]:
    """Return a world whose bookie has ``COUNT`` entries in each of three ledgers, and is closed.

    The second value is a copy of the disk as a kill would leave it.
    """
    world = World()
    await world.start()
    bookie_id = await world.format(disk)
    bookie = await world.open(disk, config)
    assert bookie._maintenance_task is not None
    bookie._maintenance_task.cancel()
    for ledger_id in (1, 2, 3):
        await world.make_ledger(ledger_id, bookie_id)
    wire = await Wire.connect(bookie)
    await fill(wire, COUNT)
    if is_compacted:
        await bookie.maintenance.step()
        assert len(bookie.storage.sorted) >= 2
    killed = disk.copy()
    await close(bookie, wire)
    return world, killed


async def opened(world: World, disk: MemoryDisk) -> tuple[Bookie, Wire]:
    bookie = await world.open(disk, SMALL)
    return bookie, await Wire.connect(bookie)


async def close(bookie: Bookie, wire: Wire) -> None:
    await wire.aclose()
    await bookie.aclose()


def sorted_paths(disk: MemoryDisk) -> list[str]:
    return sorted(path for path in disk.files if path.startswith("sorted/"))


def index_paths(disk: MemoryDisk) -> list[str]:
    return sorted(path for path in disk.files if path.startswith("index/"))


@pytest.mark.parametrize("damage", ["deleted", "bit flipped", "truncated", "another file's"])
@pytest.mark.parametrize("is_compacted", [False, True], ids=["logs", "sorted files"])
async def test_damaged_index_file_is_built_again_at_a_start(
    damage: str, is_compacted: bool
) -> None:
    """A flipped bit of the former index denied entries without any sign of damage."""
    disk = MemoryDisk()
    world, _ = await filled(disk, is_compacted=is_compacted)
    paths = index_paths(disk)
    intact = {path: bytes(disk.files[path]) for path in paths}
    assert len(paths) >= 3
    for path in paths:
        content = disk.files[path]
        if damage == "deleted":
            del disk.files[path]
        elif damage == "truncated":
            del content[len(content) // 2 :]
        elif damage == "another file's":
            content[:] = intact[paths[0] if path != paths[0] else paths[1]]
        else:
            content[-Random(1).randrange(1, 500)] ^= 1
    bookie, wire = await opened(world, disk)
    assert bookie.storage.damages == []
    await all_there(wire, (1, 2, 3), COUNT)
    for path in paths:
        assert disk.files[path] == intact[path]
    await close(bookie, wire)
    await world.aclose()


@pytest.mark.parametrize("damage", ["truncated", "missing", "swapped"])
async def test_loss_of_the_newest_log_removes_no_sorted_file(damage: str) -> None:
    """An older manifest used to count, and intact sorted files were removed."""
    world, image = await filled(MemoryDisk(), KEPT)
    kept = sorted_paths(image)
    newest, sealed = max(log_paths(image)), min(log_paths(image))
    if damage == "missing":
        del image.files[newest]
    elif damage == "swapped":
        image.files[newest] = bytearray(image.files[sealed])
    else:
        del image.files[newest][300:]
    bookie, wire = await opened(world, image)
    assert bookie.storage.states.limbo.is_active
    assert sorted_paths(image) == kept
    assert len(bookie.storage.sorted) == len(kept), "all are adopted"
    codes = Counter[int]()
    for ledger_id in (1, 2, 3):
        for number in range(COUNT):
            codes[(await wire.read(ledger_id, number))[0]] += 1
    assert set(codes) == {Code.OK, Code.IO}
    assert codes[Code.IO] < 90, "only entries of the lost log are unknown"
    await close(bookie, wire)
    await world.aclose()


async def test_leftovers_are_kept_until_the_bookie_is_in_order() -> None:
    disk = MemoryDisk()
    world, _ = await filled(disk)
    leftover = "sorted/0000009000.sorted"
    disk.files[leftover] = bytearray(disk.files[sorted_paths(disk)[0]][:700])
    disk.files[index_path(9000)] = bytearray(b"unfinished")
    damaged = sorted_paths(disk)[0]
    intact = bytes(disk.files[damaged])
    disk.files[damaged][5] ^= 1
    bookie, wire = await opened(world, disk)
    assert bookie.storage.states.limbo.is_active
    assert leftover in disk.files
    await close(bookie, wire)
    disk.files[damaged][:] = intact
    bookie, wire = await opened(world, disk)
    assert leftover in disk.files, "still in limbo"
    await end_limbo(bookie.storage)
    await close(bookie, wire)
    bookie, wire = await opened(world, disk)
    assert leftover not in disk.files
    assert index_path(9000) not in disk.files
    await all_there(wire, (1, 2, 3), COUNT)
    await close(bookie, wire)
    await world.aclose()


async def test_index_of_a_damaged_log_is_durable_only_after_the_limbo() -> None:
    """Otherwise a crash in between would leave an index that denies what the damage took."""
    disk = MemoryDisk()
    world, _ = await filled(disk, is_compacted=False)
    first = min(log_paths(disk))
    del disk.files[index_path(int(first[4:14]))]
    disk.files[first][30_000] ^= 1
    bookie, wire = await opened(world, disk)
    number = int(first[4:14])
    assert number in bookie.storage.index.sealed_tiers
    assert index_path(number) not in disk.files
    assert bookie.storage.states.limbo.is_active
    codes = {(await wire.read(1, entry_id))[0] for entry_id in range(COUNT)}
    assert codes == {Code.OK, Code.IO}
    await bookie.storage.write_indexes()
    assert index_path(number) in disk.files
    await close(bookie, wire)
    await world.aclose()


async def test_log_without_header_and_without_index_file_begins_limbo() -> None:
    """A sealed log that a start did not replay was passed over, and its entries were denied.

    Found by seed 1005 of plan ``damage``.
    """
    disk = MemoryDisk()
    world, _ = await filled(disk, KEPT, is_compacted=False)
    path = log_paths(disk)[0]
    disk.files[path][:512] = bytes(512)
    del disk.files[index_path(int(path.removeprefix("log/").removesuffix(".log")))]
    bookie, wire = await opened(world, disk)
    assert [damage.reason for damage in bookie.storage.damages] == [
        "the file's header is damaged, and its index file is lost"
    ]
    assert bookie.storage.states.limbo.is_active
    assert (await wire.read(1, COUNT + 5))[0] == Code.IO
    await close(bookie, wire)
    await world.aclose()


def test_logs_are_newer_than_sorted_files_of_any_age() -> None:
    known = SortedFile(90, 1_000, 500, 3)
    assert (rank_of(90, known), rank_of(4, None)) == ((0, 3), (1, 4))


async def test_files_after_one_that_the_manifest_names_are_adopted_too() -> None:
    disk = MemoryDisk()
    world, _ = await filled(disk)
    bookie_id = (await read_identity(disk)).bookie_id
    files = FileSet(disk, 0)
    first, *others = await files.numbers(SORTED_KIND)
    opened_files = OpenedFiles(LedgerRecords())
    opened_files.sorted[first] = known = SortedFile(first, 1_000, 500, 1)
    await adopt_sorted_files(files, IndexDirectory(disk, bookie_id), bookie_id, opened_files)
    assert list(opened_files.sorted) == [first, *others]
    assert opened_files.sorted[first] is known
    assert list(opened_files.data_files) == others
    assert [file.age for file in opened_files.sorted.values()] == list(range(1, len(others) + 2))
    await files.aclose()
    await world.aclose()

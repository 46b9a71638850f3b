"""Offline verification finds damage in every file and changes nothing."""

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.index.index_directory import IndexDirectory
from rhumbline.core.bookie.log.file_set import file_path
from rhumbline.core.bookie.log.log_format import LOG_KIND, OFFSET_MASK, SORTED_KIND
from rhumbline.core.bookie.log.replay import Damage
from rhumbline.core.bookie.maintenance.offline_verify import (
    LedgerSummary,
    StorageSummary,
    StoredEntry,
    dump_storage,
    verify_storage,
)
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.index.test_index_file import no_pause
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


async def test_verification_detects_damage_in_every_file_and_changes_nothing() -> None:
    disk = MemoryDisk()
    config = BookieConfig(log_file_bytes=1 << 16, sealed_logs_kept=1)
    async with one_bookie(config, disk) as (_, bookie, wire):
        for number in range(200):
            assert await wire.add(entry(1, number, bytes(900))) == Code.OK
        assert await wire.fence(2) == Code.NO_ENTRY
        await bookie.maintenance.step()
        assert bookie.storage.sorted
        image = disk.copy()
    before = {path: bytes(content) for path, content in image.files.items()}
    summary = await verify_storage(image)
    assert summary.damages == ()
    assert (summary.entry_count, len(summary.ledgers)) == (200, 2)
    assert summary.ledgers[1].is_fenced
    assert {path: bytes(content) for path, content in image.files.items()} == before
    paths = [path for path in image.files if "/" in path]
    assert {path.partition("/")[0] for path in paths} == {"index", "log", "sorted"}
    for path in paths:
        corrupt = image.copy()
        corrupt.files[path][len(corrupt.files[path]) // 3] ^= 2
        damages = (await verify_storage(corrupt)).damages
        is_newest = path == max(p for p in image.files if p.startswith("log/"))
        assert damages or is_newest, path


async def filled_image() -> MemoryDisk:
    """Return the disk of a closed bookie with a sorted file and logs."""
    disk = MemoryDisk()
    config = BookieConfig(log_file_bytes=1 << 16, sealed_logs_kept=1)
    async with one_bookie(config, disk) as (_, bookie, wire):
        for number in range(200):
            assert await wire.add(entry(1, number, bytes(900))) == Code.OK
        for number in range(3):
            assert await wire.add(entry(2, number)) == Code.OK
        assert await wire.fence(2) == Code.OK
        await bookie.maintenance.step()
        assert bookie.storage.sorted
    return disk


async def test_summary_counts_ledgers_entries_and_files() -> None:
    image = await filled_image()
    progress: list[int] = []
    summary = await verify_storage(image, on_progress=progress.append)
    size, small = len(entry(1, 0, bytes(900))), len(entry(2, 0))
    assert summary.ledgers == (
        LedgerSummary(1, 200, 200 * size, 199, 198, is_fenced=False, is_in_limbo=False),
        LedgerSummary(2, 3, 3 * small, 2, 1, is_fenced=True, is_in_limbo=False),
    )
    assert (summary.entry_count, summary.entry_bytes) == (203, 200 * size + 3 * small)
    counts = {
        kind: sum(path.startswith(f"{kind}/") for path in image.files)
        for kind in ("log", "sorted", "index")
    }
    assert summary.log_count == counts["log"]
    assert summary.sorted_file_count == counts["sorted"] >= 1
    assert summary.index_file_count == counts["index"] >= 2
    assert (summary.torn_bytes, summary.damages) == (0, ())
    assert progress == sorted(progress)
    assert len(progress) == counts["log"] + counts["sorted"]
    assert progress[-1] == 203


async def test_index_file_of_other_contents_is_damage_and_a_missing_one_is_not() -> None:
    image = await filled_image()
    paths = sorted(path for path in image.files if path.startswith("index/"))
    path = paths[0]
    number = int(path[6:16])
    identity = (await verify_storage(image)).identity
    directory = IndexDirectory(image, identity.bookie_id)
    found = await directory.read(SORTED_KIND, number) or await directory.read(LOG_KIND, number)
    assert found is not None
    data_file = found[0].data_file
    columns = await found[0].columns()
    del image.files[path]
    summary = await verify_storage(image)
    assert (summary.damages, summary.index_file_count) == ((), len(paths) - 1)
    for change in range(4):
        changed = [(ledger_id, rows.part(0, len(rows))) for ledger_id, rows in columns]
        rows = changed[0][1]
        described = data_file
        reason = "the index file does not name the entries of its data file"
        if change == 0:
            rows.positions[3] += 1
        elif change == 1:
            changed[0] = (changed[0][0], rows.part(0, len(rows) - 1))
        elif change == 2:
            changed.append((99, rows))
        else:
            described = data_file._replace(end=data_file.end - 1)
            reason = "the index file describes another data file"
        await (await directory.write(described, changed, no_pause))[0].file.close()
        damages = (await verify_storage(image)).damages
        assert damages == (Damage(number, 0, 0, f"{path}: {reason}"),)
    image.files[path][-1] ^= 1
    damages = (await verify_storage(image)).damages
    assert damages == (Damage(number, 0, 0, f"{path}: the index file is damaged"),)


async def test_dump_lists_every_stored_entry_in_file_order_and_each_unreadable_region() -> None:
    image = await filled_image()
    found: list[StoredEntry] = []
    assert await dump_storage(image, found.append) == []
    assert len(found) == 203
    places = [(item.kind, item.number, item.offset) for item in found]
    assert places == sorted(places)
    assert {item.kind for item in found} == {LOG_KIND, SORTED_KIND}
    for item in found:
        content = image.files[file_path(item.kind, item.number)]
        data = bytes(content[item.offset : item.offset + item.size])
        payload = bytes(900) if item.ledger_id == 1 else b"hello"
        assert data == entry(item.ledger_id, item.entry_id, payload)
        assert (item.lac, item.length) == (item.entry_id - 1, 5 * (item.entry_id + 1))
    newest = max(path for path in image.files if path.startswith("log/"))
    oldest = min(path for path in image.files if path.startswith("sorted/"))
    end = len(image.files[newest])
    image.files[newest][-1] ^= 1
    image.files[oldest][5] ^= 1
    torn, headless = await dump_storage(image, lambda _: None)
    assert (torn.number, torn.end) == (int(newest[4:14]), end)
    assert 512 < torn.start < end
    assert torn.reason == "the last group is unfinished or bad"
    assert headless.start == 0
    assert headless.number == int(oldest[7:17])
    assert headless.end == OFFSET_MASK
    assert "damaged" in headless.reason


async def test_storage_without_its_log_is_refused_if_it_was_used() -> None:
    image = await filled_image()
    for path in [path for path in image.files if path.startswith("log/")]:
        del image.files[path]
    with pytest.raises(CorruptionError, match="the write log of this bookie is missing"):
        await verify_storage(image)


async def test_storage_that_was_never_opened_is_empty() -> None:
    world = World()
    await world.start()
    disk = MemoryDisk()
    bookie_id = await world.format(disk)
    summary = await verify_storage(disk)
    assert summary.identity.bookie_id == bookie_id
    assert summary == StorageSummary(summary.identity, (), 0, 0, 0, 0, 0, 0, ())
    await world.aclose()


async def test_last_entry_of_an_empty_ledger_is_minus_one() -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (_, bookie, wire):
        assert await wire.fence(5) == Code.NO_ENTRY
        await bookie.aclose()
    empty = LedgerSummary(5, 0, 0, -1, -1, is_fenced=True, is_in_limbo=False)
    assert (await verify_storage(disk)).ledgers == (empty,)

"""Compaction with unordered entries, failing manifests, and other work on the event loop."""

import asyncio
import time
from random import Random

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.index.index_directory import index_path
from rhumbline.core.bookie.log.commit_group import Outbox
from rhumbline.core.bookie.log.file_set import file_path
from rhumbline.core.bookie.log.log_format import (
    FILE_HEADER_BYTES,
    GROUP_HEADER_BYTES,
    LOG_KIND,
    OFFSET_MASK,
    SORTED_KIND,
    decode_file_header,
    iterate_records,
)
from rhumbline.core.bookie.log.replay import scan_file
from rhumbline.core.bookie.maintenance.compactor import Compactor
from rhumbline.core.bookie.maintenance.duty_cycle import DutyCycle
from rhumbline.core.bookie.maintenance.live_rows import LiveRows
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError, DiskFullError, RhumblineError
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire.entry import ENTRY_HEADER
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, FixedClock, entry
from rhumbline.tests.unit.core.bookie.maintenance.test_compactor import CountingDuty
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

ME = BookieId("sort@0000c0de")


class NullSink:
    """Ignores delivered responses."""

    def deliver(self, outbox: Outbox) -> None:
        pass

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        raise error


async def filled(
    disk: MemoryDisk, config: BookieConfig, kind: type[Storage] = Storage
) -> tuple[Storage, dict[int, bytes]]:
    """Return a storage whose sealed log has unordered, missing and repeated entry ids.

    The second value holds the expected entries of ledger 1.
    """
    storage = kind(Runtime(FixedClock(), Random(1)), disk, config, ME)
    await storage.open()
    random = Random(2)
    kept: dict[int, bytes] = {}
    ledgers = [storage.create_ledger(number, KEY, is_proven=True) for number in (1, 2)]
    while not storage.sealed_logs:
        for _ in range(20):
            number = random.randrange(5_000)
            kept[number] = entry(1, number, random.randbytes(random.randrange(20, 300)))
            storage.add(ledgers[0], kept[number], NullSink())
            storage.add(ledgers[1], entry(2, number, b"other"), NullSink())
        await asyncio.sleep(0)
    await storage.journal(storage.states.manifest.encode())
    await storage.write_indexes()
    return storage, kept


async def test_unordered_and_repeated_entries_are_sorted_and_found() -> None:
    disk = MemoryDisk()
    config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
    storage, kept = await filled(disk, config)
    compactor = Compactor(storage, slice_bytes=100_000)
    await compactor.compact_log(storage.sealed_logs[0])
    (number,) = storage.sorted
    for _ in range(2):
        for entry_id, data in kept.items():
            assert await storage.read(1, entry_id, await storage.locate(1, entry_id)) == data
        if number in storage.sorted:
            storage.delete_ledger(2)
            assert await compactor.compact_sorted_file(number)
    image = disk.copy()
    await storage.aclose()
    again = Storage(Runtime(FixedClock(), Random(3)), image, config, ME)
    await again.open()
    assert again.damages == []
    for entry_id, data in kept.items():
        assert await again.read(1, entry_id, await again.locate(1, entry_id)) == data
    await again.aclose()


class ManifestRefusingStorage(Storage):
    """A storage that fails to journal some manifests."""

    refuses = (1, 3)
    """Numbers of the failing attempts; these manifests would remove a rewritten file."""
    attempts = 0

    async def write_manifest(self) -> None:
        self.attempts += 1
        if self.attempts in self.refuses:
            raise DiskFullError("no space left")
        await super().write_manifest()


async def test_file_is_rewritten_again_if_its_removal_was_not_journaled() -> None:
    config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
    storage, kept = await filled(MemoryDisk(), config, ManifestRefusingStorage)
    compactor = Compactor(storage, slice_bytes=100_000)
    log = storage.sealed_logs[0]
    with pytest.raises(DiskFullError):
        await compactor.compact_log(log)
    assert await compactor.compact_log(log)
    storage.delete_ledger(2)
    (number,) = storage.sorted
    with pytest.raises(DiskFullError):
        await compactor.compact_sorted_file(number)
    assert await compactor.compact_sorted_file(number)
    assert number not in storage.sorted
    for entry_id, data in kept.items():
        assert await storage.read(1, entry_id, await storage.locate(1, entry_id)) == data
    await storage.aclose()


class FirstManifestsRefusingStorage(ManifestRefusingStorage):
    """A storage that fails to journal its first two manifests, which would add new files."""

    refuses = (1, 2)


async def test_new_files_that_were_not_journaled_are_removed() -> None:
    config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
    disk = MemoryDisk()
    storage, kept = await filled(disk, config, FirstManifestsRefusingStorage)
    compactor = Compactor(storage, slice_bytes=100_000)
    log = storage.sealed_logs[0]
    for count in (1, 2):
        with pytest.raises(DiskFullError):
            await compactor.compact_log(log)
        assert (storage.sorted, storage.states.manifest.sorted_files) == ({}, {})
        assert storage.states.manifest.log_floor == log
        assert len(await storage.files.numbers(SORTED_KIND)) == count
    assert await compactor.compact_log(log)
    (number,) = storage.sorted
    assert list(storage.states.manifest.sorted_files) == [number]
    assert await storage.files.numbers(SORTED_KIND) == [number]
    image = disk.copy()
    await storage.aclose()
    again = Storage(Runtime(FixedClock(), Random(3)), image, config, ME)
    await again.open()
    assert again.damages == []
    for entry_id, data in kept.items():
        assert await again.read(1, entry_id, await again.locate(1, entry_id)) == data
    await again.aclose()


async def test_compaction_yields_to_the_event_loop_every_few_milliseconds() -> None:
    """Measures CPU time of this thread, so that a busy machine does not matter."""
    disk = MemoryDisk()
    storage, _ = await filled(disk, BookieConfig(log_file_bytes=1 << 22, tail_cache_bytes=0))
    sorting = asyncio.ensure_future(Compactor(storage).compact_log(storage.sealed_logs[0]))
    held_ms = []
    while not sorting.done():
        before = time.thread_time_ns()
        await asyncio.sleep(0)
        held_ms.append((time.thread_time_ns() - before) / 1e6)
    await sorting
    await storage.aclose()
    held_ms.sort()
    assert len(held_ms) > 30
    assert held_ms[len(held_ms) * 9 // 10] < 10
    assert held_ms[-1] < 1000, "a busy machine may add 200 ms to one iteration"


async def test_records_of_a_sorted_file_lie_by_ledger_and_entry_within_each_slice() -> None:
    config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
    for slice_bytes, slice_count in ((1 << 30, 1), (200_000, 3)):
        disk = MemoryDisk()
        storage, _ = await filled(disk, config)
        log = storage.sealed_logs[0]
        log_path = file_path(LOG_KIND, log)
        columns = await storage.index.files[log].columns()
        assert log_path in disk.files
        compactor = Compactor(storage, slice_bytes=slice_bytes)
        assert (compactor.written_bytes, compactor.removed_count) == (0, 0)
        assert await compactor.compact_log(log)
        (known,) = storage.sorted.values()
        assert (compactor.written_bytes, compactor.removed_count) == (known.end, 1)
        assert log_path not in disk.files
        assert index_path(log) not in disk.files
        assert len(disk.files[file_path(SORTED_KIND, known.number)]) == known.end
        found: list[tuple[int, int]] = []
        damages = await read_keys(storage, known.number, found)
        assert damages == 0
        steps = sum(found[at] > found[at + 1] for at in range(len(found) - 1))
        assert steps == slice_count - 1
        assert len(set(found)) == len(found), "one copy of each entry"
        assert set(found) == {(ledger_id, at) for ledger_id, rows in columns for at in rows.ids}
        assert known.entry_bytes == sum(sum(rows.lengths) for _, rows in columns)
        assert (known.age, storage.data_files[known.number].end) == (1, known.end)
        assert log not in storage.data_files
        assert storage.index.files[known.number].rank == (0, 1)
        await storage.aclose()


async def read_keys(storage: Storage, number: int, found: list[tuple[int, int]]) -> int:
    """Adds (ledger id, entry id) of each entry in file order; returns the number of damages."""
    file = await storage.files.open(SORTED_KIND, number)
    header = decode_file_header(await file.read(0, FILE_HEADER_BYTES), file.path)

    def on_group(_: int, body: bytes) -> None:
        for _, data, is_state in iterate_records(body):
            if not is_state:
                found.append(ENTRY_HEADER.unpack_from(data)[:2])

    scan = await scan_file(file, header, storage.data_files[number].end, on_group)
    return len(scan.damages)


async def test_file_without_live_entries_is_removed() -> None:
    config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
    disk = MemoryDisk()
    storage, _ = await filled(disk, config)
    log = storage.sealed_logs[0]
    compactor = Compactor(storage)
    assert await compactor.compact_log(log)
    (number,) = storage.sorted
    for ledger_id in (1, 2):
        storage.delete_ledger(ledger_id)
    await storage.write_manifest()
    assert await compactor.compact_sorted_file(number)
    assert storage.sorted == {}
    assert storage.states.manifest.sorted_files == {}
    assert (storage.data_files, storage.index.files) == ({}, {})
    assert not [path for path in disk.files if path.startswith(("sorted/", "index/"))]
    assert compactor.removed_count == 2
    await storage.aclose()


async def test_failed_write_of_the_new_file_leaves_the_old_one() -> None:
    config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
    disk = MemoryDisk()
    storage, kept = await filled(disk, config)
    log = storage.sealed_logs[0]
    disk.room = 10_000
    with pytest.raises(DiskFullError):
        await Compactor(storage).compact_log(log)
    disk.room = None
    assert storage.sealed_logs == [log]
    assert not [path for path in disk.files if path.startswith("sorted/")]
    for entry_id, data in kept.items():
        assert await storage.read(1, entry_id, await storage.locate(1, entry_id)) == data
    await storage.aclose()


async def test_damaged_file_is_rewritten_when_its_lost_entries_are_elsewhere() -> None:
    config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
    disk = MemoryDisk()
    storage, kept = await filled(disk, config)
    log = storage.sealed_logs[0]
    rows = dict(await storage.index.files[log].columns())[1]
    lost = rows.ids[len(rows) // 2]
    location = rows.find(lost)
    assert location is not None
    disk.files[file_path(LOG_KIND, log)][location.position & OFFSET_MASK] ^= 1
    compactor = Compactor(storage)
    assert not await compactor.compact_log(log), "its index names entries that are nowhere else"
    assert storage.sealed_logs == [log]
    for ledger_id, copies in ((1, kept), (2, {at: entry(2, at, b"other") for at in kept})):
        for entry_id in rows.ids:
            ledger = storage.states.ledgers[ledger_id]
            storage.add(ledger, copies[entry_id], NullSink())
        await storage.write_manifest()
    assert await compactor.compact_log(log)
    assert file_path(LOG_KIND, log) not in disk.files
    for entry_id, data in kept.items():
        assert await storage.read(1, entry_id, await storage.locate(1, entry_id)) == data
    await storage.aclose()


async def test_damaged_sorted_file_is_kept() -> None:
    config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
    disk = MemoryDisk()
    storage, _ = await filled(disk, config)
    compactor = Compactor(storage)
    assert await compactor.compact_log(storage.sealed_logs[0])
    (number,) = storage.sorted
    path = file_path(SORTED_KIND, number)
    disk.files[path][-20] ^= 1
    assert not await compactor.compact_sorted_file(number)
    assert (list(storage.sorted), compactor.removed_count) == ([number], 1)
    assert path in disk.files
    storage.delete_ledger(1)
    storage.delete_ledger(2)
    await storage.write_manifest()
    assert await compactor.compact_sorted_file(number), "nothing in it is needed any more"
    assert path not in disk.files
    await storage.aclose()


async def test_slice_that_rots_before_it_is_copied_ends_the_compaction() -> None:
    config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
    disk = MemoryDisk()
    storage, _ = await filled(disk, config)
    log = storage.sealed_logs[0]
    content = disk.files[file_path(LOG_KIND, log)]
    end = storage.data_files[log].end
    compactor = Compactor(storage)
    expected = bytes(content[FILE_HEADER_BYTES:end])
    assert await compactor._read(LOG_KIND, log, FILE_HEADER_BYTES, end) == expected
    for at in (FILE_HEADER_BYTES, FILE_HEADER_BYTES + GROUP_HEADER_BYTES, end - 1):
        content[at] ^= 1
        with pytest.raises(CorruptionError, match=f"file {log} changed during its compaction"):
            await compactor._read(LOG_KIND, log, FILE_HEADER_BYTES, end)
        content[at] ^= 1
    await storage.aclose()


async def test_large_entries_are_copied_one_by_one_into_groups() -> None:
    config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
    disk = MemoryDisk()
    storage = Storage(Runtime(FixedClock(), Random(1)), disk, config, ME)
    await storage.open()
    ledger = storage.create_ledger(1, KEY, is_proven=True)
    lengths = (400_000, 300_000, 300_000, 300_000, 300_000)
    kept = [entry(1, number, bytes(length)) for number, length in enumerate(lengths)]
    for data in kept:
        storage.add(ledger, data, NullSink())
    await storage.write_manifest()
    storage.log.roll_next()
    await storage.write_manifest()
    await storage.write_indexes()
    log = storage.sealed_logs[0]
    assert await Compactor(storage, duty := CountingDuty()).compact_log(log)
    (number,) = storage.sorted
    path = file_path(SORTED_KIND, number)
    sizes: list[int] = []
    header = decode_file_header(bytes(disk.files[path]), path)
    file = await disk.open(path)
    await scan_file(file, header, None, lambda _, body: sizes.append(len(body)))
    assert sizes[1:] == [700_088, 600_088, 300_044], "each ends above 512 KiB"
    assert duty.count == 6, "one after each full group, and others while rows are read"
    found: list[tuple[int, int]] = []
    assert await read_keys(storage, number, found) == 0
    assert found == [(1, at) for at in range(5)]
    for entry_id, data in enumerate(kept):
        assert await storage.read(1, entry_id, await storage.locate(1, entry_id)) == data
    await storage.aclose()


async def test_pauses_follow_the_ledgers_and_the_rows() -> None:
    """A ledger costs two rows in each slice, a run 20, and there is a pause per 1,000 rows."""
    storage = Storage(Runtime(FixedClock(), Random(1)), MemoryDisk(), BookieConfig(), ME)
    await storage.open()
    for ledger_id in range(4_000):
        ledger = storage.create_ledger(ledger_id, KEY, is_proven=True)
        storage.add(ledger, entry(ledger_id, 0), NullSink())
    await storage.write_manifest()
    storage.log.roll_next()
    await storage.write_manifest()
    log = storage.sealed_logs[0]
    live = LiveRows(storage, LOG_KIND, log, 1 << 30)
    await live.read(DutyCycle())
    writer = storage.new_sorted_file()
    await writer.begin(live.ledger_bytes, live.slices[-1][1])
    compactor = Compactor(storage, duty := CountingDuty())
    await compactor._copy_slices(LOG_KIND, log, live, writer)
    assert duty.count == 4_000 // 44, "44 ledgers cost 1,012"
    duty.count = 0
    for rows in live.ledgers.values():
        rows.positions[0] = 1 << 62  # in a later slice
    with pytest.raises(AssertionError):
        await compactor._copy_slices(LOG_KIND, log, live, writer)
    assert duty.count == 8
    await storage.aclose()

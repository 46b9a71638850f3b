"""A storage with very many ledgers, and the checkpoint of an orderly shutdown."""

import asyncio
from dataclasses import replace
from random import Random
from typing import cast

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.index.index_directory import index_path
from rhumbline.core.bookie.ledger_records import LedgerRecord
from rhumbline.core.bookie.log.file_set import file_path
from rhumbline.core.bookie.log.log_format import LOG_KIND
from rhumbline.core.bookie.log.tail_cache import TailCache
from rhumbline.core.bookie.server.long_poll import ParkedPoll
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.bookie.storage_listener import StorageListener
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    CorruptionError,
    DiskFailedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
    UnknownStateError,
)
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import (
    KEY,
    CountingSink,
    FixedClock,
    Wire,
    entry,
    lac_body,
    one_bookie,
)
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk
from rhumbline.tests.unit.core.bookie.small_files import SMALL, all_there, fill, log_paths

ME = BookieId("b1@0000abcd")


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
        storage.add(ledger, entry(ledger_id, 0), sink)
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


async def new_storage(config: BookieConfig = SMALL) -> tuple[MemoryDisk, Storage]:
    disk = MemoryDisk()
    storage = Storage(Runtime(FixedClock(), Random(1)), disk, config, ME)
    await storage.open()
    return disk, storage


async def fill_ledgers(storage: Storage, sizes: dict[int, list[int]]) -> CountingSink:
    """Adds entries with payloads of these sizes, one group for each, and waits."""
    sink = CountingSink()
    for ledger_id, lengths in sizes.items():
        ledger = storage.create_ledger(ledger_id, KEY, is_proven=True)
        for number, length in enumerate(lengths):
            storage.add(ledger, entry(ledger_id, number, bytes(length)), sink)
    await storage.write_manifest()
    return sink


async def test_run_of_entries_ends_at_its_limits() -> None:
    _, storage = await new_storage(BookieConfig(tail_cache_bytes=0))
    await fill_ledgers(storage, {1: [100] * 6})
    size = len(entry(1, 0, bytes(100)))
    expected = [entry(1, number, bytes(100)) for number in range(6)]
    assert await storage.read_run(1, 0, 99, 1 << 20) == expected
    assert await storage.read_run(1, 2, 3, 1 << 20) == expected[2:5]
    assert await storage.read_run(1, 0, 99, 2 * size) == expected[:2]
    assert await storage.read_run(1, 0, 99, size - 1) == expected[:1]
    assert await storage.read_run(1, 0, 99, size - 1, following_in="") == []
    assert await storage.read_run(1, 0, 99, size, following_in="") == expected[:1]
    with pytest.raises(NoSuchEntryError):
        await storage.read_run(1, 6, 9, 1 << 20)
    with pytest.raises(NoSuchLedgerError):
        await storage.read_run(2, 0, 9, 1 << 20)
    await storage.aclose()
    _, cached = await new_storage()
    cached.tail = TailCache(1 << 20)
    await fill_ledgers(cached, {1: [100] * 6})
    assert await cached.read_run(1, 0, 99, 1 << 20) == expected[:1], "one at a time from memory"
    await cached.aclose()


async def test_another_entry_in_place_of_the_wanted_one_is_corruption() -> None:
    _, storage = await new_storage()
    await fill_ledgers(storage, {1: [100] * 2, 2: [100]})
    location = await storage.locate(1, 0)
    for ledger_id, entry_id in ((1, 1), (2, 0)):
        with pytest.raises(CorruptionError, match=f"in place of {ledger_id}:{entry_id}$"):
            await storage.read_from_file(ledger_id, entry_id, location)
    await storage.aclose()


async def test_denial_says_whether_the_ledger_is_known() -> None:
    _, storage = await new_storage()
    await fill_ledgers(storage, {1: [100] * 2, 2: [100]})
    assert [storage.last_entry(ledger_id) for ledger_id in (1, 2, 3)] == [1, 0, -1]
    for ledger_id, kind in ((1, NoSuchEntryError), (3, NoSuchLedgerError)):
        with pytest.raises(kind):
            storage.find(ledger_id, 9)
        with pytest.raises(kind):
            await storage.locate(ledger_id, 9)
        assert storage.is_held(ledger_id) == (ledger_id == 1)
    storage.delete_ledger(2)
    assert not storage.is_held(2)
    with pytest.raises(NoSuchLedgerError):
        storage.find(2, 0)
    await storage.write_manifest()
    assert storage.last_entry(2) == -1, "its rows are dropped when that is durable"
    await storage.begin_limbo()
    assert [storage.is_held(ledger_id) for ledger_id in (1, 2, 3)] == [True, False, True]
    for ledger_id in (1, 2, 3):
        with pytest.raises(UnknownStateError):
            storage.find(ledger_id, 9)
    assert not storage.states.ledgers[1].accepts_adds
    await storage.aclose()


async def test_fence_is_reported_when_it_is_durable_and_then_at_once() -> None:
    disk, storage = await new_storage()
    await fill_ledgers(storage, {1: [100]})
    ledger = storage.states.ledgers[1]
    assert ledger.accepts_adds
    gate = disk.gate = asyncio.Event()
    outcomes: list[RhumblineError | None] = []
    storage.fence(ledger, outcomes.append)
    assert (ledger.is_fenced, ledger.accepts_adds, ledger.is_fence_durable) == (True, False, False)
    storage.fence(ledger, outcomes.append)
    await asyncio.sleep(0.01)
    assert outcomes == []
    disk.gate = None
    gate.set()
    await storage.write_manifest()
    assert outcomes == [None, None]
    assert ledger.is_fence_durable
    storage.fence(ledger, outcomes.append)
    assert len(outcomes) == 3
    await storage.fence_durably(ledger)
    disk.is_failing = True
    storage.create_ledger(2, KEY, is_proven=False)
    with pytest.raises(DiskFailedError):
        await storage.fence_durably(storage.states.ledgers[2])
    assert not storage.states.ledgers[2].is_fence_durable
    await storage.aclose()


async def test_proof_is_journaled_once() -> None:
    disk, storage = await new_storage()
    ledger = storage.create_ledger(1, KEY, is_proven=False)
    assert not ledger.accepts_adds
    await storage.write_manifest()
    storage.mark_proven(ledger)
    assert (ledger.is_proven, ledger.accepts_adds) == (True, True)
    assert storage.log.group.count == 1
    storage.mark_proven(ledger)
    assert storage.log.group.count == 1
    await storage.write_manifest()
    image = disk.copy()
    await storage.aclose()
    again = Storage(Runtime(FixedClock(), Random(1)), image, SMALL, ME)
    await again.open()
    assert again.states.ledgers[1].is_proven
    assert again.states.ledgers[1].accepts_adds
    await again.aclose()


async def test_counts_of_entries_and_sealed_logs() -> None:
    _, storage = await new_storage()
    due: list[int] = []
    storage.on_maintenance_due = lambda: due.append(len(storage.sealed_logs))
    sizes = [700] * 200
    sink = await fill_ledgers(storage, {1: sizes})
    assert (sink.count, storage.entry_count) == (200, 200)
    await fill_ledgers(storage, {2: sizes})
    assert due == list(range(1, len(storage.sealed_logs) + 1))
    assert storage.sealed_logs
    assert list(storage.data_files) == storage.sealed_logs
    assert list(storage.index.sealed_tiers) == storage.sealed_logs
    assert storage.wall_ms() == 1_700_000_000_000
    await storage.write_indexes()
    assert storage.index.sealed_tiers == {}
    assert list(storage.index.files) == storage.sealed_logs
    await storage.aclose()


async def test_start_continues_with_the_files_and_the_lacs_of_the_last_one() -> None:
    disk, storage = await new_storage()
    await fill_ledgers(storage, {1: [700] * 100, 2: [700] * 100, 3: [10]})
    storage.delete_ledger(3)
    body = lac_body(1, 99)
    outcomes: list[RhumblineError | None] = []
    storage.write_lac(storage.states.ledgers[1], body, outcomes.append)
    assert storage.states.ledgers[1].lac == 99
    await storage.write_manifest()
    assert outcomes == [None]
    sealed, number = list(storage.sealed_logs), storage.log.number
    image = disk.copy()
    await storage.aclose()
    again = Storage(Runtime(FixedClock(), Random(1)), image, SMALL, ME)
    await again.open(must_exist=True)
    assert again.sealed_logs == [*sealed, number]
    assert again.log.number == number + 1
    assert (again.damages, again.states.limbo.is_active) == ([], False)
    ledger = again.states.ledgers[1]
    assert (ledger.lac, ledger.lac_body, ledger.lac_changed_ms) == (99, body, 1_700_000_000_000)
    assert again.states.ledgers[2].lac == 98
    assert 3 not in again.states.ledgers
    assert again.last_entry(3) == -1
    assert again.states.manifest.log_floor == sealed[0]
    await again.aclose()


async def test_storage_that_must_exist_and_does_not_is_refused() -> None:
    storage = Storage(Runtime(FixedClock(), Random(1)), MemoryDisk(), SMALL, ME)
    with pytest.raises(CorruptionError, match="the write log of this bookie is missing"):
        await storage.open(must_exist=True)
    await storage.abandon()


async def test_reason_for_limbo_is_asked_with_the_end_of_the_log() -> None:
    disk, storage = await new_storage()
    await fill_ledgers(storage, {1: [100]})
    end = storage.log.durable_end
    image = disk.copy()
    await storage.aclose()
    asked: list[int] = []

    def reason(position: int) -> str:
        asked.append(position)
        return "an older copy"

    again = Storage(Runtime(FixedClock(), Random(1)), image, SMALL, ME)
    await again.open(limbo_reason=reason)
    assert asked == [end]
    assert [damage.reason for damage in again.damages] == ["an older copy"]
    number, offset = divmod(end, 1 << 40)
    damage = again.damages[0]
    assert (damage.number, damage.start, damage.end) == (number, offset, offset)
    assert again.states.limbo.is_active
    await again.aclose()


async def test_start_with_intact_index_files_writes_none_and_reads_no_older_log() -> None:
    disk, storage = await new_storage()
    for ledger_id in (1, 2):
        await fill_ledgers(storage, {ledger_id: [700] * 20})
        storage.log.roll_next()
    await storage.write_manifest()
    await storage.write_indexes()
    assert len(storage.sealed_logs) == 2
    sealed = list(storage.sealed_logs)
    recording = RecordingDisk()
    image = disk.copy()
    recording.files, recording.directories = image.files, image.directories
    await storage.aclose()
    again = Storage(Runtime(FixedClock(), Random(1)), recording, SMALL, ME)
    await again.open()
    operations = recording.taken()
    created = [str(done[1]) for done in operations if done[0] == "create"]
    assert not [path for path in created if path.startswith("index/")]
    for number in sealed:
        path = file_path(LOG_KIND, number)
        reads = [done[2:] for done in operations if done[:2] == ("read", path)]
        assert reads == [(0, 512)], "its header only"
    assert sorted(again.index.files) == sealed
    for entry_id in (0, 19):
        location = await again.locate(2, entry_id)
        assert await again.read(2, entry_id, location) == entry(2, entry_id, bytes(700))
    await again.aclose()


async def test_orderly_shutdown_writes_the_index_files_of_sealed_logs() -> None:
    disk, storage = await new_storage()
    await fill_ledgers(storage, {1: [100] * 3})
    storage.log.roll_next()
    await storage.write_manifest()
    sealed = list(storage.sealed_logs)
    assert len(sealed) == 1
    assert not [number for number in sealed if index_path(number) in disk.files]
    await storage.aclose()
    assert [number for number in sealed if index_path(number) in disk.files] == sealed


class NotingListener(StorageListener):
    """Notes the ledgers whose LAC has risen."""

    def __init__(self) -> None:
        self.advanced: list[int] = []

    def ledgers_advanced(self, ledgers: list[LedgerRecord]) -> None:
        self.advanced += [ledger.ledger_id for ledger in ledgers]


async def test_risen_lac_is_reported_only_to_those_who_wait() -> None:
    _, storage = await new_storage()
    storage.listener = listener = NotingListener()
    ledger = storage.create_ledger(4, KEY, is_proven=True)
    storage.raise_lac(ledger, 3)
    assert (ledger.lac, listener.advanced) == (3, [])
    ledger.polls = {cast("ParkedPoll", object()): None}
    for lac in (2, 3):
        storage.raise_lac(ledger, lac)
        assert (ledger.lac, listener.advanced) == (3, [])
    storage.raise_lac(ledger, 5)
    assert (ledger.lac, listener.advanced) == (5, [4])
    await storage.aclose()

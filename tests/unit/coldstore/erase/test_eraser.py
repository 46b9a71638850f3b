"""Erased records are absent for readers, and proved; everything else stays as it was."""

from collections.abc import Awaitable, Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rhumbline.coldstore.archive.archive_folder import ArchiveFolder
from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.archive.relocation import Erasure, MovedSegment
from rhumbline.coldstore.archive.stream_index import StreamIndex
from rhumbline.coldstore.compact import publish
from rhumbline.coldstore.compact.compactor import ArchiveCompactor
from rhumbline.coldstore.compact.publish import SegmentMove
from rhumbline.coldstore.erase.erased_set import ErasedSet
from rhumbline.coldstore.erase.eraser import ArchiveEraser
from rhumbline.coldstore.erase.proofs import proofs
from rhumbline.coldstore.erase.selection import RecordSelection
from rhumbline.coldstore.proof.erasure_chain import stored_relocations
from rhumbline.coldstore.proof.verify_run import verify_all
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.read.record_batch import Record
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import InvalidArgumentError, UnavailableError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    comparable,
    fill_stream,
    read_records,
)
from rhumbline.tests.unit.coldstore.compact.compaction_world import (
    CONFIG,
    GRACE_MS,
    CrashingStore,
    compact_completely,
    compact_once,
)

SEGMENTS, RECORDS = 4, 30
LATE_MS = 10_000_000
KEY = b"k20"
ERASURE = Erasure("operator", "request 17")
BY_KEY = RecordSelection(frozenset({KEY}))


async def fill_slowly(world: LogWorld) -> None:
    """Fill stream "s" with records of different times."""
    for number in range(SEGMENTS):
        writer = await world.writer("s", StreamPolicy(roll_bytes=1 << 40, hot_retention_ms=0))
        for n in range(RECORDS):
            writer.append(b"%d/%d" % (number, n), 1 + number * RECORDS + n)
            if n % 3 == 0:
                await writer.flush()
                world.clock.now_ms += 7
        await writer.close()


async def archived(
    world: LogWorld,
    cold: DictColdStore,
    fill: Callable[[LogWorld], Awaitable[None]] = fill_stream,
) -> ArchiveFolder:
    await fill(world)
    manifests = await archive_segments(world, cold)
    world.clock.now_ms += 10_000
    await world.namespace.maintain("s")
    assert world.ledgers.ledgers == {}, "readers read the archive"
    return manifests[0].folder


async def erase(cold: DictColdStore, selection: RecordSelection, now_ms: int = LATE_MS) -> int:
    """Erase as the job does; return the number of moved segments."""
    eraser = ArchiveEraser(cold, selection, wall_ms=lambda: now_ms)
    listing = await scan_manifests(cold)
    moved = 0
    for folder in sorted(listing.folders):
        written = [await eraser.write(group, 5) for group in eraser.groups(listing, folder)]
        moves = [one for one in written if one is not None]
        if moves:
            await eraser.commit(moves, ERASURE)
        moved += sum(len(one.segments) for one in moves)
    return moved


async def settle(cold: DictColdStore, begin_ms: int = LATE_MS) -> None:
    for nights in range(1, 4):
        await compact_once(cold, begin_ms + nights * 2 * GRACE_MS)


async def faults(cold: DictColdStore) -> list[str]:
    listing = await scan_manifests(cold)
    results = await verify_all(cold, listing)
    return [*map(str, listing.faults.values()), *(text for one in results for text in one.faults)]


def reopen(world: LogWorld, cold: DictColdStore) -> None:
    world.archives = ColdArchives(cold, "test")
    world.namespace = world.open_namespace()


def stored_keys(cold: DictColdStore) -> set[bytes | None]:
    """Return the keys of the records in all files."""
    files = [data for name, data in cold.objects.items() if name.endswith(".parquet")]
    tables = [pq.read_table(pa.BufferReader(data), columns=["key"]) for data in files]
    return {key for table in tables for key in table.column("key").to_pylist()}


@pytest.mark.parametrize("is_compacted", [False, True])
async def test_erased_records_are_absent_and_the_others_unchanged(
    world: LogWorld, is_compacted: bool
) -> None:
    cold = DictColdStore()
    folder = await archived(world, cold)
    if is_compacted:
        await compact_completely(cold)
    truth = comparable(await read_records(world))
    kept = [one for one in truth if one[6] != KEY]
    assert 0 < len(kept) < len(truth)
    assert await erase(cold, BY_KEY) == (SEGMENTS if is_compacted else 2)
    assert comparable(await read_records(world)) == kept
    assert await faults(cold) == []
    assert await erase(cold, BY_KEY) == 0, "a repeat finds nothing"
    assert KEY in stored_keys(cold), "the old files are kept for a grace period"
    await settle(cold)
    assert KEY not in stored_keys(cold)
    assert comparable(await read_records(world)) == kept
    assert await faults(cold) == []
    (proof,) = proofs(await stored_relocations(cold, folder))
    assert proof.relocation.erasure == ERASURE
    assert proof.relocation.created_ms == LATE_MS
    assert proof.records == {2: 1, 4: 1}
    links = [one.link for one in (await scan_manifests(cold)).manifests]
    assert len(links) == SEGMENTS, "the chain is what it was"


@pytest.mark.parametrize("numbers", [(0, 45), (20, 70), (75, 120), (0, 120), (31, 32), (118, 120)])
async def test_any_range_of_time_can_be_erased(world: LogWorld, numbers: tuple[int, int]) -> None:
    cold = DictColdStore()
    await archived(world, cold, fill_slowly)
    truth = comparable(await read_records(world))
    times = [int(str(one[4])) for one in truth]
    assert len(set(times)) > SEGMENTS * RECORDS // 4
    begin, end = times[numbers[0]], times[numbers[1] - 1] + 1
    selection = RecordSelection(created_from_ms=begin, created_before_ms=end)
    kept = [one for one, ms in zip(truth, times, strict=True) if not begin <= ms < end]
    await erase(cold, selection)
    for _ in range(2):
        reopen(world, cold)
        assert comparable(await read_records(world)) == kept
        assert await faults(cold) == []
        for start in kept[:: max(1, len(kept) // 5)]:
            dlsn = start[0]
            assert isinstance(dlsn, Dlsn)
            found: list[Record] = await read_records(world, dlsn)
            assert comparable(found) == kept[kept.index(start) :]
        await settle(cold)
    assert len(truth) - len(kept) == sum(
        one.record_count - one.stored_records for one in (await scan_manifests(cold)).manifests
    )


async def test_a_second_erasure_adds_to_the_first(world: LogWorld) -> None:
    cold = DictColdStore()
    folder = await archived(world, cold)
    truth = comparable(await read_records(world))
    await erase(cold, BY_KEY)
    other = RecordSelection(frozenset({b"k19", b"k22"}))
    await erase(cold, other, LATE_MS + 1)
    await settle(cold)
    kept = [one for one in truth if one[6] not in (KEY, b"k19", b"k22")]
    assert comparable(await read_records(world)) == kept
    assert await faults(cold) == []
    records = [one.records for one in proofs(await stored_relocations(cold, folder))]
    assert records == [{2: 1, 4: 1}, {2: 2, 4: 2}]


async def test_an_erasure_that_is_killed_at_any_change_is_finished_by_the_next(
    world: LogWorld,
) -> None:
    original = CrashingStore()
    await archived(world, original)
    truth = comparable(await read_records(world))
    kept = [one for one in truth if one[6] != KEY]
    counting = CrashingStore()
    counting.objects = dict(original.objects)
    await erase(counting, BY_KEY)
    await settle(counting)
    for step in range(1, counting.changes + 1):
        cold = CrashingStore()
        cold.objects, cold.crash_at = dict(original.objects), step
        reopen(world, cold)
        with pytest.raises(UnavailableError, match="killed"):
            await erase(cold, BY_KEY)
            await settle(cold)
        assert comparable(await read_records(world)) in (truth, kept), step
        assert await faults(cold) == [], step
        cold.crash_at = None
        await erase(cold, BY_KEY, LATE_MS + 1)
        await settle(cold, LATE_MS + 48 * 3_600_000)
        assert comparable(await read_records(world)) == kept, step
        assert KEY not in stored_keys(cold), step
        assert await faults(cold) == [], step


async def test_a_compaction_that_began_before_does_not_undo_an_erasure(world: LogWorld) -> None:
    cold = DictColdStore()
    folder = await archived(world, cold)
    compactor = ArchiveCompactor(cold, CONFIG, wall_ms=lambda: LATE_MS)
    (group,) = compactor.groups(await scan_manifests(cold), folder)
    move = SegmentMove(group, await compactor.write(group, 7))
    await erase(cold, BY_KEY)
    with pytest.raises(UnavailableError, match="moved or erased meanwhile"):
        await compactor.commit([move])
    assert KEY not in {one.key for one in await read_records(world)}


async def test_a_file_that_a_killed_compaction_has_copied_does_not_keep_erased_records(
    world: LogWorld,
) -> None:
    staged = CrashingStore()
    folder = await archived(world, staged)
    kept = [one for one in comparable(await read_records(world)) if one[6] != KEY]
    await compact_once(staged, 2 * GRACE_MS)
    cold, step = CrashingStore(), 0
    while not any("/merged-" in key for key in cold.objects):
        step += 1
        cold.objects, cold.changes, cold.crash_at = dict(staged.objects), 0, step
        with pytest.raises(UnavailableError, match="killed"):
            await compact_once(cold, 4 * GRACE_MS)
    assert folder.relocation(2) not in cold.objects, "killed before it named the copy"
    cold.crash_at = None
    await erase(cold, BY_KEY)
    await settle(cold)
    assert KEY not in stored_keys(cold)
    reopen(world, cold)
    assert comparable(await read_records(world)) == kept
    assert await faults(cold) == []


async def test_a_staged_file_that_a_killed_compaction_has_left_does_not_keep_erased_records(
    world: LogWorld,
) -> None:
    """Such files are usually kept for a day, because a running job may still publish them."""
    cold = CrashingStore()
    folder = await archived(world, cold)
    compactor = ArchiveCompactor(cold, CONFIG, wall_ms=lambda: LATE_MS - 1)
    (group,) = compactor.groups(await scan_manifests(cold), folder)
    move = SegmentMove(group, await compactor.write(group, 7))
    await erase(cold, BY_KEY)
    await settle(cold)
    assert KEY not in stored_keys(cold)
    with pytest.raises(UnavailableError, match="moved or erased meanwhile"):
        await compactor.commit([move])
    assert await faults(cold) == []


async def test_a_proof_is_published_only_if_readers_accept_its_size(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = DictColdStore()
    folder = await archived(world, cold)
    eraser = ArchiveEraser(cold, BY_KEY, wall_ms=lambda: LATE_MS)
    groups = eraser.groups(await scan_manifests(cold), folder)
    written = [await eraser.write(group, 5) for group in groups]
    moves = [one for one in written if one is not None]
    before = dict(cold.objects)
    with monkeypatch.context() as patch:
        patch.setattr(publish, "MANIFEST_BYTES_MAX", 2000)
        with pytest.raises(InvalidArgumentError, match="erase fewer records"):
            await eraser.commit(moves, ERASURE)
        assert cold.objects == before
    # As large as that of an erasure of 50,000 record sets.
    await eraser.commit(moves, Erasure("operator", "x" * (5 << 20)))
    assert await faults(cold) == []
    assert KEY not in {one.key for one in await read_records(world)}


def test_relocations_have_limited_numbers_of_segments_and_erased_sets() -> None:
    sets = tuple(ErasedSet(entry, 0, 1, 5, ((0, 1),)) for entry in range(4))
    moves = [SegmentMove((), (MovedSegment(lssn, "", (), sets),)) for lssn in range(5)]
    assert [len(one) for one in publish.batches(moves, 8)] == [2, 2, 1]
    assert [len(one) for one in publish.batches(moves, 3)] == [1] * 5, "a move is never divided"
    assert [len(one) for one in publish.batches(moves)] == [5]
    assert [len(one) for one in publish.batches(moves * 401)] == [1000, 1000, 5]


async def test_counts_of_positions_include_erased_records(world: LogWorld) -> None:
    cold = DictColdStore()
    await archived(world, cold)
    dlsns = [one.dlsn.in_stream("") for one in await read_records(world)]
    expected = StreamIndex(cold, "test", "s")
    await expected.refresh()
    pairs = [(a, b) for a in dlsns[::9] for b in dlsns[4::17]]
    before = [await expected.count(*pair) for pair in pairs]
    boundaries = [await expected.boundary(a, dlsns[-1], 7) for a in dlsns[::9]]
    await erase(cold, BY_KEY)
    index = StreamIndex(cold, "test", "s")
    await index.refresh()
    assert [await index.count(*pair) for pair in pairs] == before
    assert [await index.boundary(a, dlsns[-1], 7) for a in dlsns[::9]] == boundaries


async def test_a_proof_that_is_changed_is_damage(world: LogWorld) -> None:
    cold = DictColdStore()
    folder = await archived(world, cold)
    await erase(cold, BY_KEY)
    key = folder.relocation(1)
    sound = cold.objects[key]
    for at in range(0, len(sound), max(1, len(sound) // 60)):
        damaged = bytearray(sound)
        damaged[at] ^= 0x20
        cold.objects[key] = bytes(damaged)
        assert await faults(cold), at
    cold.objects[key] = sound
    assert await faults(cold) == []


def test_a_selection_of_everything_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="nothing is selected"):
        RecordSelection()
    with pytest.raises(InvalidArgumentError, match="empty"):
        RecordSelection(created_from_ms=2, created_before_ms=2)

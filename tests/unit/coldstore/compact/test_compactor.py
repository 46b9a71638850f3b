"""Compacted archives have the same records at every step, wherever a compaction is killed."""

from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rhumbline.coldstore.archive.archive_folder import ArchiveFolder, MergedName
from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.archive.manifest import Manifest
from rhumbline.coldstore.compact.compactor import ArchiveCompactor
from rhumbline.coldstore.compact.publish import SegmentMove
from rhumbline.coldstore.proof.verify_run import verify_all
from rhumbline.core.protocol.errors import CorruptionError, NoSuchObjectError, UnavailableError
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

SEGMENTS, RECORDS = 5, 30


class Night:
    """A compaction each time that ``run`` is called."""

    def __init__(self, cold: CrashingStore) -> None:
        self.now_ms = 10_000_000
        self.cold = cold

    async def run(self) -> None:
        await compact_once(self.cold, self.now_ms)

    async def finish(self) -> None:
        """Run nights until nothing is left to do."""
        for _ in range(4):
            await self.run()
            self.now_ms += 2 * GRACE_MS


def folder_rows(cold: DictColdStore) -> list[tuple[int, int, int]]:
    """Return the positions of the records that a tool finds which opens the stream's folder."""
    found: list[tuple[int, int, int]] = []
    for key, data in cold.objects.items():
        if key.endswith(".parquet") and "/_" not in key:
            table = pq.read_table(pa.BufferReader(data), columns=["lssn", "entry_id", "slot"])
            found += zip(*(table.column(n).to_pylist() for n in range(3)), strict=True)
    return sorted(found)


async def archived(
    world: LogWorld, cold: DictColdStore, segments: int = SEGMENTS
) -> list[Manifest]:
    await fill_stream(world, segments, RECORDS)
    manifests = await archive_segments(world, cold)
    await world.namespace.maintain("s")
    assert world.ledgers.ledgers == {}, "readers read the archive"
    return manifests


async def faults(cold: DictColdStore) -> list[str]:
    listing = await scan_manifests(cold)
    results = await verify_all(cold, listing)
    return [*map(str, listing.faults.values()), *(text for one in results for text in one.faults)]


async def test_records_are_the_same_at_each_step_of_a_compaction(world: LogWorld) -> None:
    cold = CrashingStore()
    manifests = await archived(world, cold)
    truth, rows = comparable(await read_records(world)), folder_rows(cold)
    night = Night(cold)
    kinds = []
    for _ in range(4):
        await night.run()
        night.now_ms += 2 * GRACE_MS
        assert comparable(await read_records(world)) == truth
        assert folder_rows(cold) == rows
        assert await faults(cold) == []
        found = (MergedName.parse(key.rpartition("/")[2]) for key in cold.objects)
        kinds.append(sorted(one.is_staged for one in found if one is not None))
    assert kinds == [[True], [False, True], [False], [False]]
    listing = await scan_manifests(cold)
    assert [one.link for one in listing.manifests] == [one.link for one in manifests]
    assert len({one.parts[0].name for one in listing.manifests}) == 1
    assert sum(key.endswith(".parquet") for key in cold.objects) == 1


async def test_a_compaction_that_is_killed_at_any_change_is_finished_by_the_next(
    world: LogWorld,
) -> None:
    original = CrashingStore()
    await archived(world, original)
    truth, rows = comparable(await read_records(world)), folder_rows(original)
    counting = CrashingStore()
    counting.objects = dict(original.objects)
    await Night(counting).finish()
    assert counting.changes >= 9, "files, relocations and deletions"
    for step in range(1, counting.changes + 1):
        cold = CrashingStore()
        cold.objects, cold.crash_at = dict(original.objects), step
        world.archives = ColdArchives(cold, "test")
        world.namespace = world.open_namespace()
        night = Night(cold)
        with pytest.raises(UnavailableError, match="killed"):
            await night.finish()
        assert comparable(await read_records(world)) == truth, step
        assert await faults(cold) == [], step
        left = folder_rows(cold)
        assert sorted(set(left)) == rows, f"a tool misses records after step {step}"
        twice = any("/merged-" in key for key in cold.objects) and any(
            "/segment-" in key for key in cold.objects
        )
        assert twice or left == rows, step
        cold.crash_at = None
        night.now_ms += 48 * 3_600_000
        await night.finish()
        assert comparable(await read_records(world)) == truth, step
        assert folder_rows(cold) == rows, step
        assert sum(key.endswith(".parquet") for key in cold.objects) == 1, step
        assert await faults(cold) == []


async def test_two_compactions_do_not_publish_the_same_number(world: LogWorld) -> None:
    cold = CrashingStore()
    await archived(world, cold)
    one = ArchiveCompactor(cold, CONFIG, wall_ms=lambda: 1)
    other = ArchiveCompactor(cold, CONFIG, wall_ms=lambda: 2)
    listing = await scan_manifests(cold)
    (folder,) = listing.folders
    (group,) = one.groups(listing, folder)
    moves = [SegmentMove(group, await compactor.write(group, 7)) for compactor in (one, other)]
    await one.commit(moves[:1])
    chain = [key for key in cold.objects if not key.startswith(".index")]
    cold.hides_relocations = True  # a stale listing
    with pytest.raises(UnavailableError, match="another job"):
        await other.commit(moves[1:])
    assert [key for key in cold.objects if not key.startswith(".index")] == chain


async def test_a_file_that_was_deleted_before_it_was_published_is_not_published(
    world: LogWorld,
) -> None:
    """A job that takes more than a day finds its staged files deleted by another one."""
    cold = CrashingStore()
    manifests = await archived(world, cold)
    compactor = ArchiveCompactor(cold, CONFIG, wall_ms=lambda: 1)
    (group,) = compactor.groups(await scan_manifests(cold), manifests[0].folder)
    move = SegmentMove(group, await compactor.write(group, 7))
    later = ArchiveCompactor(cold, CONFIG, wall_ms=lambda: 48 * 3_600_000)
    assert (await later.settle(await scan_manifests(cold), manifests[0].folder)).deleted == 1
    with pytest.raises(NoSuchObjectError):
        await compactor.commit([move])
    assert await faults(cold) == []
    assert (await scan_manifests(cold)).manifests == tuple(manifests)


async def test_merged_segments_expire_together(world: LogWorld) -> None:
    cold = CrashingStore()
    manifests = await archived(world, cold)
    await compact_completely(cold)
    archives = ColdArchives(cold, "test")
    identity = manifests[0].stream_identity
    assert await archives.expire("s", identity, below=3, completed_by_ms=2**60) == []
    assert await archives.expire("s", identity, below=6, completed_by_ms=2**60) == [1, 2, 3, 4, 5]
    assert not [key for key in cold.objects if key.endswith(".parquet")]


async def test_damage_is_found_and_nothing_is_deleted_then(world: LogWorld) -> None:
    cold = CrashingStore()
    manifests = await archived(world, cold)
    night = Night(cold)
    await night.run()
    night.now_ms += 2 * GRACE_MS
    sound = dict(cold.objects)
    folder = ArchiveFolder("test", "s", manifests[0].stream_id)
    (staged,) = [key for key in sound if key.startswith(folder.staged)]
    for key in (staged, folder.relocation(1)):
        for at in range(0, len(sound[key]), max(1, len(sound[key]) // 40)):
            cold.objects = dict(sound)
            damaged = bytearray(sound[key])
            damaged[at] ^= 0x20
            cold.objects[key] = bytes(damaged)
            assert await faults(cold), (key, at)
            with pytest.raises(CorruptionError) if key == staged else nullcontext():
                await night.run()
            assert not [key for key in sound if key not in cold.objects]

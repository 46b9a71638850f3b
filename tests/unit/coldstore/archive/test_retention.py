"""Retention deletes whole segments from the head, and what it deletes is not taken for damage."""

from dataclasses import replace

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.retention import RetentionLimits, first_kept, retain
from rhumbline.coldstore.compact.compactor import ArchiveCompactor
from rhumbline.coldstore.compact.publish import SegmentMove
from rhumbline.coldstore.erase.selection import RecordSelection
from rhumbline.coldstore.proof.chain_tip import read_tip
from rhumbline.coldstore.proof.verify_run import verify_all
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)
from rhumbline.tests.unit.coldstore.compact.compaction_world import CONFIG, compact_completely
from rhumbline.tests.unit.coldstore.erase.test_eraser import BY_KEY, LATE_MS, erase, settle

ALL = RetentionLimits(payload_bytes_max=0)


async def test_limits_choose_segments_from_the_head(world: LogWorld) -> None:
    await fill_stream(world, 4)
    manifests = await archive_segments(world, DictColdStore())
    sizes = [one.payload_bytes for one in manifests]
    assert first_kept(manifests, RetentionLimits()) == 1
    assert first_kept(manifests, RetentionLimits(payload_bytes_max=sum(sizes))) == 1
    assert first_kept(manifests, RetentionLimits(payload_bytes_max=sum(sizes) - 1)) == 2
    assert first_kept(manifests, ALL) == 4
    for kept in range(1, 4):
        limits = RetentionLimits(completed_after_ms=manifests[kept - 1].completed_ms)
        expected = next((m.lssn for m in manifests if m.completed_ms > limits_ms(limits)), 4)
        assert first_kept(manifests, limits) == expected


def limits_ms(limits: RetentionLimits) -> int:
    assert limits.completed_after_ms is not None
    return limits.completed_after_ms


async def test_a_deleted_segment_is_told_apart_from_a_missing_one(world: LogWorld) -> None:
    cold = DictColdStore()
    await fill_stream(world, 4)
    manifests = await archive_segments(world, cold)
    folder = manifests[0].folder
    before = await scan_manifests(cold)
    assert await retain(cold, before, folder, ALL, below=3) == [1, 2]
    listing = await scan_manifests(cold)
    assert [one.lssn for one in listing.manifests] == [3, 4]
    assert listing.faults == {}
    assert not any(result.faults for result in await verify_all(cold, listing))
    tip = await read_tip(cold, folder)
    assert tip is not None
    assert tip.covered == range(3, 5)
    del cold.objects[manifests[2].key]
    damaged = await scan_manifests(cold)
    assert list(damaged.faults) == [manifests[2].key]
    assert await retain(cold, damaged, folder, ALL) == [], "a damaged archive is not changed"


@pytest.mark.parametrize("failing", range(8))
async def test_a_retention_that_is_killed_is_finished_by_the_next(
    failing: int, world: LogWorld
) -> None:
    class Killed(Exception):
        pass

    class Store(DictColdStore):
        left = 10**9

        async def delete(self, key: str) -> None:
            self.left -= 1
            if self.left < 0:
                raise Killed
            await super().delete(key)

    cold = Store()
    await fill_stream(world, 4)
    (folder,) = {one.folder for one in await archive_segments(world, cold)}
    cold.left = failing
    try:
        await retain(cold, await scan_manifests(cold), folder, ALL)
    except Killed:
        listing = await scan_manifests(cold)
        assert listing.faults == {}
        assert not any(result.faults for result in await verify_all(cold, listing))
    cold.left = 10**9
    await retain(cold, await scan_manifests(cold), folder, ALL)
    listing = await scan_manifests(cold)
    assert [one.lssn for one in listing.manifests] == [4]
    assert listing.faults == {}


async def test_merged_segments_are_deleted_together(world: LogWorld) -> None:
    cold = DictColdStore()
    await fill_stream(world, 4)
    (folder,) = {one.folder for one in await archive_segments(world, cold)}
    await compact_completely(cold)
    assert await retain(cold, await scan_manifests(cold), folder, ALL) == []
    assert len((await scan_manifests(cold)).manifests) == 4


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
async def test_segments_are_judged_by_their_own_times_after_compaction_and_erasure(
    world: LogWorld, kept: int
) -> None:
    """The jobs run much later than the records were written (rule ARC-74)."""
    cold = DictColdStore()
    for number in range(4):
        writer = await world.writer("s", StreamPolicy(roll_bytes=1 << 40, hot_retention_ms=0))
        writer.append(b"%d" % number, 1 + number, key=b"k%d" % number)
        await writer.close()
        world.clock.now_ms += 1000
    manifests = await archive_segments(world, cold)
    limits = RetentionLimits(completed_after_ms=manifests[kept - 1].completed_ms - 1)
    await erase(cold, RecordSelection(frozenset({b"k2"})), LATE_MS)
    erased = dict(cold.objects)
    await settle(cold, LATE_MS)
    for objects in (cold.objects, erased):
        cold.objects = objects
        listing = await scan_manifests(cold)
        times = [(one.created_ms, one.completed_ms) for one in listing.manifests]
        assert times == [(one.created_ms, one.completed_ms) for one in manifests]
        assert first_kept(listing.manifests, limits) == kept
    assert await retain(cold, listing, manifests[0].folder, limits) == [*range(1, kept)]


async def test_a_segment_that_is_young_is_kept_whatever_follows_it(world: LogWorld) -> None:
    """The clock of the writer that completed segment 2 was slow."""
    await fill_stream(world, 4)
    manifests = await archive_segments(world, DictColdStore())
    times = (10, 90, 20, 95)
    skewed = [replace(one, completed_ms=ms) for one, ms in zip(manifests, times, strict=True)]
    assert first_kept(skewed, RetentionLimits(completed_after_ms=50)) == 2
    assert first_kept(skewed, RetentionLimits(completed_after_ms=90)) == 4


async def test_erased_payloads_do_not_count(world: LogWorld) -> None:
    cold = DictColdStore()
    await fill_stream(world, 4)
    manifests = await archive_segments(world, cold)
    sizes = [one.payload_bytes for one in manifests]
    await erase(cold, BY_KEY)
    left = (await scan_manifests(cold)).manifests
    assert first_kept(left, RetentionLimits(payload_bytes_max=sum(sizes) - 1)) == 1


async def test_a_compaction_does_not_bring_deleted_segments_back(world: LogWorld) -> None:
    cold = DictColdStore()
    await fill_stream(world, 4)
    manifests = await archive_segments(world, cold)
    folder = manifests[0].folder
    listing = await scan_manifests(cold)
    compactor = ArchiveCompactor(cold, CONFIG, wall_ms=lambda: LATE_MS)
    (group,) = compactor.groups(listing, folder)
    before = dict(cold.objects)
    move = SegmentMove(group, await compactor.write(group, 7))
    staged = cold.objects.keys() - before.keys()
    files = {key: cold.objects.pop(key) for key in staged}  # listed before they were written
    assert await retain(cold, listing, folder, ALL, below=3) == [1, 2]
    cold.objects.update(files)
    with pytest.raises(UnavailableError, match="retention has deleted the segment meanwhile"):
        await compactor.commit([move])
    assert not [key for key in cold.objects if "/moved/" in key]

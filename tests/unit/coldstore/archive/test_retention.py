"""Retention deletes whole segments from the head, and what it deletes is not taken for damage."""

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.retention import RetentionLimits, first_kept, retain
from rhumbline.coldstore.proof.chain_tip import read_tip
from rhumbline.coldstore.proof.verify_run import verify_all
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)
from rhumbline.tests.unit.coldstore.compact.compaction_world import compact_completely

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

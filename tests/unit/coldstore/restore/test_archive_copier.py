"""Copies verify, miss no erasure silently, and one bad stream stops no other (rule ARC-72)."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from rhumbline.coldstore.archive.archive_folder import ArchiveFolder
from rhumbline.coldstore.archive.catalog import read_manifest, scan_manifests
from rhumbline.coldstore.archive.retention import RetentionLimits, retain
from rhumbline.coldstore.erase.proofs import stored_proofs
from rhumbline.coldstore.proof.chain_tip import read_tip
from rhumbline.coldstore.proof.verify_run import verify_all
from rhumbline.coldstore.restore.archive_copier import ArchiveCopier, PlannedCopies
from rhumbline.coldstore.restore.copy_segment import copy_parts
from rhumbline.core.protocol.errors import RhumblineError, UnavailableError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)
from rhumbline.tests.unit.coldstore.compact.compaction_world import (
    GRACE_MS,
    CrashingStore,
    compact_once,
)
from rhumbline.tests.unit.coldstore.erase.test_eraser import (
    BY_KEY,
    KEY,
    LATE_MS,
    erase,
    faults,
    stored_keys,
)


class HookedStore(CrashingStore):
    """A cold store that calls ``before_put`` once, before the first manifest is put."""

    before_put: Callable[[], Awaitable[object]] | None = None

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        hook = self.before_put
        if hook is not None and "/manifest-" in key:
            self.before_put = None
            await hook()
        return await super().put_if_absent(key, data)


class Copy:
    """A copy from one store to another, as the job makes it."""

    def __init__(self, source: DictColdStore, target: DictColdStore) -> None:
        self.source, self.target = source, target
        self.now_ms = LATE_MS

    @property
    def copier(self) -> ArchiveCopier:
        return ArchiveCopier(self.source, self.target, wall_ms=lambda: self.now_ms)

    async def plan(self) -> PlannedCopies:
        return await self.copier.plan()

    async def finish(self, planned: PlannedCopies) -> dict[str, str]:
        found, failed = dict(planned.faults), {}
        for plan in planned.plans.values():
            for manifest in (*plan.segments, *plan.moved):
                try:
                    await copy_parts(self.source, self.target, manifest)
                except UnavailableError:
                    raise
                except RhumblineError as error:
                    failed[manifest.key] = str(error)
        for folder, plan in planned.plans.items():
            found |= (await self.copier.publish(folder, plan, failed)).faults
        return found

    async def run(self) -> dict[str, str]:
        return await self.finish(await self.plan())

    async def check(self) -> None:
        """Check that the target verifies, with the segments and the proofs of the source."""
        assert await faults(self.target) == []
        ours, theirs = [await scan_manifests(one) for one in (self.source, self.target)]
        assert ours.manifests == theirs.manifests
        proofs = [(await stored_proofs(one))[0] for one in (self.source, self.target)]
        assert proofs[0] == proofs[1]


async def archived(
    world: LogWorld, upto: int | None = None, segments: int = 4
) -> tuple[CrashingStore, ArchiveFolder]:
    cold = CrashingStore()
    await fill_stream(world, segments)
    manifests = await archive_segments(world, cold, upto=upto)
    return cold, manifests[0].folder


async def chain_faults(cold: DictColdStore) -> list[str]:
    return list((await scan_manifests(cold)).faults)


async def test_an_erasure_after_the_plan_is_reported_before_anything_is_published(
    world: LogWorld,
) -> None:
    source, folder = await archived(world)
    copy = Copy(source, CrashingStore())
    planned = await copy.plan()
    await erase(source, BY_KEY)
    found = await copy.finish(planned)
    assert "records were erased in memory: during the copy: repeat it" in found[folder.chain]
    assert (await scan_manifests(copy.target)).manifests == ()
    assert await copy.run() == {}
    await copy.check()
    copy.now_ms += 2 * 3_600_000
    await compact_once(source, LATE_MS + 2 * GRACE_MS)
    for _ in range(2):
        assert await copy.run() == {}
        copy.now_ms += 2 * 3_600_000
    assert KEY not in stored_keys(copy.target), "files that the first attempt copied are deleted"
    await copy.check()


async def test_an_erasure_while_a_copy_is_published_is_reported(world: LogWorld) -> None:
    source, folder = await archived(world)
    target = HookedStore()
    target.before_put = lambda: erase(source, BY_KEY)
    copy = Copy(source, target)
    assert "repeat it" in (await copy.run())[folder.chain]
    assert await copy.run() == {}
    await copy.check()


async def test_a_copy_that_began_before_an_erasure_does_not_undo_it(world: LogWorld) -> None:
    """A newer copy has the erasure; the older one ends afterwards."""
    source, folder = await archived(world)
    target = CrashingStore()
    older, newer = Copy(source, target), Copy(source, target)
    planned = await older.plan()
    await erase(source, BY_KEY)
    assert await newer.run() == {}
    assert folder.chain in await older.finish(planned)
    await newer.check()


async def test_a_compaction_during_a_copy_is_no_fault(world: LogWorld) -> None:
    source, _ = await archived(world)
    copy = Copy(source, CrashingStore())
    planned = await copy.plan()
    await compact_once(source, LATE_MS)
    assert await copy.finish(planned) == {}
    assert await chain_faults(copy.target) == []
    assert await copy.run() == {}
    await copy.check()


async def test_no_segment_is_copied_behind_a_damaged_one(world: LogWorld) -> None:
    source, folder = await archived(world)
    key = folder.manifest(2)
    sound = source.objects[key]
    source.objects[key] = sound[:-1]
    copy = Copy(source, CrashingStore())
    found = await copy.run()
    assert sorted(found) == [key, folder.manifest(3)]
    assert "segment 2 is neither in the target nor" in found[folder.manifest(3)]
    assert await chain_faults(copy.target) == [], "the chain of the copy ends with segment 1"
    source.objects[key] = sound
    assert await copy.run() == {}
    await copy.check()


async def test_segments_that_retention_deleted_before_they_were_copied_are_reported(
    world: LogWorld,
) -> None:
    source, folder = await archived(world, upto=3)
    copy = Copy(source, CrashingStore())
    assert await copy.run() == {}
    await archive_segments(world, source)
    await retain(source, await scan_manifests(source), folder, RetentionLimits(2**60))
    assert [one.lssn for one in (await scan_manifests(source)).manifests] == [4]
    found = await copy.run()
    assert "copy the stream to another store" in found[folder.manifest(4)]
    assert await chain_faults(copy.target) == []
    assert len((await scan_manifests(copy.target)).manifests) == 2, "what was copied stays readable"
    fresh = Copy(source, CrashingStore())
    assert await fresh.run() == {}
    await fresh.check()


async def test_segments_that_retention_deleted_in_the_target_are_not_copied_again(
    world: LogWorld,
) -> None:
    source, folder = await archived(world, upto=4)
    copy = Copy(source, CrashingStore())
    assert await copy.run() == {}
    await retain(copy.target, await scan_manifests(copy.target), folder, RetentionLimits(2**60))
    left = [key for key in copy.target.objects if key.endswith(".parquet")]
    await archive_segments(world, source)
    assert await copy.run() == {}
    assert [one.lssn for one in (await scan_manifests(copy.target)).manifests] == [3, 4]
    assert await read_manifest(copy.target, folder, 1) is None
    assert len([key for key in copy.target.objects if key.endswith(".parquet")]) == len(left) + 1
    assert await faults(copy.target) == []


async def test_retention_in_the_source_after_a_copy_was_interrupted_leaves_no_hole(
    world: LogWorld,
) -> None:
    source, folder = await archived(world)
    target = HookedStore()

    async def kill() -> None:
        target.crash_at = 0

    target.before_put = kill
    copy = Copy(source, target)
    assert "killed" in (await copy.run())[folder.chain]
    target.crash_at = None
    tip = await read_tip(target, folder)
    assert tip is not None
    assert not tip.covered
    await retain(source, await scan_manifests(source), folder, RetentionLimits(2**60))
    assert await copy.run() == {}
    assert await chain_faults(copy.target) == []
    await copy.check()


async def test_a_damaged_archive_in_the_target_stops_no_other_stream(world: LogWorld) -> None:
    source, folder = await archived(world)
    writer = await world.writer("t")
    writer.append(b"t", 1)
    await writer.close()
    copy = Copy(source, CrashingStore())
    assert await copy.run() == {}
    del copy.target.objects[folder.manifest(2)]
    (other,) = await archive_segments(world, source, "t")
    found = await copy.run()
    (text,) = found.values()
    assert text.startswith(f"memory:: {folder.manifest(2)}: the manifest is missing")
    assert await read_manifest(copy.target, other.folder, 1) is not None


async def test_an_error_while_a_stream_is_published_stops_no_other_stream(world: LogWorld) -> None:
    source, folder = await archived(world)
    writer = await world.writer("t")
    writer.append(b"t", 1)
    await writer.close()
    (other,) = await archive_segments(world, source, "t")
    await compact_once(source, LATE_MS)
    target = HookedStore()
    copy = Copy(source, target)

    async def conflict() -> None:
        target.objects[folder.relocation(1)] = b"another relocation"

    target.before_put = conflict
    found = await copy.run()
    assert "published by another job" in found[folder.chain]
    assert await read_manifest(target, other.folder, 1) is not None


async def test_a_copy_that_is_killed_at_any_change_is_finished_by_the_next(
    world: LogWorld,
) -> None:
    source, _ = await archived(world)
    copy = Copy(source, CrashingStore())
    await copy.run()
    before = dict(copy.target.objects)
    await compact_once(source, LATE_MS)
    await erase(source, BY_KEY, LATE_MS + 1)
    for objects in ({}, before):
        counting = CrashingStore()
        counting.objects = dict(objects)
        assert await Copy(source, counting).run() == {}
        for step in range(1, counting.changes + 1):
            target = CrashingStore()
            target.objects, target.crash_at = dict(objects), step
            copy = Copy(source, target)
            with suppress(UnavailableError):  # raised while files are copied
                assert "killed" in str(await copy.run())
            assert await chain_faults(target) == [], step
            results = await verify_all(target, await scan_manifests(target))
            assert [text for one in results for text in one.faults] == [], step
            target.crash_at = None
            assert await copy.run() == {}, step
            await copy.check()

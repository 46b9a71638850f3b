"""A lost tip is written again if the cluster proves that no segment is missing (rule ARC-26)."""

import asyncio
from dataclasses import replace

import pytest

from rhumbline.coldstore.archive.archive_folder import ArchiveFolder, TipName
from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.segment_archiver import SegmentArchiver
from rhumbline.coldstore.erase.selection import RecordSelection
from rhumbline.coldstore.index.indexer import Indexer
from rhumbline.coldstore.proof.chain_tip import listed_tips, raise_first, read_tip
from rhumbline.coldstore.proof.reconcile import reconcile
from rhumbline.coldstore.proof.repair_tip import repair_tip
from rhumbline.coldstore.proof.sealed_json import decode_sealed, encode_sealed
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.protocol.errors import CorruptionError, UnavailableError
from rhumbline.core.protocol.segments import Residence
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)
from rhumbline.tests.unit.coldstore.compact.compaction_world import CrashingStore
from rhumbline.tests.unit.coldstore.erase.test_eraser import BY_KEY, archived, erase, settle


@pytest.mark.parametrize("damage", ["lost", "damaged"])
async def test_a_tip_is_written_again_and_the_archive_continues(
    world: LogWorld, damage: str
) -> None:
    cold = DictColdStore()
    await fill_stream(world)
    manifests = await archive_segments(world, cold, upto=4)
    folder = manifests[0].folder
    before = await read_tip(cold, folder)
    (name,) = await listed_tips(cold, folder)
    data = cold.objects.pop(folder.tip(name))
    if damage == "damaged":
        cold.objects[folder.tip(name)] = data[:-1]
    streams = StreamStore(world.store, "test")
    archiver = SegmentArchiver(world.runtime, cold, world.ledgers.client(), streams)
    with pytest.raises(CorruptionError):
        await archiver.archive("s", 4)
    (found,) = await reconcile(cold, world.namespace, repairs_tips=True)
    assert (found.has_new_tip, found.faults) == (True, [])
    assert await read_tip(cold, folder) == before
    await archiver.archive("s", 4)
    assert not (await scan_manifests(cold)).faults


@pytest.mark.parametrize("lssn", [1, 2, 4])
async def test_a_tip_is_not_written_over_a_hole(world: LogWorld, lssn: int) -> None:
    cold = DictColdStore()
    await fill_stream(world)
    manifests = await archive_segments(world, cold)
    folder = manifests[0].folder
    for name in await listed_tips(cold, folder):
        del cold.objects[folder.tip(name)]
    del cold.objects[manifests[lssn - 1].key]
    (found,) = await reconcile(cold, world.namespace, repairs_tips=True)
    assert not found.has_new_tip
    assert len(found.faults) == 3, "the tip, the hole, and why nothing was repaired"
    assert await read_tip(cold, folder) is None


async def test_a_tip_is_written_again_with_its_erasure_or_not_at_all(world: LogWorld) -> None:
    cold = DictColdStore()
    folder = await archived(world, cold)
    await erase(cold, BY_KEY)
    before = await read_tip(cold, folder)
    assert before is not None
    del cold.objects[folder.tip(before.name)]
    (found,) = await reconcile(cold, world.namespace, repairs_tips=True)
    assert (found.has_new_tip, found.faults) == (True, [])
    assert await read_tip(cold, folder) == before
    del cold.objects[folder.tip(before.name)], cold.objects[folder.relocation(1)]
    (found,) = await reconcile(cold, world.namespace, repairs_tips=True)
    assert not found.has_new_tip
    assert "an erasure may be missing" in found.faults[-1]


async def lose_tip(cold: DictColdStore, folder: ArchiveFolder) -> tuple[TipName, bytes]:
    (name,) = await listed_tips(cold, folder)
    return name, cold.objects.pop(folder.tip(name))


async def refused(world: LogWorld, cold: DictColdStore) -> str:
    """Return why the tip of the only archive is not repaired."""
    before = dict(cold.objects)
    (found,) = await reconcile(cold, world.namespace, repairs_tips=True)
    assert not found.has_new_tip
    assert cold.objects == before, "nothing was changed"
    return found.faults[-1]


async def test_an_erasure_of_which_only_a_later_relocation_remains_is_missing(
    world: LogWorld,
) -> None:
    """Its author and its reason are lost, although no record comes back."""
    cold = DictColdStore()
    folder = await archived(world, cold)
    await erase(cold, BY_KEY)
    await settle(cold)
    for key in [key for key in cold.objects if key.startswith(".index")]:
        del cold.objects[key]
    await lose_tip(cold, folder)
    assert folder.relocation(2) in cold.objects, "it names the merged file"
    del cold.objects[folder.relocation(1)]
    assert "no erasure proves which records of segment 2 were erased" in await refused(world, cold)


@pytest.mark.parametrize("evidence", ["name of a damaged tip", "note", "index"])
def test_an_erasure_that_left_no_record_is_missing_if_anything_names_it(
    world: LogWorld, evidence: str
) -> None:
    """There is no file that suggests it, and the old files still hold the records."""
    cold = DictColdStore()
    folder = world.run(archived(world, cold))
    world.run(erase(cold, RecordSelection(created_before_ms=2**50)))
    if evidence == "index":
        asyncio.run(Indexer(cold, "test").run_once())
    name, data = world.run(lose_tip(cold, folder))
    assert name.erasure == 1
    if evidence != "note":
        for key in [key for key in cold.objects if "/changed/" in key or "/noted/" in key]:
            del cold.objects[key]
    if evidence == "name of a damaged tip":
        cold.objects[folder.tip(name)] = data[:-1]
    relocation = cold.objects.pop(folder.relocation(1))
    text = world.run(refused(world, cold))
    assert f"the erasure is missing, although the tip {name}" in text
    cold.objects[folder.relocation(1)] = relocation
    (found,) = world.run(reconcile(cold, world.namespace, repairs_tips=True))
    assert found.has_new_tip
    assert cold.objects[folder.tip(name)] == data


async def test_a_segment_that_only_the_former_tip_names_is_missing_unless_bookies_have_it(
    world: LogWorld,
) -> None:
    cold = DictColdStore()
    await fill_stream(world)
    manifests = await archive_segments(world, cold)
    folder = manifests[0].folder
    name, data = await lose_tip(cold, folder)
    cold.objects[folder.tip(name)] = data[:-1]
    del cold.objects[manifests[-1].key]
    stream = await world.namespace.describe("s")
    hot = [replace(one, residence=Residence.HOT, archive_link="") for one in stream.segments]
    others = replace(stream, segments=stream.segments[:-1])
    with pytest.raises(CorruptionError, match="missing, although the tip"):
        await repair_tip(cold, folder, manifests[:-1], others)
    still_hot = replace(stream, segments=(*stream.segments[:-1], hot[-1]))
    tip = await repair_tip(cold, folder, manifests[:-1], still_hot)
    assert tip.last_lssn == manifests[-2].lssn
    assert await listed_tips(cold, folder) == [tip.name]


async def test_a_repaired_tip_does_not_cover_what_retention_began_to_delete(
    world: LogWorld,
) -> None:
    cold = DictColdStore()
    await fill_stream(world)
    manifests = await archive_segments(world, cold)
    folder = manifests[0].folder
    tip = await read_tip(cold, folder)
    assert tip is not None
    raised = await raise_first(cold, tip, 3)
    cold.objects[folder.tip(raised.name)] = b"damaged"
    (found,) = await reconcile(cold, world.namespace, repairs_tips=True)
    assert found.has_new_tip
    assert await read_tip(cold, folder) == raised


async def test_a_tip_of_another_format_is_kept(world: LogWorld) -> None:
    cold = DictColdStore()
    await fill_stream(world)
    manifests = await archive_segments(world, cold)
    folder = manifests[0].folder
    name, data = await lose_tip(cold, folder)
    fields = decode_sealed("archive tip", 1, data)
    cold.objects[folder.tip(name)] = encode_sealed(2, fields)
    assert "format" in await refused(world, cold)


async def test_old_metadata_proves_nothing(world: LogWorld) -> None:
    cold = DictColdStore()
    await fill_stream(world)
    manifests = await archive_segments(world, cold)
    await lose_tip(cold, manifests[0].folder)
    stream = replace(await world.namespace.describe("s"), metadata_age_ms=7)
    with pytest.raises(UnavailableError, match="7 ms old"):
        await repair_tip(cold, manifests[0].folder, manifests, stream)
    assert await listed_tips(cold, manifests[0].folder) == []


async def test_a_lost_tip_is_not_replaced_by_an_archiver_that_remembers_an_older_one(
    world: LogWorld,
) -> None:
    """The erasure after it would be forgotten."""
    cold = DictColdStore()
    await fill_stream(world)
    streams = StreamStore(world.store, "test")
    archiver = SegmentArchiver(world.runtime, cold, world.ledgers.client(), streams)
    for lssn in (1, 2, 3):
        manifest = await archiver.archive("s", lssn)
    await erase(cold, BY_KEY)
    name, _ = await lose_tip(cold, manifest.folder)
    assert name.erasure == 1
    with pytest.raises(CorruptionError, match="the tip of the chain is missing"):
        await archiver.archive("s", 4)
    assert await listed_tips(cold, manifest.folder) == []


async def test_a_repair_that_is_killed_at_any_change_is_finished_by_the_next(
    world: LogWorld,
) -> None:
    original = CrashingStore()
    folder = await archived(world, original)
    await erase(original, BY_KEY)
    before, (name, data) = await read_tip(original, folder), await lose_tip(original, folder)
    for damaged in (name, name._replace(last_lssn=name.last_lssn - 1)):
        original.objects[folder.tip(damaged)] = data[:-1]
        counting = CrashingStore()
        counting.objects = dict(original.objects)
        await reconcile(counting, world.namespace, repairs_tips=True)
        for step in range(1, counting.changes + 1):
            cold = CrashingStore()
            cold.objects, cold.crash_at = dict(original.objects), step
            await reconcile(cold, world.namespace, repairs_tips=True)
            cold.crash_at = None
            await reconcile(cold, world.namespace, repairs_tips=True)
            assert await read_tip(cold, folder) == before, step
            assert not (await scan_manifests(cold)).faults, step
        del original.objects[folder.tip(damaged)]

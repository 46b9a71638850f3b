"""A lost tip is written again if the cluster proves that no segment is missing (rule ARC-26)."""

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.segment_archiver import SegmentArchiver
from rhumbline.coldstore.proof.chain_tip import listed_tips, read_tip
from rhumbline.coldstore.proof.reconcile import reconcile
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)
from rhumbline.tests.unit.coldstore.erase.test_eraser import BY_KEY, archived, erase


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

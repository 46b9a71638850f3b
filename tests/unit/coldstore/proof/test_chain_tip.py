"""The tip of a chain shows which segments must exist, through races and retention."""

from dataclasses import replace

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.manifest import Manifest
from rhumbline.coldstore.archive.segment_archiver import SegmentArchiver
from rhumbline.coldstore.archive.stream_index import StreamIndex
from rhumbline.coldstore.proof.chain_tip import (
    ChainTip,
    advance_tip,
    empty_tip,
    listed_tips,
    raise_first,
    read_tip,
)
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError, NoSuchStreamError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)
from rhumbline.tests.unit.coldstore.archive.test_manifest import manifest


def tip(last: int, first: int = 1, link: str = "") -> ChainTip:
    return ChainTip("ns", "s", "id", first, last, link or f"link {last}", 5)


async def archived(world: LogWorld, cold: DictColdStore) -> list[Manifest]:
    await fill_stream(world)
    return await archive_segments(world, cold)


async def test_an_archive_has_one_tip_that_names_its_ends(world: LogWorld) -> None:
    cold = DictColdStore()
    manifests = await archived(world, cold)
    found = await read_tip(cold, manifests[0].folder)
    assert found == empty_tip(manifests[0]).with_last(manifests[-1])
    assert found.covered == range(1, 5)
    assert len(await listed_tips(cold, manifests[0].folder)) == 1
    for segment, archive in zip(await world.segments("s"), manifests, strict=True):
        assert segment.archive_link == archive.link


@pytest.mark.parametrize("lssn", [1, 2, 4], ids=["first", "middle", "last"])
async def test_a_missing_manifest_is_found_without_a_cluster(world: LogWorld, lssn: int) -> None:
    """A missing manifest shortened reads silently, and verify missed the first and the last."""
    cold = DictColdStore()
    manifests = await archived(world, cold)
    key = manifests[lssn - 1].key
    del cold.objects[key]
    listing = await scan_manifests(cold, "test")
    assert list(listing.faults) == [key]
    assert len(listing.manifests) == 3
    index = StreamIndex(cold, "test", "s")
    await index.refresh()
    assert index.manifests.covered == range(1, 5)
    assert lssn not in index.manifests
    assert (index.first().lssn, index.end().lssn) == (1, 5)


async def test_an_archive_without_a_tip_or_with_a_damaged_one_is_not_read(world: LogWorld) -> None:
    cold = DictColdStore()
    folder = (await archived(world, cold))[0].folder
    (name,) = await listed_tips(cold, folder)
    data = cold.objects.pop(folder.tip(name))
    with pytest.raises(CorruptionError, match="the tip of the chain is missing"):
        await StreamIndex(cold, "test", "s").refresh()
    assert list((await scan_manifests(cold, "test")).faults) == [folder.tips]
    for at in range(0, len(data), 7):
        cold.objects[folder.tip(name)] = data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :]
        with pytest.raises((CorruptionError, ForeignDataError), match=folder.tip(name)):
            await StreamIndex(cold, "test", "s").refresh()


async def test_a_sealed_manifest_of_another_history_is_refused(world: LogWorld) -> None:
    """A manifest that was changed and sealed again does not fit into the chain."""
    cold = DictColdStore()
    manifests = await archived(world, cold)
    for one in manifests[1:]:
        cold.objects[one.key] = replace(one, completed_ms=one.completed_ms + 1).encode()
        index = StreamIndex(cold, "test", "s")
        await index.refresh()
        assert min(index.manifests.faults) in (one.lssn, one.lssn + 1)
        with pytest.raises(CorruptionError):
            index.manifests.check(min(index.manifests.faults))
        cold.objects[one.key] = one.encode()


async def test_retention_moves_the_beginning_before_it_deletes(world: LogWorld) -> None:
    cold = DictColdStore()
    manifests = await archived(world, cold)
    folder, identity = manifests[0].folder, manifests[0].stream_identity
    assert world.archives is not None
    late_ms = world.clock.now_ms
    assert await world.archives.expire("s", identity, below=3, completed_by_ms=late_ms) == [1, 2]
    found = await read_tip(cold, folder)
    assert found is not None
    assert found.covered == range(3, 5)
    assert not (await scan_manifests(cold)).faults
    await world.archives.expire("s", identity, below=9, completed_by_ms=late_ms)
    with pytest.raises(NoSuchStreamError):
        index = StreamIndex(cold, "test", "s")
        await index.refresh()
        index.first()
    writer = await world.writer("s")
    await writer.append(b"next")
    await writer.close()
    streams = StreamStore(world.store, "test")
    archiver = SegmentArchiver(world.runtime, cold, world.ledgers.client(), streams)
    await archiver.archive("s", 5)
    found = await read_tip(cold, folder)
    assert found is not None
    assert found.covered == range(5, 6), "the chain continues where it ended"
    assert not (await scan_manifests(cold)).faults


async def test_tips_of_racing_writers_are_joined() -> None:
    """Retention and an archiver write tips at the same time; neither loses the other's number."""
    cold = DictColdStore()
    await advance_tip(cold, tip(10))
    for one in (tip(11), tip(10, first=5)):
        cold.objects[one.folder.tip(one.name)] = one.encode()
    assert await read_tip(cold, tip(10).folder) == tip(11, first=5)
    assert await advance_tip(cold, tip(12)) == tip(12, first=5)
    assert await listed_tips(cold, tip(10).folder) == [tip(12, first=5).name]
    assert await raise_first(cold, tip(12, first=5), 4) == tip(12, first=5)
    assert (await raise_first(cold, tip(12, first=5), 99)).covered == range(13, 13)


async def test_two_histories_of_one_stream_are_never_joined() -> None:
    cold = DictColdStore()
    await advance_tip(cold, tip(3))
    with pytest.raises(CorruptionError, match="the tip has the link link 3, not other"):
        await advance_tip(cold, tip(3, link="other"))
    other = tip(4)
    cold.objects[other.folder.tip(other.name)] = tip(3).encode()
    with pytest.raises(CorruptionError, match="the tip is of"):
        await read_tip(cold, other.folder)


def test_the_tip_of_a_manifest_that_begins_a_chain_begins_there() -> None:
    """Segments between two archived ones may have been deleted without an archive."""
    first = empty_tip(manifest(1)).with_last(manifest(1))
    assert first.covered == range(1, 2)
    assert first.with_last(manifest(7)).covered == range(7, 8)
    assert first.with_last(manifest(2, first.last_link, 10)).covered == range(1, 3)

"""The archive and the cluster are compared without reading a record."""

from rhumbline.coldstore.archive.archive_folder import part_name
from rhumbline.coldstore.proof.chain_tip import listed_tips
from rhumbline.coldstore.proof.reconcile import reconcile
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)


async def test_holes_orphans_other_identities_and_waiting_segments_are_shown(
    world: LogWorld,
) -> None:
    """No command compared the archive with the cluster."""
    cold = DictColdStore()
    await fill_stream(world)
    old = await archive_segments(world, cold, upto=3)
    await world.namespace.delete_stream("s")
    await fill_stream(world)
    new = await archive_segments(world, cold, upto=4)
    writer = await world.writer("waiting")
    await writer.append(b"x")
    await writer.close()
    cold.objects[new[0].folder.part(part_name(9, 0, "0" * 16))] = b"left by a crash"
    waiting = (await world.segments("s"))[3]

    found = {one.folder: one for one in await reconcile(cold, world.namespace)}
    assert [one.folder.stream for one in found.values()] == ["s", "s", "waiting"]
    deleted, current = found[old[0].folder], found[new[0].folder]
    assert (deleted.is_in_cluster, deleted.archived, deleted.waiting) == (False, 2, 0)
    assert (current.is_in_cluster, current.archived, current.waiting) == (True, 3, 1)
    assert (current.oldest_waiting_ms, current.orphans) == (waiting.completed_ms, 1)
    assert not any(one.faults for one in found.values())

    del cold.objects[new[1].key]
    (hole,) = [one.faults for one in await reconcile(cold, world.namespace, ["s"]) if one.faults]
    assert hole == [f"{new[1].key}: the manifest is missing, although the chain holds segment 2"]


async def test_an_archive_that_was_exchanged_or_removed_contradicts_the_cluster(
    world: LogWorld,
) -> None:
    cold = DictColdStore()
    await fill_stream(world, segments=2)
    manifests = await archive_segments(world, cold)
    streams = world.namespace
    kept = dict(cold.objects)

    cold.objects = {}
    (gone,) = await reconcile(cold, streams)
    assert [fault.partition(":")[0] for fault in gone.faults] == [one.key for one in manifests]

    cold.objects = dict(kept)
    for name in await listed_tips(cold, manifests[0].folder):
        del cold.objects[manifests[0].folder.tip(name)]
    (tipless,) = await reconcile(cold, streams)
    assert "the tip of the chain is missing" in tipless.faults[0]

    # Another store in which a stream of the same identity has another history.
    cold.objects = dict(kept)
    segment = (await world.segments("s"))[1]
    path = f"/rhumbline/namespaces/test/streams/s/segments/{segment.lssn:019d}"
    node = await world.store.get(path)
    changed = node.data.replace(segment.archive_link.encode(), b"0" * 64)
    await world.store.put(path, changed, expect=node.version)
    (exchanged,) = await reconcile(cold, streams)
    assert [fault.partition(": ")[0] for fault in exchanged.faults] == [manifests[1].key]

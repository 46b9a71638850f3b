"""A restore takes one stream's archive, and damage to others does not hinder it."""

from dataclasses import replace

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.manifest import Manifest
from rhumbline.coldstore.restore.copy_archive import copy_archive
from rhumbline.coldstore.restore.selection import archived_names, select_manifests
from rhumbline.core.protocol.errors import CorruptionError, InvalidArgumentError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)


async def two_streams_of_one_name(world: LogWorld, cold: DictColdStore) -> list[list[Manifest]]:
    await fill_stream(world)
    old = await archive_segments(world, cold, upto=3)
    await world.namespace.delete_stream("s")
    world.clock.now_ms += 1000
    await fill_stream(world)
    return [old, await archive_segments(world, cold)]


async def test_the_newest_stream_or_the_named_one_is_selected(world: LogWorld) -> None:
    cold = DictColdStore()
    old, new = await two_streams_of_one_name(world, cold)
    listing = await scan_manifests(cold)
    assert archived_names(listing) == ["s"]
    assert select_manifests(listing, "s") == new
    assert select_manifests(listing, "s", stream_id=old[0].stream_id) == old
    assert select_manifests(listing, "s", segments=range(2, 4)) == new[1:3]
    with pytest.raises(InvalidArgumentError, match="the archive of s has 1, 2, 3, 4"):
        select_manifests(listing, "s", segments=range(3, 6))
    for stream, stream_id in (("t", ""), ("s", "0" * 12)):
        with pytest.raises(InvalidArgumentError, match=f"no archive of {stream}"):
            select_manifests(listing, stream, stream_id=stream_id)


async def test_only_damage_to_what_is_restored_is_an_error(world: LogWorld) -> None:
    cold = DictColdStore()
    old, new = await two_streams_of_one_name(world, cold)
    await copy_archive(cold, new, stream="other", identity="f" * 32)
    del cold.objects[old[0].key]
    del cold.objects[new[2].key]
    listing = await scan_manifests(cold)
    other = [replace(one, previous_link="") for one in select_manifests(listing, "other")]
    assert [one.content_digest for one in other] == [one.content_digest for one in new]
    assert select_manifests(listing, "s", segments=range(1, 3)) == new[:2]
    for segments in (None, range(2, 5)):
        with pytest.raises(CorruptionError, match=new[2].key):
            select_manifests(listing, "s", segments=segments)

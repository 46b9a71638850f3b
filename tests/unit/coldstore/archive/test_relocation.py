"""Relocations are believed only with the manifest of the segment that they move."""

from dataclasses import replace

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.manifest import Manifest
from rhumbline.coldstore.archive.relocation import (
    MovedSegment,
    Relocation,
    Relocations,
    read_relocations,
)
from rhumbline.coldstore.proof.erasure_chain import manifest_now
from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)


def relocation_of(manifest: Manifest, number: int, name: str) -> Relocation:
    part = replace(manifest.parts[0], name=name, first_group=3, group_count=2)
    segment = MovedSegment(manifest.lssn, manifest.link, (part,))
    names = (manifest.namespace, manifest.stream, manifest.stream_identity)
    return Relocation(*names, number, 7, (segment,))


async def one_archived(world: LogWorld, cold: DictColdStore) -> Manifest:
    await fill_stream(world, 1)
    (manifest,) = await archive_segments(world, cold)
    return manifest


async def test_the_newest_relocation_counts(world: LogWorld) -> None:
    cold = DictColdStore()
    manifest = await one_archived(world, cold)
    assert await manifest_now(cold, manifest) == manifest
    for number, name in ((1, "first"), (2, "second")):
        relocation = relocation_of(manifest, number, name)
        assert Relocation.decode(relocation.encode()) == relocation
        cold.objects[relocation.key] = relocation.encode()
    now = await manifest_now(cold, manifest)
    assert [part.name for part in now.parts] == ["second"]
    assert now.link == manifest.link
    assert Manifest.decode(now.encode()) == now
    (listed,) = (await scan_manifests(cold)).manifests
    assert listed == now
    found = await read_relocations(cold, manifest.folder, [1, 2, 3])
    assert found.last_number == 2


async def test_a_relocation_of_another_segment_is_refused(world: LogWorld) -> None:
    cold = DictColdStore()
    manifest = await one_archived(world, cold)
    relocation = relocation_of(manifest, 1, "other")
    other = replace(relocation.segments[0], link="0" * 64)
    with pytest.raises(CorruptionError, match="has the link"):
        Relocations([replace(relocation, segments=(other,))]).apply(manifest)
    less = replace(relocation.segments[0].parts[0], record_count=1)
    few = replace(relocation, segments=(replace(relocation.segments[0], parts=(less,)),))
    with pytest.raises(CorruptionError, match="the parts hold 1 records"):
        Relocations([few]).apply(manifest)


@pytest.mark.parametrize("change", ["byte", "number", "format", "shape"])
async def test_a_damaged_relocation_is_a_fault_that_names_it(change: str, world: LogWorld) -> None:
    cold = DictColdStore()
    manifest = await one_archived(world, cold)
    relocation = relocation_of(manifest, 1, "file")
    data = relocation.encode()
    cold.objects[relocation.key] = {
        "byte": data.replace(b'"number": 1', b'"number": 2'),
        "number": replace(relocation, number=2).encode(),
        "format": data.replace(b'"format": 1', b'"format": 9'),
        "shape": b"[1]",
    }[change]
    with pytest.raises((CorruptionError, ForeignDataError), match=relocation.key):
        await manifest_now(cold, manifest)
    listing = await scan_manifests(cold)
    assert [str(error).split(":")[0] for error in listing.faults.values()] == [relocation.key]
    assert listing.manifests == (manifest,)

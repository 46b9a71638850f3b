"""Queries that are planned by the index find each record once while compactions move records."""

import asyncio

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.manifest import Manifest
from rhumbline.coldstore.archive.part_scan import RowSelection, read_row_groups
from rhumbline.coldstore.index.check_index import IndexCheck
from rhumbline.coldstore.index.indexer import Indexer
from rhumbline.coldstore.index.namespace_index import NamespaceIndex
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import archive_segments, fill_stream
from rhumbline.tests.unit.coldstore.compact.compaction_world import (
    GRACE_MS,
    LAST_RUN_MS,
    CrashingStore,
    compact_once,
)

NAMESPACE = "test"


async def indexed(cold: CrashingStore) -> list[Manifest]:
    """Return the manifests as queries find them that read the index of the namespace."""
    reader = NamespaceIndex(cold, NAMESPACE)
    await reader.refresh_matching(lambda _: True)
    return list(reader.index("s").manifests.values())


async def rows(cold: CrashingStore) -> list[tuple[int, int, int]]:
    """Return the positions of the records that these queries find."""
    found: list[tuple[int, int, int]] = []
    columns = ["lssn", "entry_id", "slot"]
    for one in await indexed(cold):
        for part in one.parts:
            everything = RowSelection(part.first_entry_id, part.last_entry_id + 1)
            key = one.part_key(part)
            async for table in read_row_groups(cold, key, one.lssn, part, everything, columns):
                found += zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    return sorted(found)


async def faults(cold: CrashingStore) -> list[str]:
    check = IndexCheck(cold)
    await check.load()
    listing = await scan_manifests(cold)
    return [*map(str, listing.faults.values()), *map(str, (await check.faults(listing)).values())]


async def nights(cold: CrashingStore, begin_ms: int = 0) -> None:
    """Compact and write the index, until nothing is left to do."""
    for now_ms in range(0, LAST_RUN_MS + 1, 2 * GRACE_MS):
        await compact_once(cold, begin_ms + now_ms)
        await Indexer(cold, NAMESPACE).run_once()


def archive(world: LogWorld) -> CrashingStore:
    cold = CrashingStore()

    async def fill() -> None:
        await fill_stream(world, 3, 12)
        await archive_segments(world, cold)

    world.run(fill())
    return cold


def test_the_index_is_right_wherever_a_compaction_is_killed(world: LogWorld) -> None:
    original = archive(world)

    async def check() -> None:
        await Indexer(original, NAMESPACE).run_once()
        expected = await rows(original)
        counting = CrashingStore()
        counting.objects = dict(original.objects)
        await nights(counting)
        for step in range(1, counting.changes + 1):
            cold = CrashingStore()
            cold.objects, cold.crash_at = dict(original.objects), step
            with pytest.raises(UnavailableError, match="killed"):
                await nights(cold)
            assert await rows(cold) == expected, step
            assert all("or its writer crashed" in fault for fault in await faults(cold)), step
            cold.crash_at = None
            await nights(cold, 48 * 3_600_000)
            assert await rows(cold) == expected, step
            assert await faults(cold) == [], step
            assert await indexed(cold) == list((await scan_manifests(cold)).manifests), step

    asyncio.run(check())


def test_the_index_is_right_once_a_damaged_archive_is_restored(world: LogWorld) -> None:
    """The notes of the compaction were absorbed while the archive could not be used."""
    cold = archive(world)

    async def check() -> None:
        await Indexer(cold, NAMESPACE).run_once()
        await compact_once(cold, 0)
        (key,) = [key for key in cold.objects if "/moved/" in key]
        sound, cold.objects[key] = cold.objects[key], b"damaged"
        await Indexer(cold, NAMESPACE).run_once()
        cold.objects[key] = sound
        await Indexer(cold, NAMESPACE).run_once()
        assert await indexed(cold) == list((await scan_manifests(cold)).manifests)
        assert await faults(cold) == []

    asyncio.run(check())


def test_the_index_is_made_from_an_archive_that_was_compacted(world: LogWorld) -> None:
    cold = archive(world)

    async def check() -> None:
        await Indexer(cold, NAMESPACE).run_once()
        expected = await rows(cold)
        for now_ms in range(0, LAST_RUN_MS + 1, 2 * GRACE_MS):
            await compact_once(cold, now_ms)
            assert await rows(cold) == expected, "the index lacks the change"
            assert await faults(cold) == []
            await Indexer(cold, NAMESPACE).rebuild()
            assert await rows(cold) == expected
            assert await faults(cold) == []
            assert await indexed(cold) == list((await scan_manifests(cold)).manifests)
        assert len({part.name for one in await indexed(cold) for part in one.parts}) == 1

    asyncio.run(check())

"""An erasure that was lost is detected, and its records are never read again."""

import asyncio

import pytest

from rhumbline.coldstore.archive.archive_folder import ArchiveFolder
from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.stream_index import StreamIndex
from rhumbline.coldstore.compact.compactor import ArchiveCompactor
from rhumbline.coldstore.erase.selection import RecordSelection
from rhumbline.coldstore.index.check_index import IndexCheck
from rhumbline.coldstore.index.indexed_listing import indexed_listing
from rhumbline.coldstore.index.indexer import Indexer
from rhumbline.coldstore.index.namespace_index import NamespaceIndex
from rhumbline.coldstore.proof.chain_tip import advance_tip, read_tip
from rhumbline.coldstore.proof.erasure_chain import stored_relocations
from rhumbline.coldstore.restore.selection import select_manifests
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    comparable,
    read_records,
)
from rhumbline.tests.unit.coldstore.compact.compaction_world import CONFIG
from rhumbline.tests.unit.coldstore.erase.test_eraser import (
    BY_KEY,
    LATE_MS,
    archived,
    erase,
    faults,
    reopen,
    settle,
)

OTHER = RecordSelection(frozenset({b"k19", b"k22"}))
INDEX = ".index/"


async def refused(world: LogWorld, cold: DictColdStore, folder: ArchiveFolder, match: str) -> None:
    """Assert that every reader and every job refuses an archive that has lost its evidence."""
    reopen(world, cold)
    with pytest.raises(CorruptionError, match=match):
        await read_records(world)
    with pytest.raises(CorruptionError, match=match):
        await StreamIndex(cold, "test", "s").refresh()
    with pytest.raises(CorruptionError, match=match):
        await stored_relocations(cold, folder)
    assert any(match in fault for fault in await faults(cold))
    with pytest.raises(CorruptionError, match=match):
        select_manifests(await scan_manifests(cold), "s", segments=range(2, 3))
    before = dict(cold.objects)
    listing = await scan_manifests(cold)
    compactor = ArchiveCompactor(cold, CONFIG, wall_ms=lambda: LATE_MS * 9)
    assert compactor.groups(listing, folder) == []
    await compactor.settle(listing, folder)
    assert cold.objects == before, "nothing is deleted"


async def test_a_lost_erasure_is_never_undone_silently(world: LogWorld) -> None:
    cold = DictColdStore()
    folder = await archived(world, cold)
    await erase(cold, BY_KEY)
    await erase(cold, OTHER, LATE_MS + 1)
    kept = comparable(await read_records(world))
    for number in (1, 2):  # also one with newer relocations of the same segments
        lost = cold.objects.pop(folder.relocation(number))
        await refused(world, cold, folder, "the erasure is missing")
        cold.objects[folder.relocation(number)] = lost
    tip = await read_tip(cold, folder)
    assert tip is not None
    assert tip.erasure == 2
    lost = cold.objects.pop(folder.tip(tip.name))
    await refused(world, cold, folder, "tip of the chain is missing")
    cold.objects[folder.tip(tip.name)] = lost
    await settle(cold)
    for number in (1, 2):  # the old files do not exist any more, and the proof is still needed
        lost = cold.objects.pop(folder.relocation(number))
        assert any("the erasure is missing" in fault for fault in await faults(cold))
        cold.objects[folder.relocation(number)] = lost
    assert await faults(cold) == []
    reopen(world, cold)
    assert comparable(await read_records(world)) == kept


async def test_an_erasure_that_was_exchanged_is_refused(world: LogWorld) -> None:
    cold = DictColdStore()
    folder = await archived(world, cold)
    before = dict(cold.objects)
    await erase(cold, BY_KEY)
    genuine = cold.objects[folder.relocation(1)]
    other = DictColdStore()
    other.objects = before
    await erase(other, OTHER)
    assert other.objects[folder.relocation(1)] != genuine
    cold.objects |= {key: data for key, data in other.objects.items() if "/tip/" not in key}
    await refused(world, cold, folder, "is not the erasure that the chain names")


async def test_the_tip_does_not_name_an_erasure_of_a_copy_that_is_not_complete(
    world: LogWorld,
) -> None:
    """A copy stores the newest erasure first. Jobs in the target wait until it has all of them."""
    cold = DictColdStore()
    folder = await archived(world, cold)
    tips = {key: data for key, data in cold.objects.items() if "/tip/" in key}
    await erase(cold, BY_KEY)
    await erase(cold, OTHER, LATE_MS + 1)
    kept = comparable(await read_records(world))
    cold.objects = {key: data for key, data in cold.objects.items() if "/tip/" not in key} | tips
    first = cold.objects.pop(folder.relocation(1))
    before = dict(cold.objects)
    with pytest.raises(CorruptionError, match="the erasure is missing"):
        await settle(cold)
    assert cold.objects == before
    with pytest.raises(CorruptionError, match="the erasure is missing"):
        await erase(cold, RecordSelection(frozenset({b"k23"})), LATE_MS + 2)
    assert folder.relocation(3) not in cold.objects
    assert comparable(await read_records(world)) == kept
    assert await faults(cold) == []
    cold.objects[folder.relocation(1)] = first  # the copy continues
    await settle(cold)
    tip = await read_tip(cold, folder)
    assert tip is not None
    assert tip.erasure == 2
    assert comparable(await read_records(world)) == kept


async def test_the_tip_keeps_the_erasure_whoever_advances_it(world: LogWorld) -> None:
    """An archiver that has read the tip before the erasure advances it afterwards."""
    cold = DictColdStore()
    folder = await archived(world, cold)
    before = await read_tip(cold, folder)
    await erase(cold, BY_KEY)
    after = await read_tip(cold, folder)
    assert before is not None
    assert after is not None
    manifests = (await scan_manifests(cold)).manifests
    advanced = await advance_tip(cold, before.with_last(manifests[-1]))
    assert (advanced.erasure, advanced.erasure_sha256) == (1, after.erasure_sha256)
    assert await read_tip(cold, folder) == after
    assert await faults(cold) == []


async def unerased(cold: DictColdStore) -> list[int]:
    """Return the segments that still have an erased record, as indexes describe them."""
    reader = NamespaceIndex(cold, "test")
    await reader.refresh_matching(lambda _: True)
    planned = list(reader.index("s").manifests.values())
    listed = (await indexed_listing(cold, "test")).manifests
    return [one.lssn for one in (*planned, *listed) if one.lssn in (2, 4) and not one.erased]


def test_queries_that_are_planned_by_the_index_do_not_find_erased_records(world: LogWorld) -> None:
    """Not even if the notes of the erasure were lost."""
    cold = DictColdStore()
    world.run(archived(world, cold))

    async def check() -> None:
        await Indexer(cold, "test").run_once()
        indexed = {key for key in cold.objects if key.startswith(INDEX)}
        assert await unerased(cold) == [2, 4, 2, 4]
        await erase(cold, BY_KEY)
        assert await unerased(cold) == []
        notes = {key for key in cold.objects if key.startswith(INDEX)} - indexed
        for key in notes:
            if not key.endswith(f"-{1:019d}"):
                del cold.objects[key]  # all but the note of the tip
        assert await unerased(cold) == []
        for key in notes:
            cold.objects.pop(key, None)
        index = IndexCheck(cold)
        await index.load()
        assert await index.faults(await scan_manifests(cold)), "the index lacks the erasure"
        await Indexer(cold, "test").run_once()
        assert await unerased(cold) == []

    asyncio.run(check())

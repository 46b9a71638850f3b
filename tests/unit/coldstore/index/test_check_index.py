"""Verify finds what is wrong in an index."""

import hashlib
from dataclasses import replace

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.index.check_index import IndexCheck
from rhumbline.coldstore.index.index_head import IndexHead, PackEntry
from rhumbline.coldstore.index.index_keys import PackName, head_key, pack_key
from rhumbline.coldstore.index.pack import ChainRecord, encode_pack, pack_record
from rhumbline.tests.unit.coldstore.index.index_world import NAMESPACE, IndexWorld


async def faults(world: IndexWorld, prefix: str = "") -> list[str]:
    check = IndexCheck(world.cold, prefix)
    await check.load()
    found = await check.faults(await scan_manifests(world.cold, prefix))
    return [str(error) for error in found.values()]


def put_index(world: IndexWorld, record: ChainRecord) -> None:
    """Store an index of one chain whose seals and digests are right."""
    data = encode_pack([pack_record(record, 9)])
    name = PackName(9, hashlib.sha256(data).hexdigest())
    world.cold.add(pack_key(NAMESPACE, name), data)
    head = IndexHead(NAMESPACE, 9, (PackEntry(name, len(data)),))
    world.cold.add(head_key(NAMESPACE, 9), head.encode())


def test_an_index_without_faults(index_world: IndexWorld) -> None:
    async def check() -> None:
        await index_world.append("a", 3)
        assert await faults(index_world) == []
        await index_world.indexer.run_once()
        await index_world.append("a")
        await index_world.append("b")
        for prefix in ("", NAMESPACE, f"{NAMESPACE}/a"):
            assert await faults(index_world, prefix) == []

    index_world.run(check())


def test_a_change_without_a_note(index_world: IndexWorld) -> None:
    async def check() -> None:
        await index_world.append("a", 3)
        await index_world.indexer.run_once()
        await index_world.append("a")
        index_world.lose_notes()
        (fault,) = await faults(index_world)
        assert fault.startswith(".index/test: ")
        assert "the archive has 1 to 4, and no note says so" in fault
        await index_world.indexer.rebuild()
        assert await faults(index_world) == []

    index_world.run(check())


@pytest.mark.parametrize("lost", ["/changed/", "/noted/"])
def test_a_note_of_which_one_object_was_lost(index_world: IndexWorld, lost: str) -> None:
    """Queries still know of the change, and so does the next generation (rule ARC-45)."""

    async def check() -> None:
        await index_world.append("a", 3)
        await index_world.indexer.run_once()
        await index_world.append("a")
        await index_world.append("b")
        index_world.lose_notes(lost)
        await index_world.check()
        assert len(await faults(index_world, f"{NAMESPACE}/a")) == 1
        found = await faults(index_world)
        assert len(found) == 2
        assert all("one of the two objects of the note was lost" in one for one in found)
        await index_world.indexer.run_once()
        assert await faults(index_world) == []
        for _ in range(2):
            await index_world.append("c")
            await index_world.indexer.run_once()
        assert len(index_world.cold.keys("/changed/")) == 1
        assert len(index_world.cold.keys("/noted/")) == 1

    index_world.run(check())


def test_a_segment_that_is_archived_during_the_check_is_no_fault(index_world: IndexWorld) -> None:
    async def check() -> None:
        await index_world.append("a")
        await index_world.indexer.run_once()
        check = IndexCheck(index_world.cold)
        await check.load()
        await index_world.append("a")
        listing = await scan_manifests(index_world.cold)
        assert await check.faults(listing) == {}
        await index_world.indexer.run_once()
        assert await check.faults(listing) == {}

    index_world.run(check())


def test_a_lost_head(index_world: IndexWorld) -> None:
    async def check() -> None:
        await index_world.append("a")
        await index_world.indexer.run_once()
        (head,) = index_world.cold.keys("/head/")
        kept = index_world.cold.objects.pop(head)
        (fault,) = await faults(index_world)
        assert "the head of its generation was lost" in fault
        await index_world.check()
        writing = IndexCheck(index_world.cold)
        await writing.load()
        index_world.cold.objects[head] = kept
        assert await writing.faults(await scan_manifests(index_world.cold)) == {}

    index_world.run(check())


def test_an_index_that_says_something_else_than_the_archive(index_world: IndexWorld) -> None:
    async def check() -> None:
        folder = await index_world.append("a", 2)
        one, two = index_world.chains[folder]
        index_world.lose_notes()
        tip = (await scan_manifests(index_world.cold)).tips[folder]
        longer = replace(tip, last_lssn=3)
        for record, expected in (
            (ChainRecord(folder, longer, {1: one, 2: two}, True), "the tip of"),
            (ChainRecord(folder, replace(tip, last_link="x"), {}, True), "the tip of"),
            (ChainRecord(folder, tip, {1: one, 2: replace(two, parts=(), record_count=0)}, True),
             "differs from the object"),
            (ChainRecord(folder, tip, {1: two}, True), "in the place of another one"),
        ):  # fmt: skip
            put_index(index_world, record)
            (fault,) = await faults(index_world)
            assert expected in fault, fault
            if "differs" not in expected:
                await index_world.check()  # readers list what contradicts itself
        other = folder._replace(stream="none")
        put_index(index_world, ChainRecord(other, None, {}, True))
        (fault,) = await faults(index_world)
        assert "no note says so" in fault

    index_world.run(check())

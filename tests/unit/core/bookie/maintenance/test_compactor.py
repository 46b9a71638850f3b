"""Space comes back and nothing else goes; what may have been lost is never denied."""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.index.lmdb_index import open_lmdb_index
from rhumbline.core.bookie.log.log_format import FILE_HEADER_BYTES, GROUP_MAGIC
from rhumbline.core.bookie.maintenance.limbo_recovery import clear_all
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.index.test_entry_index import at_once
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

SMALL = BookieConfig(
    log_file_bytes=1 << 16,
    tail_cache_bytes=0,
    sealed_logs_kept=0,
    maintenance_ms=3_600_000,
    collect_ms=0,
    boot_id="boot-1",
)
PAYLOAD = bytes(700)


async def fill(wire: Wire, count: int) -> None:
    """``count`` entries in each of ledgers 1 to 3, in turns."""
    for number in range(count):
        for ledger_id in (1, 2, 3):
            wire.send(v2.encode_add(KEY, entry(ledger_id, number, PAYLOAD)))
        for _ in range(3):
            answer = v2.decode_response(await wire.frame())
            assert answer[0] == Code.OK


async def all_there(wire: Wire, ledgers: tuple[int, ...], count: int) -> None:
    for ledger_id in ledgers:
        for number in range(count):
            assert await wire.read(ledger_id, number) == (
                Code.OK,
                entry(ledger_id, number, PAYLOAD),
            ), (ledger_id, number)


@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "lmdb"])
def test_sorted_logs_are_removed_and_every_entry_is_still_read(is_durable: bool) -> None:
    async def main(directory: Path) -> None:
        async def open_index(bookie: BookieId) -> object:
            return await open_lmdb_index(directory, bookie, at_once)

        disk = MemoryDisk()
        async with one_bookie(SMALL, disk) as (world, first, _):
            await first.aclose()
            opener = open_index if is_durable else None
            bookie = await Bookie.open(
                world.runtime,
                disk,
                SMALL,
                world.ledgers,
                world.directory,
                open_index=opener,  # type: ignore[arg-type]
            )
            await bookie.serve("127.0.0.1", 0)
            wire = await Wire.connect(bookie)
            await fill(wire, 200)
            await bookie.maintenance.step()
            after = bookie.statistics()
            assert after["maintenance_failures"] == 0
            assert after["sealed_logs"] == 0
            assert after["sorted_files"] >= 5
            assert len([p for p in disk.files if p.startswith("log/")]) == 1
            await all_there(wire, (1, 2, 3), 200)
            await wire.aclose()
            await bookie.aclose()
            again = await Bookie.open(
                world.runtime,
                disk,
                SMALL,
                world.ledgers,
                world.directory,
                open_index=opener,  # type: ignore[arg-type]
            )
            await again.serve("127.0.0.1", 0)
            assert again.storage.damages == []
            wire = await Wire.connect(again)
            await all_there(wire, (1, 2, 3), 200)
            assert await wire.add(entry(1, 200, PAYLOAD)) == Code.OK
            await wire.aclose()
            await again.aclose()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))


def test_orderly_end_leaves_little_for_the_next_start_to_read() -> None:
    async def main(directory: Path) -> None:
        async def open_index(bookie: BookieId) -> object:
            return await open_lmdb_index(directory, bookie, at_once)

        async def start() -> Bookie:
            bookie = await Bookie.open(
                world.runtime,
                disk,
                BookieConfig(maintenance_ms=3_600_000),
                world.ledgers,
                world.directory,
                open_index=open_index,  # type: ignore[arg-type]
            )
            await bookie.serve("127.0.0.1", 0)
            return bookie

        disk = MemoryDisk()
        large = bytes(200_000)
        async with one_bookie(SMALL, disk) as (world, first, _):
            await first.aclose()
            for start_count in range(3):
                bookie = await start()
                wire = await Wire.connect(bookie)
                before = len(disk.files)
                for number in range(40 * start_count):
                    assert (await wire.read(1, number))[1] == entry(1, number, large)
                for number in range(40 * start_count, 40 * start_count + 40):
                    assert await wire.add(entry(1, number, large)) == Code.OK
                assert await wire.fence(2 + start_count) == Code.NO_ENTRY
                await wire.aclose()
                await bookie.aclose()
                assert len(disk.files) == before + 1
                assert len(disk.files[max(log_paths(disk))]) < 10_000
            bookie = await start()
            wire = await Wire.connect(bookie)
            assert [await wire.add(entry(number, 0)) for number in (2, 3, 4)] == [Code.FENCED] * 3
            await wire.aclose()
            await bookie.aclose()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))


def test_deleted_ledgers_give_their_space_back_and_do_not_return() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with one_bookie(SMALL, disk) as (world, bookie, wire):
            await fill(wire, 100)
            await bookie.maintenance.step()
            size = sum(len(content) for content in disk.files.values())
            for ledger_id in (2, 3):
                await world.ledgers.delete(ledger_id)
            bookie.maintenance.may_delete_many = True
            await bookie.maintenance.step()
            await wire.add(entry(1, 100))
            for _ in range(12):
                await bookie.maintenance.step()
            assert sum(len(content) for content in disk.files.values()) < size * 0.6
            await all_there(wire, (1,), 100)
            assert await wire.read(2, 0) == (Code.NO_LEDGER, b"")
            for flags in (0, v2.FLAG_RECOVERY_ADD):
                assert await wire.add(entry(2, 100), flags) in (Code.NO_LEDGER, Code.IO)
            image = disk.copy()
            await bookie.aclose()
            again = await world.open(image, SMALL)
            second = await Wire.connect(again)
            assert await second.read(2, 0) == (Code.NO_LEDGER, b"")
            assert await second.add(entry(2, 100), v2.FLAG_RECOVERY_ADD) == Code.NO_LEDGER
            await all_there(second, (1,), 100)
            await second.aclose()
            await again.aclose()

    asyncio.run(main())


def test_collection_never_takes_more_than_a_tenth_and_asks_each_ledger() -> None:
    async def main() -> None:
        async with one_bookie(SMALL) as (world, bookie, wire):
            for ledger_id in range(10, 50):
                await world.make_ledger(ledger_id, bookie.bookie_id)
                assert await wire.add(entry(ledger_id, 0)) == Code.OK
            for ledger_id in range(10, 40):
                await world.ledgers.delete(ledger_id)
            await bookie.maintenance.step()
            figures = bookie.statistics()
            assert (figures["deleted_ledgers"], figures["ledgers_held_back"]) == (4, 26)
            bookie.maintenance.may_delete_many = True
            await bookie.maintenance.step()
            assert bookie.statistics()["deleted_ledgers"] == 30
            assert sorted(bookie.service.ledgers) == list(range(40, 50))

    asyncio.run(main())


def test_nothing_is_deleted_by_the_word_of_another_cluster_or_of_none() -> None:
    async def main() -> None:
        async with one_bookie(SMALL) as (world, bookie, wire):
            assert await wire.add(entry(1, 0)) == Code.OK
            other = World(8)
            await other.start()
            collector = bookie.collector
            bookie.maintenance._ask_instance = other.directory.instance_id
            await world.ledgers.delete(1)
            await bookie.maintenance.step()
            assert "nothing is deleted" in str(bookie.maintenance.last_failure)
            assert collector.deleted_count == 0

            bookie.maintenance._ask_instance = world.directory.instance_id
            world.store.disconnect()
            await bookie.maintenance.step()
            assert collector.deleted_count == 0
            assert 1 in bookie.service.ledgers
            world.store.reconnect()
            await other.aclose()

    asyncio.run(main())


def log_paths(disk: MemoryDisk) -> list[str]:
    return sorted(path for path in disk.files if path.startswith("log/"))


async def image_of(ledgers: int) -> tuple[World, MemoryDisk, MemoryDisk]:
    """A killed bookie with ``ledgers`` ledgers of 5 entries, and one that was closed in order."""
    world = World()
    await world.start()
    while await world.ledgers.next_id() < ledgers + 9:
        pass
    disk = MemoryDisk()
    bookie_id = await world.format(disk)
    bookie = await world.open(disk, SMALL)
    wire = await Wire.connect(bookie)
    for ledger_id in range(1, ledgers + 1):
        await world.make_ledger(ledger_id, bookie_id)
        for number in range(5):
            assert await wire.add(entry(ledger_id, number)) == Code.OK
    killed = disk.copy()
    await wire.aclose()
    await bookie.aclose()
    return world, killed, disk


def test_torn_end_is_cut_at_every_byte_and_nothing_before_it_is_lost() -> None:
    async def main() -> None:
        world, killed, _ = await image_of(1)
        (path,) = log_paths(killed)
        content = bytes(killed.files[path])
        last = content.rindex(GROUP_MAGIC)
        for end in range(last, len(content), 7):
            image = killed.copy()
            image.files[path] = bytearray(content[:end])
            bookie = await world.open(image, SMALL)
            assert bookie.storage.damages == []
            assert bookie.storage.last_entry(1) == 3
            assert not bookie.storage.states.limbo.is_active
            await bookie.aclose()
        await world.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("which", [4, -1])
def test_rotten_group_is_damage_and_what_may_be_lost_is_unknown(which: int) -> None:
    async def main() -> None:
        world, image, _ = await image_of(2)
        (path,) = log_paths(image)
        content = image.files[path]
        places = range(FILE_HEADER_BYTES, len(content))
        heads = [at for at in places if content.startswith(GROUP_MAGIC, at)]
        content[heads[which] + 60] ^= 0x10
        bookie = await world.open(image, SMALL)
        assert len(bookie.storage.damages) == 1
        wire = await Wire.connect(bookie)
        assert await wire.read(1, 0) == (Code.OK, entry(1, 0))
        assert (await wire.read(2, 77))[0] == Code.IO
        assert await wire.add(entry(2, 5)) == Code.IO
        assert await wire.fence(2, 77) == Code.IO
        assert await wire.fence(8) == Code.IO
        assert await wire.add(entry(2, 5), v2.FLAG_RECOVERY_ADD) == Code.OK
        await leaves_limbo(world, bookie, wire)
        await wire.aclose()
        await bookie.aclose()
        await world.aclose()

    asyncio.run(main())


async def leaves_limbo(world: World, bookie: Bookie, wire: Wire) -> None:
    """New ledgers are not concerned; a closed one gets out; a restart forgets none of it."""
    await bookie.maintenance.step()
    bound = bookie.storage.states.limbo.below
    assert bound is not None
    new = await world.ledgers.next_id()
    assert new >= bound
    await world.make_ledger(new, bookie.bookie_id)
    assert await wire.add(entry(new, 0)) == Code.OK
    assert await wire.fence(new, 1) == Code.NO_ENTRY
    assert (await wire.read(2, 77))[0] == Code.IO
    metadata, version = await world.ledgers.read(2)
    if metadata.last_entry_id < 0:
        await world.ledgers.write(metadata.closed(4, 25), version)
    await bookie.maintenance.step()
    assert (await wire.read(2, 77))[0] == Code.NO_ENTRY
    assert (await wire.read(1, 77))[0] == Code.IO


@pytest.mark.parametrize("kind", ["log", "sorted"])
@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "lmdb"])
def test_lost_file_is_mourned_once_and_the_others_are_sorted_as_ever(
    is_durable: bool, kind: str
) -> None:
    async def main(directory: Path) -> None:
        async def open_index(bookie: BookieId) -> object:
            return await open_lmdb_index(directory, bookie, at_once)

        async def start(config: BookieConfig) -> Bookie:
            bookie = await Bookie.open(
                world.runtime,
                disk,
                config,
                world.ledgers,
                world.directory,
                open_index=open_index if is_durable else None,  # type: ignore[arg-type]
            )
            await bookie.serve("127.0.0.1", 0)
            return bookie

        kept = replace(SMALL, sealed_logs_kept=4)
        disk = MemoryDisk()
        async with one_bookie(kept, disk) as (world, first, _):
            await first.aclose()
            bookie = await start(kept)
            wire = await Wire.connect(bookie)
            await fill(wire, 200)
            await bookie.maintenance.step()
            assert len(bookie.storage.sorted) > 1
            await wire.aclose()
            await bookie.aclose()

            del disk.files[min(path for path in disk.files if path.startswith(f"{kind}/"))]
            bookie = await start(kept)
            assert [damage.start for damage in bookie.storage.damages] == [0]
            wire = await Wire.connect(bookie)
            answers = [(await wire.read(2, number))[0] for number in range(200)]
            assert set(answers) == {Code.OK, Code.IO}
            await bookie.maintenance.step()
            await clear_all(bookie.storage)  # by an operator's word
            await wire.aclose()
            await bookie.aclose()

            again = await start(SMALL)
            assert again.storage.damages == []
            assert not again.storage.states.limbo.is_active
            wire = await Wire.connect(again)
            told = [(await wire.read(2, number))[0] for number in range(200)]
            lost = [number for number, code in enumerate(told) if code != Code.OK]
            assert lost == [number for number, code in enumerate(answers) if code != Code.OK]
            assert {told[number] for number in lost} == {Code.NO_ENTRY}, (
                "it can be told what to mend"
            )
            await again.maintenance.step()
            assert again.statistics()["sealed_logs"] == 0
            assert again.statistics()["maintenance_failures"] == 0
            assert [(await wire.read(2, number))[0] for number in range(200)] == told
            await wire.aclose()
            await again.aclose()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))


def test_crash_of_the_operating_system_with_a_torn_end_begins_a_limbo() -> None:
    async def main() -> None:
        world, killed, closed = await image_of(1)
        (path,) = log_paths(killed)
        torn = killed.copy()
        del torn.files[path][-3:]
        for image, boot, in_limbo in (
            (torn, "boot-1", False),
            (torn, "boot-2", True),
            (torn, "", False),
            (killed, "boot-2", False),
            (closed, "boot-2", False),
        ):
            bookie = await world.open(image.copy(), replace(SMALL, boot_id=boot))
            assert bookie.storage.states.limbo.is_active == in_limbo, boot
            if in_limbo:
                await clear_all(bookie.storage)
                assert bookie.storage.states.ledgers[1].takes_adds
            await bookie.aclose()
        await world.aclose()

    asyncio.run(main())


def test_limbo_lasts_over_restarts() -> None:
    async def main() -> None:
        world, killed, _ = await image_of(1)
        (path,) = log_paths(killed)
        killed.files[path][-1] ^= 1
        bookie = await world.open(killed, SMALL)
        assert bookie.storage.states.limbo.is_active
        await bookie.aclose()
        again = await world.open(killed, SMALL)
        assert again.storage.states.limbo.is_active
        wire = await Wire.connect(again)
        assert (await wire.read(1, 77))[0] == Code.IO
        await wire.aclose()
        await again.aclose()
        await world.aclose()

    asyncio.run(main())

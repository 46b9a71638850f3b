"""Failing and full disks, and a lost registration: nothing acknowledged is lost or denied."""

import asyncio

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.wire import v2, v3
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


async def test_nothing_is_acknowledged_after_a_failed_sync_until_a_restart() -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        disk.is_failing = True
        wire.send(v2.encode_add(KEY, entry(1, 1)))
        assert await wire.is_closed()
        disk.is_failing = False
        second = await Wire.connect(bookie)
        assert await second.add(entry(1, 1)) == Code.IO
        assert await second.add(entry(1, 1), v2.FLAG_RECOVERY_ADD) == Code.IO
        assert await second.fence(1) == Code.IO
        assert await second.read(1, 0) == (Code.OK, entry(1, 0))
        assert bookie.statistics()["read_only"]
        for _ in range(100):
            if bookie.bookie_id in await world.directory.read_only():
                break
            await asyncio.sleep(0.01)
        assert await world.directory.read_only() == [bookie.bookie_id]
        await second.aclose()
        await bookie.aclose()
        again = await world.open(disk)
        third = await Wire.connect(again)
        assert await third.add(entry(1, 1)) == Code.OK
        assert await third.read(1, 0) == (Code.OK, entry(1, 0))
        await third.aclose()
        await again.aclose()


async def test_full_disk_refuses_adds_and_accepts_them_again_when_there_is_space() -> None:
    disk = MemoryDisk()
    config = BookieConfig(log_file_bytes=1 << 16, space_check_ms=10)
    async with one_bookie(config, disk) as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        disk.room = 10
        frames = [v2.encode_add(KEY, entry(1, number)) for number in (1, 2, 3)]
        frames.append(v3.frame(v3.add_request(wire.next_txn(), 1, 4, KEY, entry(1, 4))))
        wire.send(b"".join(frames))
        responses = [v2.decode_response(await wire.frame()) for _ in range(3)]
        assert responses == [v2.AddResponse(Code.READ_ONLY, 1, n) for n in (1, 2, 3)]
        response = await wire.response3()
        assert v3.status_of(response) == response.add_response.status == v3.Status.READ_ONLY.value
        assert await wire.add(entry(1, 1)) == Code.READ_ONLY
        assert bookie.statistics()["closed"] == {}
        second = wire
        assert await second.add(entry(1, 1)) == Code.READ_ONLY
        assert await second.read(1, 0) == (Code.OK, entry(1, 0))
        image = disk.copy()
        disk.room = None
        for _ in range(200):
            if not bookie.is_read_only:
                break
            await asyncio.sleep(0.01)
        assert await second.add(entry(1, 1)) == Code.OK
        await bookie.aclose()
        for candidate, last in ((image, 0), (disk, 1)):
            again = await world.open(candidate, config)
            assert again.storage.damages == []
            assert again.storage.last_entry(1) == last
            await again.aclose()


async def test_refused_state_records_are_written_before_dependent_entries() -> None:
    disk = MemoryDisk()
    config = BookieConfig(log_file_bytes=1 << 16, space_check_ms=10)
    async with one_bookie(config, disk) as (world, bookie, wire):
        disk.room = 10
        assert await wire.add(entry(1, 0)) == Code.READ_ONLY
        assert 1 in bookie.service.ledgers
        disk.room = None
        for _ in range(200):
            if not bookie.is_read_only:
                break
            await asyncio.sleep(0.01)
        second = await Wire.connect(bookie)
        assert await second.add(entry(1, 0)) == Code.OK
        again = await open_copy(world, disk, bookie, config)
        assert again.service.ledgers[1].master_key == KEY
        await second.aclose()
        await again.aclose()


async def open_copy(world: World, disk: MemoryDisk, bookie: Bookie, config: BookieConfig) -> Bookie:
    """Opens a bookie on a copy of the disk, as after a kill."""
    image = disk.copy()
    image.room = None
    await bookie.aclose()
    return await world.open(image, config)


async def test_recovery_adds_are_accepted_while_the_reserve_lasts() -> None:
    disk = MemoryDisk()
    config = BookieConfig(
        log_file_bytes=1 << 16,
        space_check_ms=10,
        read_only_below_bytes=200_000,
        reserve_below_bytes=100_000,
    )
    async with one_bookie(config, disk) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        disk.room = 150_000
        await bookie._space.check()
        assert await wire.add(entry(1, 1)) == Code.READ_ONLY
        assert await wire.add(entry(1, 1), v2.FLAG_RECOVERY_ADD) == Code.OK
        disk.room = 50_000
        await bookie._space.check()
        assert await wire.add(entry(1, 2), v2.FLAG_RECOVERY_ADD) == Code.READ_ONLY
        assert await wire.fence(1) == Code.OK


async def test_lost_session_is_registered_again_without_stopping_adds() -> None:
    config = BookieConfig(log_file_bytes=1 << 20, registration_retry_ms=10)
    async with one_bookie(config) as (world, bookie, wire):
        assert await world.directory.writable() == [bookie.bookie_id]
        registration = await world.directory.registration(bookie.bookie_id)
        assert registration.port == bookie.port
        membership = bookie._registrations._keepers[0]
        assert membership is not None
        session = membership._session
        assert session is not None
        world.store.expire_session(session)
        assert await wire.add(entry(1, 0)) == Code.OK
        for _ in range(200):
            if bookie.statistics()["sessions_lost"] and bookie.statistics()["registered"]:
                break
            await asyncio.sleep(0.01)
        assert await world.directory.writable() == [bookie.bookie_id]
        bookie.set_read_only(True)
        for _ in range(200):
            if await world.directory.read_only():
                break
            await asyncio.sleep(0.01)
        assert await world.directory.read_only() == [bookie.bookie_id]
        assert await world.directory.writable() == []
        await bookie.aclose()
        assert await world.directory.read_only() == []

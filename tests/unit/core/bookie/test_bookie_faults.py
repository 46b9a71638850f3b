"""Failing and full disks, hostile peers, wrong storage, lost sessions: nothing false is said."""

import asyncio
import struct
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.identity import IDENTITY_FILE, decode_identity, encode_identity
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    CorruptionError,
    ForeignDataError,
    RhumblineError,
    WrongClusterError,
)
from rhumbline.core.wire import v2, v3
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


def test_failed_sync_acknowledges_nothing_ever_again() -> None:
    async def main() -> None:
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

    asyncio.run(main())


def test_full_disk_refuses_adds_loses_nothing_and_takes_them_again() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        config = BookieConfig(log_file_bytes=1 << 16, space_check_ms=10)
        async with one_bookie(config, disk) as (world, bookie, wire):
            assert await wire.add(entry(1, 0)) == Code.OK
            disk.room = 10
            frames = [v2.encode_add(KEY, entry(1, number)) for number in (1, 2, 3)]
            frames.append(v3.frame(v3.add_request(wire.next_txn(), 1, 4, KEY, entry(1, 4))))
            wire.send(b"".join(frames))
            answers = [v2.decode_response(await wire.frame()) for _ in range(3)]
            assert answers == [v2.AddResponse(Code.READ_ONLY, 1, n) for n in (1, 2, 3)]
            answer = await wire.answer3()
            assert v3.status_of(answer) == answer.add_response.status == v3.Status.READ_ONLY.value
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

    asyncio.run(main())


def test_state_that_found_no_space_is_written_before_what_depends_on_it() -> None:
    async def main() -> None:
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
            again = await world_open_copy(world, disk, bookie, config)
            assert again.service.ledgers[1].master_key == KEY
            await second.aclose()
            await again.aclose()

    asyncio.run(main())


async def world_open_copy(
    world: World, disk: MemoryDisk, bookie: Bookie, config: BookieConfig
) -> Bookie:
    """Another process on what the disk holds now, as after a kill."""
    image = disk.copy()
    image.room = None
    await bookie.aclose()
    return await world.open(image, config)


def test_recovery_adds_pass_while_the_reserve_lasts() -> None:
    async def main() -> None:
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
            await bookie._space.look()
            assert await wire.add(entry(1, 1)) == Code.READ_ONLY
            assert await wire.add(entry(1, 1), v2.FLAG_RECOVERY_ADD) == Code.OK
            disk.room = 50_000
            await bookie._space.look()
            assert await wire.add(entry(1, 2), v2.FLAG_RECOVERY_ADD) == Code.READ_ONLY
            assert await wire.fence(1) == Code.OK

    asyncio.run(main())


def hostile_frames() -> list[bytes]:
    random = Random(11)
    u32 = struct.Struct(">I").pack
    good = v2.encode_add(KEY, entry(1, 0))
    frames = [
        u32(0),
        u32(2**32 - 1),
        u32(6 * 1024 * 1024),
        u32(4) + b"\x02\x63\x00\x00",
        u32(4) + b"\x07abc",
        u32(4) + b"\x0a\xff\xff\xff",
        u32(10) + b"\x02\x01\x00\x00" + bytes(6),
        u32(20) + b"\x02\x02\x00\x01" + bytes(16),
        u32(len(good) - 4) + good[4:36] + b"\xff" * 8 + good[44:],
    ]
    for _ in range(40):
        data = random.randbytes(random.randrange(1, 200))
        frames.append(u32(len(data)) + b"\x05" + data[1:])
    return frames


def test_hostile_frames_close_their_connection_and_nothing_else() -> None:
    async def main() -> None:
        async with one_bookie() as (_, bookie, wire):
            assert await wire.add(entry(1, 0)) == Code.OK
            frames = hostile_frames()
            for frame in frames:
                other = await Wire.connect(bookie)
                other.send(frame)
                assert await other.is_closed(), frame[:40].hex()
                await other.aclose()
            assert bookie.statistics()["closed"] == {"malformed": len(frames)}
            assert await wire.read(1, 0) == (Code.OK, entry(1, 0))
            assert await wire.add(entry(1, 1)) == Code.OK

    asyncio.run(main())


def test_slow_disk_stops_the_reading_of_the_socket() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        config = BookieConfig(log_file_bytes=1 << 22, connection_inflight_bytes_max=100_000)
        async with one_bookie(config, disk) as (_, bookie, wire):
            assert await wire.add(entry(1, 0)) == Code.OK
            disk.gate = asyncio.Event()
            payload = bytes(10_000)
            frames = b"".join(v2.encode_add(KEY, entry(1, n, payload)) for n in range(1, 1001))
            wire.send(frames)
            for _ in range(400):
                await asyncio.sleep(0.01)
                if bookie.storage.log.pending_bytes > 50_000:
                    break
            assert 50_000 < bookie.storage.log.pending_bytes < 2_000_000
            gate, disk.gate = disk.gate, None
            gate.set()
            answers = [v2.decode_response(await wire.frame()) for _ in range(1000)]
            assert answers == [v2.AddResponse(Code.OK, 1, n) for n in range(1, 1001)]

    asyncio.run(main())


def test_a_format_that_was_cut_off_is_begun_anew() -> None:
    async def main() -> None:
        world = World()
        await world.start()
        disk = MemoryDisk()
        disk.files[f"{IDENTITY_FILE}.new"] = bytearray(b"{half")
        with pytest.raises(ForeignDataError, match="never formatted"):
            await world.open(disk)
        await world.format(disk)
        bookie = await world.open(disk)
        await bookie.aclose()

    asyncio.run(main())


def test_wrong_storage_is_refused_with_one_clear_line() -> None:
    async def main() -> None:
        world = World()
        await world.start()
        disk = MemoryDisk()
        with pytest.raises(ForeignDataError, match="never formatted"):
            await world.open(disk)
        await world.format(disk)
        with pytest.raises(ForeignDataError, match="holds a bookie already"):
            await world.format(disk)
        foreign = MemoryDisk()
        foreign.files["photo.jpg"] = bytearray(b"x")
        with pytest.raises(ForeignDataError, match=r"not empty .*photo"):
            await world.format(foreign)
        with pytest.raises(ForeignDataError, match="not a bookie's storage"):
            await world.open(foreign)
        bookie = await world.open(disk)
        with pytest.raises(ConfigurationError, match="cannot listen"):
            await bookie.serve("127.0.0.1", bookie.port)
        await bookie.aclose()
        for change, error, words in (
            ({"instance_id": "other"}, WrongClusterError, "belongs to cluster other"),
            ({"version": 2}, ForeignDataError, "format version 2"),
            ({"region": "west"}, WrongClusterError, "is in region west"),
            ({"bookie_id": "b1@00000000"}, WrongClusterError, "no cookie"),
        ):
            await refuses(world, disk, change, error, words)
        rotten = disk.copy()
        rotten.files[IDENTITY_FILE][5] ^= 1
        rotten.files[IDENTITY_FILE][4096 + 5] ^= 1
        with pytest.raises(CorruptionError, match="decommission the bookie"):
            await world.open(rotten)
        emptied = disk.copy()
        for path in [path for path in emptied.files if path.startswith("log/")]:
            del emptied.files[path]
        with pytest.raises(CorruptionError, match="log of this bookie is gone"):
            await world.open(emptied)
        await world.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("number", range(8))
def test_one_flipped_bit_or_a_lost_block_of_the_identity_is_survived_and_mended(
    number: int,
) -> None:
    async def main() -> None:
        async with one_bookie() as (world, bookie, wire):
            assert await wire.add(entry(1, 0)) == Code.OK
            await bookie.aclose()
            disk = bookie._disk
            assert isinstance(disk, MemoryDisk)
            whole = bytes(disk.files[IDENTITY_FILE])
            random = Random(number)
            rotten = disk.copy()
            if number < 6:
                at = random.randrange(200) + 4096 * (number % 2)
                rotten.files[IDENTITY_FILE][at] ^= 1 << random.randrange(8)
            else:
                start = 4096 * (number % 2)
                rotten.files[IDENTITY_FILE][start : start + 4096] = bytes(4096)
            again = await world.open(rotten)
            assert again.bookie_id == bookie.bookie_id
            await again.aclose()
            assert bytes(rotten.files[IDENTITY_FILE]) == whole

    asyncio.run(main())


def test_frames_that_do_not_end_are_bounded_in_bytes_and_in_time() -> None:
    async def main() -> None:
        config = BookieConfig(half_frame_bytes_max=10_000, half_frame_ms_max=200)
        frame = v2.encode_add(KEY, entry(1, 0, bytes(6_000)))
        async with one_bookie(config) as (_, bookie, wire):
            slow, other = await Wire.connect(bookie), await Wire.connect(bookie)
            slow.send(frame[:5_900])
            await asyncio.sleep(0.02)
            other.send(frame[:5_900])
            assert await other.is_closed()
            wire.send(frame[:3_000])
            await asyncio.sleep(0.02)
            assert bookie.statistics()["half_frame_bytes"] == 8_900
            wire.send(frame[3_000:])
            assert await wire.add_answer() == Code.OK
            assert await slow.is_closed()
            figures = bookie.statistics()
            assert figures["closed"] == {"half-frames-too-large": 1, "half-frame-too-old": 1}
            assert figures["half_frame_bytes"] == 0
            assert await wire.add(entry(1, 1)) == Code.OK
            await slow.aclose()
            await other.aclose()

    asyncio.run(main())


async def refuses(
    world: World,
    disk: MemoryDisk,
    change: Mapping[str, object],
    error: type[RhumblineError],
    words: str,
) -> None:
    """Opening the storage with a changed identity raises just this."""
    other = disk.copy()
    identity = decode_identity(bytes(other.files[IDENTITY_FILE]))
    changed = encode_identity(replace(identity, **change))  # type: ignore[arg-type]
    other.files[IDENTITY_FILE] = bytearray(changed)
    with pytest.raises(error, match=words):
        await world.open(other)


def test_lost_session_is_registered_again_while_the_data_path_goes_on() -> None:
    async def main() -> None:
        config = BookieConfig(log_file_bytes=1 << 20, registration_retry_ms=10)
        async with one_bookie(config) as (world, bookie, wire):
            assert await world.directory.writable() == [bookie.bookie_id]
            registration = await world.directory.registration(bookie.bookie_id)
            assert registration.port == bookie.port
            membership = bookie._membership
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

    asyncio.run(main())

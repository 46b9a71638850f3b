"""Malformed frames and backpressure affect one connection only."""

import asyncio
import struct
from random import Random

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


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


async def test_malformed_frames_close_only_their_own_connection() -> None:
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


async def test_slow_disk_pauses_reading_of_the_socket() -> None:
    disk = MemoryDisk()
    config = BookieConfig(log_file_bytes=1 << 22, connection_inflight_bytes_max=100_000)
    async with one_bookie(config, disk) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        gate = disk.gate = asyncio.Event()
        payload = bytes(10_000)
        frames = b"".join(v2.encode_add(KEY, entry(1, n, payload)) for n in range(1, 1001))
        wire.send(frames)
        for _ in range(2_000):
            await asyncio.sleep(0.01)
            waiting_bytes = bookie.storage.log.pending_bytes + disk.gated_bytes
            if waiting_bytes > 50_000:
                break
        disk.gate = None
        gate.set()
        assert 50_000 < waiting_bytes < 2_000_000
        responses = [v2.decode_response(await wire.frame()) for _ in range(1000)]
        assert responses == [v2.AddResponse(Code.OK, 1, n) for n in range(1, 1001)]

"""Malformed frames and backpressure affect one connection only."""

import asyncio
import struct
from random import Random
from typing import cast

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.log.commit_group import Outbox
from rhumbline.core.bookie.server import connection
from rhumbline.core.protocol.errors import DiskFailedError
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


class FakeTransport:
    """A transport that records what is done to it."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.written: list[bytes] = []
        self.parts: list[list[bytes]] = []
        self.done: list[str] = []
        self.limit = 0
        self.unsent_bytes = 0

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.parts.append(list(parts))

    def pause_reading(self) -> None:
        self.done.append("pause")

    def resume_reading(self) -> None:
        self.done.append("resume")

    def close(self) -> None:
        self.done.append("close")

    def abort(self) -> None:
        self.done.append("abort")

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return (self.host, 4_000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        self.limit = high

    def codes(self) -> list[int]:
        """Return the codes of all v2 responses that were written, and forgets them."""
        data, found = b"".join(self.written), []
        self.written.clear()
        while data:
            size = int.from_bytes(data[:4], "big") + 4
            found.append(int(v2.decode_response(data[4:size])[0]))
            data = data[size:]
        return found


class Peer:
    """A connection of a bookie over a fake transport."""

    def __init__(self, bookie: Bookie, host: str = "192.0.2.1") -> None:
        self.transport = FakeTransport(host)
        self.connection = bookie._accept()
        self.connection.connection_made(cast("asyncio.Transport", self.transport))

    def send(self, *frames: bytes) -> None:
        self.connection.data_received(b"".join(frames))

    async def codes(self, count: int) -> list[int]:
        found: list[int] = []
        for _ in range(500):
            found += self.transport.codes()
            if len(found) >= count:
                break
            await asyncio.sleep(0)
        return found


def add(number: int, payload: bytes = b"hello", key: bytes = KEY) -> bytes:
    return v2.encode_add(key, entry(1, number, payload))


async def test_connections_above_the_maximum_are_closed_at_once() -> None:
    async with one_bookie(BookieConfig(connection_count_max=2)) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        first, second = Peer(bookie), Peer(bookie)
        assert (first.transport.done, second.transport.done) == ([], ["close"])
        assert first.transport.limit == 8 << 20
        assert bookie.statistics()["closed"] == {"too-many-connections": 1}
        second.send(add(1))
        assert bookie.storage.log.group.count == 0, "what arrives later is ignored"
        first.connection.connection_lost(None)
        assert bookie.statistics()["connections"] == 1
        third = Peer(bookie)
        assert third.transport.done == []
        third.connection.abort()
        assert third.transport.done == ["abort"]
        assert third.connection.eof_received() is False


async def test_an_address_that_holds_connections_does_not_lock_others_out() -> None:
    async with one_bookie(BookieConfig(connection_count_max=4)) as (_, bookie, wire):
        held = [Peer(bookie) for _ in range(4)]
        assert [peer.transport.done for peer in held] == [[], [], [], ["close"]]
        assert await wire.add(entry(1, 0)) == Code.OK
        newcomer = Peer(bookie, "192.0.2.2")
        assert newcomer.transport.done == []
        assert [peer.transport.done for peer in held[:3]] == [["close"], [], []]
        newcomer.send(add(1))
        assert await newcomer.codes(1) == [Code.OK]
        assert bookie.statistics()["closed"] == {"too-many-connections": 1, "made-room": 1}


async def test_responses_of_one_chunk_leave_together() -> None:
    async with one_bookie() as (_, bookie, wire):
        for number in range(3):
            assert await wire.add(entry(1, number)) == Code.OK
        peer = Peer(bookie)
        peer.send(*(v2.encode_read(1, number) for number in range(4)))
        assert len(peer.transport.written) == 1
        assert peer.transport.codes() == [Code.OK, Code.OK, Code.OK, Code.NO_ENTRY]
        peer.connection.send(v2.encode_read_response(Code.OK, 1, 0, b""))
        peer.connection.send(v2.encode_read_response(Code.IO, 1, 0, b""))
        assert peer.transport.written == []
        await asyncio.sleep(0)
        assert len(peer.transport.written) == 1
        assert peer.transport.codes() == [Code.OK, Code.IO]
        peer.connection.send(v2.encode_read_response(Code.OK, 1, 0, b""))
        await asyncio.sleep(0)
        assert peer.transport.codes() == [Code.OK]
        peer.connection.send(v2.encode_read_response(Code.OK, 1, 0, b""))
        peer.connection.close("test")
        assert peer.transport.codes() == [Code.OK], "what waits is sent before the end"
        peer.connection.close("test")
        assert peer.transport.done == ["close"]
        assert bookie.statistics()["closed"] == {"test": 1}
        peer.connection.send(b"late")
        peer.connection.send_parts([b"late"])
        await asyncio.sleep(0)
        assert (peer.transport.written, peer.transport.parts) == ([], [])


async def test_frames_are_served_however_they_are_cut() -> None:
    async with one_bookie() as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        peer = Peer(bookie)
        data = b"".join([add(1), v2.encode_read(1, 0), add(2)])
        for at in range(0, len(data), 7):
            peer.send(data[at : at + 7])
        assert await peer.codes(3) == [Code.OK] * 3
        assert bookie.statistics()["partial_frame_bytes"] == 0
        peer.send(data[:10])
        assert bookie.statistics()["partial_frame_bytes"] == 10
        peer.connection.connection_lost(None)
        assert bookie.statistics()["partial_frame_bytes"] == 0


async def test_small_parts_are_joined_and_large_ones_are_not() -> None:
    async with one_bookie() as (_, bookie, _wire):
        peer = Peer(bookie)
        peer.connection.send_parts([bytes(2047), bytes(2048)])
        assert [len(data) for data in peer.transport.written] == [4095]
        peer.connection.send_parts([bytes(2048), bytes(2048)])
        assert [list(map(len, parts)) for parts in peer.transport.parts] == [[2048, 2048]]


async def test_peer_that_does_not_read_its_responses_is_not_read() -> None:
    async with one_bookie() as (_, bookie, _wire):
        peer = Peer(bookie)
        peer.connection.pause_writing()
        peer.connection.pause_writing()
        assert (peer.transport.done, peer.connection.is_paused) == (["pause"], True)
        peer.connection.resume_writing()
        peer.connection.resume_writing()
        assert (peer.transport.done, peer.connection.is_paused) == (["pause", "resume"], False)


async def test_entries_in_memory_wait_for_the_responses_before_them() -> None:
    config = BookieConfig(connection_write_bytes_max=10_000)
    async with one_bookie(config) as (_, bookie, wire):
        assert await wire.add(entry(1, 0, bytes(1_000))) == Code.OK
        peer = Peer(bookie)
        peer.send(*[v2.encode_read(1, 0)] * 100)
        assert sum(map(len, peer.transport.written)) < 12_000
        assert await peer.codes(100) == [Code.OK] * 100
        peer.connection.pause_writing()
        peer.send(v2.encode_read(1, 0))
        assert await peer.codes(1) == []
        peer.connection.resume_writing()
        assert await peer.codes(1) == [Code.OK]


async def test_connections_that_end_with_unsent_responses_count_until_these_are_gone() -> None:
    config = BookieConfig(unsent_bytes_max=150_000)
    async with one_bookie(config) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        ended, other = Peer(bookie), Peer(bookie, "192.0.2.2")
        ended.transport.unsent_bytes = 100_000
        ended.send(v2.encode_read(1, 0))
        ended.connection.close("idle")
        assert bookie.statistics()["unsent_bytes"] == 100_000
        other.transport.unsent_bytes = 60_000
        other.send(v2.encode_read(1, 0))
        assert (ended.transport.done, other.transport.done) == (["close", "abort"], [])
        assert bookie.statistics()["closed"] == {"idle": 1, "responses-not-read": 1}
        other.transport.unsent_bytes = 200_000
        other.send(v2.encode_read(1, 0), v2.encode_read(1, 0))
        assert other.transport.done == ["abort"], "the one that is served may be closed as well"
        ended.connection.connection_lost(None)
        other.connection.connection_lost(None)
        assert bookie.statistics()["unsent_bytes"] == 0


async def test_peer_that_does_not_read_its_responses_causes_no_file_reads() -> None:
    async with one_bookie(BookieConfig(tail_cache_bytes=0)) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        peer = Peer(bookie)
        peer.send(*[v2.encode_read(1, 0)] * 100)
        peer.connection.pause_writing()
        assert await peer.codes(100) == []
        assert not peer.connection.has_work, "such a connection is idle"
        peer.connection.idle_rounds = 3
        peer.connection.resume_writing()
        assert peer.connection.idle_rounds == 0
        assert await peer.codes(100) == [Code.OK] * 100


async def test_closed_connection_does_not_wait_for_ever_for_its_peer_to_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_UNSENT_S_MAX", 0.001)
    async with one_bookie() as (_, bookie, _wire):
        reading, deaf = Peer(bookie), Peer(bookie)
        deaf.transport.unsent_bytes = 1
        for peer in (reading, deaf):
            peer.connection.close("idle")
        assert (reading.transport.done, deaf.transport.done) == (["close"], ["close"])
        await asyncio.sleep(0.01)
        assert (reading.transport.done, deaf.transport.done) == (["close"], ["close", "abort"])


async def test_connection_with_too_many_bytes_in_flight_is_not_read() -> None:
    disk = MemoryDisk()
    size = len(entry(1, 0))
    config = BookieConfig(connection_inflight_bytes_max=2 * size)
    async with one_bookie(config, disk) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        gate = disk.gate = asyncio.Event()
        peer = Peer(bookie)
        peer.send(add(1), add(2))
        assert peer.transport.done == []
        peer.send(add(3))
        assert peer.transport.done == ["pause"]
        disk.gate = None
        gate.set()
        assert await peer.codes(3) == [Code.OK] * 3
        assert peer.transport.done == ["pause", "resume"]


async def test_connections_with_adds_wait_while_too_many_bytes_wait_for_the_disk() -> None:
    disk = MemoryDisk()
    size = len(entry(1, 0)) + 8
    async with one_bookie(BookieConfig(pending_bytes_max=2 * size), disk) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        gate = disk.gate = asyncio.Event()
        adding, reading = Peer(bookie), Peer(bookie)
        adding.send(add(1))
        await asyncio.sleep(0.01)  # the first add is being written
        adding.send(add(2), add(3))
        assert adding.transport.done == []
        adding.send(add(4))
        assert adding.transport.done == ["pause"]
        reading.send(v2.encode_read(1, 0))
        assert reading.transport.done == [], "it has no adds in flight"
        disk.gate = None
        gate.set()
        assert await adding.codes(4) == [Code.OK] * 4
        assert adding.transport.done == ["pause", "resume"]


async def test_connection_with_too_many_queued_reads_is_not_read() -> None:
    config = BookieConfig(connection_reads_max=2, tail_cache_bytes=0)
    async with one_bookie(config) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        peer = Peer(bookie)
        peer.send(v2.encode_read(1, 0), v2.encode_read(1, 0))
        assert peer.transport.done == []
        peer.send(v2.encode_read(1, 0))
        assert peer.transport.done == ["pause"]
        assert await peer.codes(3) == [Code.OK] * 3
        assert peer.transport.done == ["pause", "resume"]


async def test_full_group_is_closed_in_the_middle_of_a_chunk() -> None:
    async with one_bookie(BookieConfig(group_count_max=2)) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        syncs = bookie.storage.log.sync_count
        peer = Peer(bookie)
        peer.send(*(add(number) for number in range(1, 6)))
        assert await peer.codes(5) == [Code.OK] * 5
        assert bookie.storage.log.sync_count == syncs + 3


async def test_adds_without_space_are_refused_and_a_failed_disk_closes_the_connection() -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        peer = Peer(bookie)
        disk.room = 10
        peer.send(add(1), add(2))
        assert await peer.codes(2) == [Code.READ_ONLY, Code.READ_ONLY]
        assert peer.transport.done == []
        disk.room = None
        disk.is_failing = True
        outbox = Outbox()
        outbox.request_bytes = 5
        peer.connection.add_inflight(5)
        peer.connection.reject(outbox, DiskFailedError("I/O error"))
        assert peer.transport.done == ["close"]
        assert bookie.statistics()["closed"] == {"write-refused": 1}
        disk.is_failing = False


async def test_lac_of_an_add_must_be_below_its_entry() -> None:
    async with one_bookie() as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        for lac in (5, 6, -2):
            peer = Peer(bookie)
            peer.send(v2.encode_add(KEY, entry(1, 5, lac=lac)))
            assert peer.transport.done == ["close"], lac
        peer = Peer(bookie)
        peer.send(v2.encode_add(KEY, entry(1, 5, lac=4)), v2.encode_add(KEY, entry(1, 6, lac=-1)))
        assert await peer.codes(2) == [Code.OK, Code.OK]
        assert bookie.service.ledgers[1].lac == 4

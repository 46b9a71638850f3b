"""Large responses arrive in arbitrary pieces, between small ones, by both kinds of protocol."""

import asyncio
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import uvloop

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.connection.bookie_connection import BookieConnection
from rhumbline.core.ledger.connection.bookie_pool import BookiePool
from rhumbline.core.ledger.connection.connection_state import ConnectionEvent
from rhumbline.core.ledger.connection.large_frame import LargeFrame
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import BookieUnavailableError, ProtocolError, RhumblineError
from rhumbline.core.protocol.ledger_metadata import DigestType
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire import v2
from rhumbline.core.wire.entry import EntryDigest, decode_entry, encode_entry
from rhumbline.core.wire.frames import FRAME_BYTES_MAX, FrameSplitter
from rhumbline.tests.unit.core.ledger.world import FixedClock, World, run_in_world

pytestmark = pytest.mark.run_by(runner=run_in_world)

DIGEST = EntryDigest(DigestType.CRC32C)
LIMITS = (1_000, 5 << 20)


class Responses:
    """The responses of a batch read: (error, entries)."""

    def __init__(self) -> None:
        self.all: list[tuple[RhumblineError | None, list[bytes]]] = []
        self.came = asyncio.Event()

    def __call__(self, error: RhumblineError | None, found: list[bytes | memoryview]) -> None:
        self.all.append((error, [bytes(data) for data in found or []]))
        self.came.set()


def entry(entry_id: int, payload: bytes) -> bytes:
    return encode_entry(DIGEST, 1, entry_id, -1, 1 << 30, payload)


class Receiver:
    """Feeds a connection as a transport does, following ``set_protocol``."""

    def __init__(self, connection: BookieConnection, *, is_buffered: bool) -> None:
        self.protocol: Any = connection
        self.is_buffered = is_buffered
        self.in_place = 0
        transport: Any = connection._transport
        transport.set_protocol = self.set_protocol

    def set_protocol(self, protocol: object) -> None:
        self.protocol = protocol

    def feed(self, data: bytes, piece: Callable[[], int]) -> None:
        while data:
            taken = piece()
            if self.is_buffered and isinstance(self.protocol, LargeFrame):
                room = self.protocol.get_buffer(-1)
                assert len(room) > 0
                taken = min(taken, len(room), len(data))
                room[:taken] = data[:taken]
                self.in_place += taken
                self.protocol.buffer_updated(taken)
            else:
                self.protocol.data_received(data[:taken])
            data = data[taken:]


async def connected(world: World) -> tuple[BookiePool, BookieConnection]:
    pool = BookiePool(world.runtime, world.directory, config=LedgerConfig(), region=Region("a"))
    connection = pool.link(world.bookies[0].bookie).connect()
    assert connection is not None
    await connection.wait_ready()
    world.bookies[0].is_hung = True
    return pool, connection


@pytest.mark.parametrize("is_buffered", [False, True])
@pytest.mark.parametrize("chance", range(6))
async def test_every_response_arrives_once_and_complete(chance: int, is_buffered: bool) -> None:
    world = World("a")
    random = Random(chance)
    pool, connection = await connected(world)
    frames, wanted, received_all = [], [], []
    for number in range(1, 31):
        sizes = [random.choice((0, 9, 3_000, 70_000, 400_000)) for _ in range(4)]
        stored = [entry(at, random.randbytes(size)) for at, size in enumerate(sizes)]
        received_all.append(Responses())
        assert connection.send_batch_read(1, 0, LIMITS, received_all[-1])
        wanted.append([(None, stored)])
        frames.append(v2.encode_batch_read_response(v2.Code.OK, 1, 0, number, stored))
        frames.append(v2.encode_add_response(v2.Code.OK, 1, 7))  # no request waits for it
    single: list[bytes] = []
    large = entry(50, random.randbytes(300_000))
    assert connection.send_read(1, 50, lambda _, found: single.append(found))
    frames.append(v2.encode_read_response(v2.Code.OK, 1, 50, large))
    random.shuffle(frames)
    receiver = Receiver(connection, is_buffered=is_buffered)
    received = connection.traffic.received_bytes
    data = b"".join(frames)
    receiver.feed(data, lambda: random.choice((1, 3, 4, 40, 5_000, 65_536, 262_144)))
    assert [responses.all for responses in received_all] == wanted
    assert single == [large]
    assert receiver.protocol is connection
    assert connection.is_idle
    assert connection.traffic.received_bytes == received + len(data)
    assert not is_buffered or receiver.in_place > len(data) // 3
    await pool.aclose()


@pytest.mark.parametrize(
    "body",
    [
        b"\x02\x07\x00\x00" + bytes(200_000),  # an entry of 0 bytes
        v2.encode_batch_read_response(0, 1, 0, 1, [entry(0, bytes(200_000))])[4:-1],
        v2.encode_batch_read_response(0, 1, 0, 1, [entry(0, bytes(200_000))])[4:] + b"\x00\x00",
        b"\x02\x2a\x00\x00" + bytes(200_000),  # no such operation
        b"\x0a" + b"\xff" * 200_000,
        b"\x55" * 200_000,
    ],
)
@pytest.mark.parametrize("is_buffered", [False, True])
async def test_malformed_large_response_ends_the_connection(body: bytes, is_buffered: bool) -> None:
    world = World("a")
    pool, connection = await connected(world)
    responses = Responses()
    assert connection.send_batch_read(1, 0, LIMITS, responses)
    receiver = Receiver(connection, is_buffered=is_buffered)
    receiver.feed(struct.pack(">I", len(body)) + body, lambda: 50_000)
    assert [type(error) for error, _ in responses.all] == [ProtocolError]
    await pool.aclose()


async def test_frame_above_the_limit_is_refused_before_it_is_allocated() -> None:
    world = World("a")
    pool, connection = await connected(world)
    responses = Responses()
    assert connection.send_batch_read(1, 0, LIMITS, responses)
    receiver = Receiver(connection, is_buffered=True)
    receiver.feed(struct.pack(">I", FRAME_BYTES_MAX - 3) + bytes(1_000), lambda: 2_000)
    assert receiver.protocol is connection
    assert [type(error) for error, _ in responses.all] == [ProtocolError]
    await pool.aclose()


async def test_loss_within_a_large_response_is_handled() -> None:
    world = World("a")
    pool, connection = await connected(world)
    responses = Responses()
    assert connection.send_batch_read(1, 0, LIMITS, responses)
    frame = v2.encode_batch_read_response(0, 1, 0, 1, [entry(0, bytes(500_000))])
    receiver = Receiver(connection, is_buffered=True)
    receiver.feed(frame[:300_000], lambda: 1_000)
    assert isinstance(receiver.protocol, LargeFrame)
    receiver.protocol.pause_writing()
    receiver.protocol.resume_writing()
    assert receiver.protocol.eof_received() is False
    receiver.protocol.connection_lost(None)
    assert [type(error) for error, _ in responses.all] == [BookieUnavailableError]
    receiver.feed(frame[300_000:], lambda: 1_000)  # bytes that a transport had still buffered
    assert len(responses.all) == 1
    await pool.aclose()


@pytest.mark.parametrize("make_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_real_sockets_deliver_the_same(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    random = Random(1)
    sizes = [(70_000,) * 14, (3,), (900_000, 0, 1), (4_000,) * 60, (129_000,), (9,) * 50]
    stored = [
        [entry(at, random.randbytes(size)) for at, size in enumerate(batch)] for batch in sizes * 4
    ]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def request() -> v2.Request:
            size = int.from_bytes(await reader.readexactly(4), "big")
            return v2.decode_request(await reader.readexactly(size))

        assert isinstance(await request(), v2.AuthRequest)
        for number, batch in enumerate(stored, 1):
            read = await request()
            assert isinstance(read, v2.BatchReadRequest)
            assert read.request_id == number
            writer.write(v2.encode_batch_read_response(v2.Code.OK, 1, 0, number, batch))
        await reader.read(1)
        writer.close()
        over.set()

    over = asyncio.Event()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        runtime, directory = Runtime(FixedClock(), Random(1)), BookieDirectory(MemoryStore())
        pool = BookiePool(runtime, directory, config=LedgerConfig(), region=Region("a"))
        link = pool.link(BookieId("b0@00000000"))
        connection = BookieConnection(link.bookie, LedgerConfig(), link.traffic, link.on_lost)
        port = server.sockets[0].getsockname()[1]
        factory: Any = lambda: connection  # noqa: E731
        await asyncio.get_running_loop().create_connection(factory, "127.0.0.1", port)
        connection._on_ready(ConnectionEvent.PROVE)
        received_all = [Responses() for _ in stored]
        for responses in received_all:
            assert connection.send_batch_read(1, 0, LIMITS, responses)
        async with asyncio.timeout(20):
            await received_all[-1].came.wait()
        assert [responses.all for responses in received_all] == [
            [(None, batch)] for batch in stored
        ]
        connection.fail(BookieUnavailableError("over"))
        async with asyncio.timeout(20):
            await over.wait()
        server.close()
        directory.close()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("digest_type", list(DigestType))
def test_memoryviews_are_verified_like_bytes(digest_type: DigestType) -> None:
    digest = EntryDigest(digest_type, b"secret")
    whole = encode_entry(digest, 1, 5, 4, 100, memoryview(b"payload"))
    assert whole == encode_entry(digest, 1, 5, 4, 100, b"payload")
    found = decode_entry(digest, 1, 5, memoryview(bytearray(b"..." + whole)).toreadonly()[3:])
    assert found == decode_entry(digest, 1, 5, whole)
    assert isinstance(found.payload, memoryview)
    assert found.payload.readonly


def test_partial_frame_is_handed_over_only_if_it_is_large_and_its_size_is_known() -> None:
    splitter = FrameSplitter()
    splitter.cut(b"\x00\x00\x00")
    assert splitter.take_partial_frame(10) is None
    splitter.cut(b"\x09abc")
    assert splitter.take_partial_frame(14) is None
    assert splitter.take_partial_frame(13) == (b"abc", 9)
    assert splitter.held_bytes == 0
    assert splitter.feed(b"\x00\x00\x00\x01x") == [b"x"]


class Owner:
    """Notes what a large frame passes on."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.frames: list[bytes] = []
        self.rest: list[bytes] = []

    def on_received(self, size: int) -> None:
        self.received.append(size)

    def take_large(self, frame: memoryview) -> None:
        assert frame.readonly
        self.frames.append(bytes(frame))

    def data_received(self, data: bytes) -> None:
        self.rest.append(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.rest.append(b"lost")

    def pause_writing(self) -> None:
        self.rest.append(b"paused")

    def resume_writing(self) -> None:
        self.rest.append(b"resumed")


def test_owner_gets_the_frame_and_only_the_bytes_that_follow_it() -> None:
    owner = Owner()
    frame = LargeFrame(owner, b"ab", 6)
    frame.data_received(b"c")
    assert (owner.received, owner.frames, owner.rest) == ([1], [], [])
    frame.data_received(b"def")
    assert (owner.received, owner.frames, owner.rest) == ([1, 3], [b"abcdef"], [])
    frame = LargeFrame(owner, b"ab", 6)
    frame.data_received(b"cdefgh")
    assert (owner.received[2:], owner.frames[1:], owner.rest) == ([4], [b"abcdef"], [b"gh"])


def test_buffer_holds_exactly_the_missing_bytes() -> None:
    owner = Owner()
    frame = LargeFrame(owner, b"ab", 6)
    assert len(frame.get_buffer(1)) == 4
    frame.get_buffer(-1)[:3] = b"cde"
    frame.buffer_updated(3)
    assert len(frame.get_buffer(1_000)) == 1
    assert owner.frames == []
    frame.get_buffer(-1)[:] = b"f"
    frame.buffer_updated(1)
    assert (owner.received, owner.frames, owner.rest) == ([3, 1], [b"abcdef"], [])


def test_state_of_the_transport_is_passed_on_to_the_owner() -> None:
    owner = Owner()
    frame = LargeFrame(owner, b"", 6)
    frame.pause_writing()
    frame.resume_writing()
    assert frame.eof_received() is False
    frame.connection_lost(None)
    assert owner.rest == [b"paused", b"resumed", b"lost"]

"""Connections: identity, addresses, time-outs, loss, backoff, bounds."""

import asyncio
from typing import Any

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.connection.bookie_connection import BookieConnection
from rhumbline.core.ledger.connection.bookie_link import address_for
from rhumbline.core.ledger.connection.bookie_pool import BookiePool
from rhumbline.core.ledger.connection.connection_state import ConnectionEvent
from rhumbline.core.ledger.connection.link_traffic import LinkTraffic
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    ClosedError,
    DeadlineExceededError,
    InvariantBrokenError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ProtocolError,
    ReadOnlyError,
    RhumblineError,
    UnknownStateError,
)
from rhumbline.core.protocol.ledger_metadata import DigestType
from rhumbline.core.wire import handshake, v2, v3
from rhumbline.core.wire.entry import EntryDigest, encode_entry, master_key
from rhumbline.core.wire.registration import Registration
from rhumbline.tests.unit.core.ledger.world import HOLD, FakeBookie, World, run_in_world, until

pytestmark = pytest.mark.run_by(runner=run_in_world)

DIGEST = EntryDigest(DigestType.CRC32C)


def entry(entry_id: int) -> bytes:
    return encode_entry(DIGEST, 1, entry_id, -1, 1, b"x")


def pool_of(world: World, config: LedgerConfig | None = None) -> BookiePool:
    return BookiePool(
        world.runtime,
        world.directory,
        config=config or LedgerConfig(request_timeout_ms=400),
        region=Region("a"),
    )


class Responses:
    def __init__(self) -> None:
        self.all: list[tuple[RhumblineError | None, object]] = []

    def __call__(self, error: RhumblineError | None, response: object) -> None:
        self.all.append((error, response))

    @property
    def errors(self) -> list[type[RhumblineError] | None]:
        return [type(error) if error is not None else None for error, _ in self.all]


async def test_requests_made_while_connecting_are_sent_and_completed() -> None:
    world = World("a")
    pool = pool_of(world)
    world.bookies[0].entries[1, 5] = entry(5)
    connection = pool.link(world.bookies[0].bookie).connect()
    assert connection is not None
    found, missing, batch, lac = all_responses = [Responses() for _ in range(4)]
    assert connection.send_read(1, 5, found)
    assert connection.send_read(1, 6, missing)
    assert connection.send_batch_read(1, 5, (10, 1000), batch)
    assert connection.send_message(v3.read_lac_request(0, 1), lac)
    assert [responses.all for responses in all_responses] == [[], [], [], []]
    await until(lambda: all(responses.all for responses in all_responses))
    assert found.all == [(None, entry(5))]
    assert batch.all == [(None, [entry(5)])]
    assert missing.errors == [NoSuchEntryError]
    assert lac.errors == [None]
    assert connection.is_idle
    assert connection.in_flight_bytes == 0
    await pool.aclose()


async def test_backoff_begins_anew_after_a_connection_that_worked() -> None:
    """Ten lost connections in a bookie's life must not make the eleventh wait for the longest."""
    world = World("a")
    config = LedgerConfig(backoff_ms_min=10, backoff_ms_max=60_000)
    pool = pool_of(world, config)
    link = pool.link(world.bookies[0].bookie)
    loop = asyncio.get_running_loop()
    for _ in range(10):
        connection = link.connect()
        assert connection is not None
        await connection.wait_ready()
        await asyncio.sleep(0)  # the link learns of it
        began = loop.time()
        connection.fail(BookieUnavailableError("the network broke"))
        await until(lambda: not link.is_backing_off)
        assert loop.time() - began < 0.1
    await pool.aclose()


async def test_bookie_of_another_incarnation_is_unreachable_and_never_answers_no() -> None:
    world = World("ab")
    pool = pool_of(world)
    wanted, impostor = world.bookies
    wanted.port = impostor.port
    connection = pool.link(wanted.bookie).connect()
    assert connection is not None
    responses = Responses()
    connection.send_read(1, 5, responses)
    await until(lambda: len(responses.all) == 1)
    assert responses.errors == [BookieUnavailableError]
    assert impostor.requests == []
    await pool.aclose()


async def test_lost_connection_fails_pending_requests_and_starts_the_backoff() -> None:
    world = World("a")
    pool = pool_of(world)
    bookie = world.bookies[0]
    bookie.is_hung = True
    link = pool.link(bookie.bookie)
    connection = link.connect()
    assert connection is not None
    responses = Responses()
    connection.send_read(1, 5, responses)
    connection.send_message(v3.read_lac_request(0, 1), responses)
    await asyncio.sleep(0.05)
    bookie.go_down()
    await until(lambda: len(responses.all) == 2)
    assert responses.errors == [BookieUnavailableError] * 2
    assert link.connect() is None
    pauses = []
    for _ in range(8):
        started = asyncio.get_running_loop().time()
        await until(lambda: link.connect() is not None)
        await until(lambda: link.connection is None)
        pauses.append(asyncio.get_running_loop().time() - started)
    assert pauses[-1] > 0.9, "the backoff grows"
    assert max(pauses) < 3.1, "the backoff is bounded"
    bookie.come_up()
    bookie.is_hung = False
    await until(lambda: link.connect() is not None)
    again = link.connect()
    assert again is not None
    again.send_message(v3.read_lac_request(0, 1), responses)
    await until(lambda: len(responses.all) == 3)
    assert responses.errors[2] is None
    await pool.aclose()


async def test_late_response_fails_one_request_and_a_silent_peer_ends_the_connection() -> None:
    world = World("a")
    loop = asyncio.get_running_loop()
    pool = pool_of(world)
    bookie = world.bookies[0]
    bookie.script = lambda request: (
        HOLD if isinstance(request, v2.ReadRequest) and request.entry_id == 5 else None
    )
    connection = pool.link(bookie.bookie).connect()
    assert connection is not None
    late, quick = Responses(), Responses()
    connection.send_read(1, 5, late)
    started = loop.time()
    while not late.all:
        connection.send_read(1, 6, quick)
        await asyncio.sleep(0.02)
    assert 0.4 <= loop.time() - started < 0.6
    assert late.errors == [DeadlineExceededError]
    await asyncio.sleep(0.01)
    assert dict.fromkeys(quick.errors) == {NoSuchEntryError: None}
    assert pool.link(bookie.bookie).connection is connection
    bookie.release()  # too late: no request waits for it
    await asyncio.sleep(0.01)
    bookie.is_hung = True
    connection.send_read(1, 7, late)
    await until(lambda: len(late.all) == 2)
    assert pool.link(bookie.bookie).connection is None
    await pool.aclose()


async def test_long_poll_may_wait_longer_than_other_requests() -> None:
    world = World("a")
    pool = pool_of(world)
    connection = pool.link(world.bookies[0].bookie).connect()
    assert connection is not None
    responses = Responses()
    request = v3.long_poll_request(0, 1, previous_lac=-1, timeout_ms=3_000)
    connection.send_message(request, responses, extra_ms=3_000)
    await until(lambda: len(responses.all) == 1)
    assert responses.errors == [None]
    await pool.aclose()


async def test_unanswered_bytes_and_requests_are_bounded() -> None:
    world = World("a")
    config = LedgerConfig(in_flight_requests_max=10, request_timeout_ms=300)
    pool = pool_of(world, config)
    bookie = world.bookies[0]
    bookie.is_hung = True
    connection = pool.link(bookie.bookie).connect()
    assert connection is not None
    responses = Responses()
    taken = [connection.send_message(v3.read_lac_request(0, i), responses) for i in range(20)]
    assert taken == [True] * 10 + [False] * 10
    await until(lambda: len(responses.all) == 10)
    assert connection.in_flight_bytes == 0
    await pool.aclose()


async def test_apache_bookie_gets_messages_over_a_second_connection_and_no_handshake() -> None:
    world = World("a")
    apache = FakeBookie(BookieId("10.0.0.1:3181"), 9100, None)
    world.bookies.append(apache)
    world.by_id[apache.bookie] = apache
    world.loop.bookies[apache.port] = apache
    pool = pool_of(world)
    fast = pool.link(apache.bookie).connect()
    message = pool.message_link(apache.bookie).connect()
    assert fast is not None
    assert message is not None
    assert fast is not message
    responses = Responses()
    fast.send_read(1, 0, responses)
    message.send_message(v3.read_lac_request(0, 1), responses)
    await until(lambda: len(responses.all) == 2)
    assert len(apache.pipes) == 2
    ours = world.bookies[0].bookie
    assert pool.message_link(ours) is pool.link(ours)
    await pool.aclose()


async def test_peer_that_breaks_the_protocol_loses_its_connection() -> None:
    world = World("a")
    pool = pool_of(world)
    bookie = world.bookies[0]
    connection = pool.link(bookie.bookie).connect()
    assert connection is not None
    responses = Responses()
    connection.send_message(v3.read_lac_request(0, 1), responses)
    await until(lambda: len(responses.all) == 1)
    bookie.is_hung = True
    connection.send_read(1, 5, responses)
    await asyncio.sleep(0.01)
    bookie.pipes[0].respond(b"\x00\x00\x00\x04\x02\x09\x00\x00")
    await until(lambda: len(responses.all) == 2)
    assert responses.errors[1] is ProtocolError
    assert pool.link(bookie.bookie).connection is None
    await pool.aclose()


def test_address_is_the_one_advertised_to_the_own_region() -> None:
    bookie = BookieId("b@00000001")
    plain = Registration(bookie, "10.0.0.1", 3181)
    special = Registration(
        bookie, "10.0.0.1", 3181, {"address.far": "relay:99", "address.bad": "x"}
    )
    assert address_for(plain, Region("far")) == ("10.0.0.1", 3181)
    assert address_for(special, None) == ("10.0.0.1", 3181)
    assert address_for(special, Region("near")) == ("10.0.0.1", 3181)
    assert address_for(special, Region("far")) == ("relay", 99)
    with pytest.raises(ProtocolError):
        address_for(special, Region("bad"))


class Writer:
    def __init__(self) -> None:
        self.outcomes: list[tuple[int, RhumblineError | None]] = []

    def on_added(self, op: "Op", replica: object, error: RhumblineError | None) -> None:
        self.outcomes.append((op.entry_id, error))


class Op:
    def __init__(self, writer: Writer, entry_id: int) -> None:
        self.on_added = writer.on_added
        self.entry_id = entry_id
        self.frame = v2.encode_add(master_key(b""), entry(entry_id))
        self.key = self.frame[28:44]
        self.pushed_at = 0.0


@pytest.mark.parametrize("cut", [1, 7, 27, 28, 29, 100, 1000])
async def test_responses_are_matched_however_the_bytes_are_cut(cut: int) -> None:
    world = World("a")
    pool = pool_of(world)
    bookie = world.bookies[0]
    connection = pool.link(bookie.bookie).connect()
    assert connection is not None
    await connection.wait_ready()
    bookie.is_hung = True
    writer, responses = Writer(), Responses()
    for i in range(10):
        op = Op(writer, i)
        assert connection.send_add(op.key, op.frame, op, None)  # type: ignore[arg-type]
    connection.send_read(1, 3, responses)
    data = b"".join(
        [
            *(v2.encode_add_response(v2.Code.OK, 1, i) for i in range(6)),
            v2.encode_read_response(v2.Code.OK, 1, 3, entry(3)),
            v2.encode_add_response(v2.Code.OK, 1, 99),  # no request waits for it
            *(v2.encode_add_response(v2.Code.FENCED, 1, i) for i in range(6, 10)),
        ]
    )
    for start in range(0, len(data), cut):
        connection.data_received(data[start : start + cut])
    assert [entry_id for entry_id, _ in writer.outcomes] == list(range(10))
    assert [error is None for _, error in writer.outcomes] == [True] * 6 + [False] * 4
    assert responses.all == [(None, entry(3))]
    assert connection.is_idle
    await pool.aclose()


async def test_add_that_is_sent_again_completes_once() -> None:
    world = World("a")
    pool = pool_of(world)
    connection = pool.link(world.bookies[0].bookie).connect()
    assert connection is not None
    writer = Writer()
    op = Op(writer, 0)
    for _ in range(2):
        assert connection.send_add(op.key, op.frame, op, None)  # type: ignore[arg-type]
    await asyncio.sleep(0.1)
    assert writer.outcomes == [(0, None)]
    assert connection.in_flight_bytes == 0
    await pool.aclose()


async def test_idle_connection_keeps_no_timer() -> None:
    world = World("a")
    pool = pool_of(world)
    connection = pool.link(world.bookies[0].bookie).connect()
    assert connection is not None
    responses = Responses()
    connection.send_read(1, 0, responses)
    await asyncio.sleep(1)
    assert len(responses.all) == 1
    timers = [handle for handle in world.loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
    assert timers == []
    await pool.aclose()


# --- a connection alone, over a transport that a test reads -------------------------------------


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.aborts = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.aborts += 1


APACHE = BookieId("10.0.0.1:3181")
OURS = BookieId("b0@00000000")
TICKS = LedgerConfig(request_timeout_ms=400)
MIB = 1 << 20


class Alone:
    """One connection, its transport, and how it was lost."""

    def __init__(self, bookie: BookieId = APACHE, config: LedgerConfig = TICKS) -> None:
        self.lost: list[RhumblineError] = []
        self.traffic = LinkTraffic()
        self.connection = BookieConnection(
            bookie, config, self.traffic, lambda _, error: self.lost.append(error)
        )
        self.transport = Transport()
        self.writer = Writer()

    def connect(self) -> "Alone":
        self.connection.connection_made(self.transport)
        return self

    def add(self, entry_id: int, frame: bytes | None = None) -> bool:
        op: Any = Op(self.writer, entry_id)
        return self.connection.send_add(op.key, frame or op.frame, op, None)  # type: ignore[arg-type]

    def take(self, *frames: bytes) -> None:
        self.connection.data_received(b"".join(frames))

    @property
    def outcomes(self) -> list[tuple[int, type[RhumblineError] | None]]:
        return [(i, type(error) if error else None) for i, error in self.writer.outcomes]


def added(entry_id: int, code: int = v2.Code.OK) -> bytes:
    return v2.encode_add_response(code, 1, entry_id)


async def pass_ms(count: float) -> None:
    await asyncio.sleep(count / 1000)


async def test_bytes_in_flight_are_bounded_exactly_and_refused_requests_have_no_effect() -> None:
    alone = Alone(config=LedgerConfig(in_flight_bytes_max=MIB))
    read = v2.encode_read(1, 0)
    assert alone.add(0, b"x" * (MIB - len(read) - 1))
    assert not alone.add(1, b"x" * (len(read) + 2))
    assert alone.connection.send_read(1, 0, Responses())
    assert alone.connection.in_flight_bytes == MIB - 1
    assert not alone.connection.send_read(1, 0, Responses())
    assert not alone.connection.send_batch_read(1, 0, (1, 1), Responses())
    assert not alone.connection.send_message(v3.read_lac_request(0, 1), Responses())
    assert alone.add(2, b"x")
    assert not alone.add(3, b"x")
    assert alone.connection.in_flight_bytes == MIB
    alone.connection.fail(BookieUnavailableError("lost"))
    assert [entry_id for entry_id, _ in alone.outcomes] == [0, 2]
    assert alone.connection.in_flight_bytes == 0


async def test_number_of_adds_and_of_other_requests_is_bounded_exactly() -> None:
    alone = Alone(config=LedgerConfig(in_flight_requests_max=3))
    assert [alone.add(entry_id) for entry_id in range(4)] == [True, True, True, False]
    connection = alone.connection
    assert connection.send_read(1, 0, Responses())
    assert connection.send_message(v3.read_lac_request(0, 1), Responses())
    assert connection.send_read(1, 1, Responses())
    assert not connection.send_read(1, 2, Responses())
    assert not connection.send_batch_read(1, 3, (1, 1), Responses())
    assert not connection.send_message(v3.read_lac_request(0, 1), Responses())


async def test_requests_are_sent_together_once_the_connection_is_ready() -> None:
    alone = Alone(OURS)
    alone.add(0)
    alone.connection.send_read(1, 5, Responses())
    alone.connect()
    hello = v2.encode_auth(handshake.PLUGIN, handshake.encode_hello(OURS))
    await pass_ms(5)
    assert alone.transport.written == [hello]
    proof = v2.encode_auth(handshake.PLUGIN, handshake.encode_response(OURS, OURS))
    waiting = asyncio.get_running_loop().create_task(alone.connection.wait_ready())
    await pass_ms(5)
    assert not waiting.done()
    alone.take(proof)
    await waiting
    frames = v2.encode_add(master_key(b""), entry(0)) + v2.encode_read(1, 5)
    assert alone.transport.written == [hello, frames]
    assert alone.traffic.sent_bytes == len(frames)
    assert alone.traffic.received_bytes == len(proof)
    alone.connection.send_read(1, 6, Responses())
    alone.add(1)
    assert len(alone.transport.written) == 2
    await pass_ms(1)
    assert alone.transport.written[2] == v2.encode_read(1, 6) + v2.encode_add(
        master_key(b""), entry(1)
    )
    alone.connection.send_message(v3.read_lac_request(0, 1), Responses())
    await pass_ms(1)
    assert len(alone.transport.written) == 4
    assert alone.traffic.sent_bytes == sum(map(len, alone.transport.written[1:]))
    alone.connection.fail(BookieUnavailableError("end"))


async def test_batch_read_is_sent_at_once() -> None:
    alone = Alone().connect()
    alone.connection.send_batch_read(1, 5, (10, 1000), Responses())
    assert alone.transport.written == [v2.encode_batch_read(1, 5, 1, count_max=10, bytes_max=1000)]
    await pass_ms(1)
    assert len(alone.transport.written) == 1
    alone.connection.fail(BookieUnavailableError("end"))


async def test_numbered_requests_have_numbers_of_their_own() -> None:
    alone = Alone().connect()
    responses = [Responses() for _ in range(3)]
    first, last = v3.read_lac_request(0, 1), v3.read_lac_request(0, 2)
    alone.connection.send_message(first, responses[0])
    alone.connection.send_batch_read(1, 5, (10, 1000), responses[1])
    alone.connection.send_message(last, responses[2])
    assert (first.header.txn_id, last.header.txn_id) == (1, 3)
    alone.take(
        v3.frame(v3.read_lac_response(last, v3.Status.NO_ENTRY)),
        v2.encode_batch_read_response(v2.Code.OK, 1, 5, 9, [entry(5)]),
        v2.encode_batch_read_response(v2.Code.NO_LEDGER, 1, 5, 2),
    )
    assert [len(each.all) for each in responses] == [0, 1, 1]
    assert responses[1].errors == [NoSuchLedgerError]
    assert responses[2].errors == [None]
    alone.connection.fail(BookieUnavailableError("end"))
    assert responses[0].all[0][1] is None


async def test_requests_wait_while_the_transport_is_full() -> None:
    alone = Alone().connect()
    alone.connection.pause_writing()
    alone.add(0)
    await pass_ms(5)
    assert alone.transport.written == []
    alone.connection.resume_writing()
    assert alone.transport.written == [v2.encode_add(master_key(b""), entry(0))]
    alone.connection.resume_writing()
    assert len(alone.transport.written) == 1
    assert alone.connection.eof_received() is False
    alone.connection.fail(BookieUnavailableError("end"))


async def test_request_times_out_one_tick_after_its_time_out_at_the_latest() -> None:
    alone = Alone().connect()
    responses = Responses()
    alone.connection.send_read(1, 5, responses)
    alone.add(7)
    for _ in range(4):
        await pass_ms(99)
        alone.take(added(99))  # the bookie is not silent
    await pass_ms(103)
    assert responses.all == []
    await pass_ms(2)
    assert responses.errors == [DeadlineExceededError]
    assert alone.outcomes == [(7, DeadlineExceededError)]
    assert alone.connection.in_flight_bytes == 0
    assert alone.connection.is_idle
    assert alone.lost == []
    await pass_ms(10_000)
    alone.take(added(7))
    assert len(alone.outcomes) == 1


async def test_extra_time_is_rounded_up_to_ticks() -> None:
    alone = Alone().connect()
    responses = {extra_ms: Responses() for extra_ms in (0, 1, 100, 101)}
    for extra_ms, each in responses.items():
        alone.connection.send_message(v3.read_lac_request(0, 1), each, extra_ms=extra_ms)
    at: dict[int, int] = {}
    for tenth in range(1, 10):
        await pass_ms(99.9)
        alone.take(added(99))
        await pass_ms(0.2)
        for extra_ms, each in responses.items():
            if each.all:
                at.setdefault(extra_ms, tenth)
    assert at == {0: 5, 1: 6, 100: 6, 101: 7}
    assert alone.lost == []


async def test_requests_time_out_each_in_its_own_time() -> None:
    alone = Alone().connect()
    early, late = Responses(), Responses()
    alone.connection.send_read(1, 5, early)
    alone.add(0)
    await pass_ms(150)
    alone.connection.send_read(1, 5, late)
    alone.connection.send_read(1, 6, late)
    alone.add(1)
    alone.add(0)  # sent again: it is the last one now
    for _ in range(4):
        await pass_ms(95)
        alone.take(added(99))
    assert (len(early.all), late.all, alone.outcomes) == (1, [], [])
    alone.take(v2.encode_read_response(v2.Code.OK, 1, 5, entry(5)))
    assert late.all == [(None, entry(5))]
    assert not alone.connection.is_idle
    await pass_ms(100)
    assert late.errors == [None, DeadlineExceededError]
    assert alone.outcomes == [(1, DeadlineExceededError), (0, DeadlineExceededError)]
    assert (alone.connection.in_flight_bytes, alone.lost) == (0, [])


async def test_silence_for_a_whole_time_out_ends_the_connection() -> None:
    alone = Alone().connect()
    responses = Responses()
    alone.connection.send_read(1, 5, responses)
    await pass_ms(250)
    alone.connection.send_message(v3.read_lac_request(0, 1), responses, extra_ms=5_000)
    alone.add(3)
    await pass_ms(245)
    assert alone.lost == []
    await pass_ms(10)
    assert [str(error) for error in alone.lost] == [f"{APACHE} is silent"]
    assert alone.transport.aborts == 1
    assert sorted(error.__name__ for error in responses.errors if error) == [
        "BookieUnavailableError",
        "DeadlineExceededError",
    ]
    assert alone.outcomes == [(3, BookieUnavailableError)]


async def test_bytes_received_in_the_first_tick_do_not_prove_that_a_peer_is_alive_later() -> None:
    alone = Alone().connect()
    responses = Responses()
    alone.connection.send_read(1, 5, responses)
    await pass_ms(50)
    alone.connection.on_received(10)
    await pass_ms(455)
    assert len(alone.lost) == 1
    assert alone.traffic.received_bytes == 10


async def test_bytes_of_a_large_frame_prove_that_the_peer_is_alive() -> None:
    alone = Alone().connect()
    responses = Responses()
    alone.connection.send_read(1, 5, responses)
    await pass_ms(150)
    alone.connection.on_received(10)
    await pass_ms(355)
    assert responses.errors == [DeadlineExceededError]
    assert alone.lost == []


async def test_one_tick_times_out_a_bounded_number_of_adds() -> None:
    alone = Alone().connect()
    for entry_id in range(10_001):
        alone.add(entry_id)
    await pass_ms(350)
    alone.take(added(99_999))
    await pass_ms(160)
    assert len(alone.outcomes) == 10_000
    await pass_ms(100)
    assert alone.outcomes[-1] == (10_000, DeadlineExceededError)
    assert alone.connection.is_idle


async def test_equal_reads_are_completed_in_order() -> None:
    alone = Alone().connect()
    first, second = Responses(), Responses()
    alone.connection.send_read(1, 5, first)
    alone.connection.send_read(1, 5, second)
    alone.take(v2.encode_read_response(v2.Code.IO, 1, 5))
    assert (first.errors, second.errors) == ([UnknownStateError], [])
    assert str(first.all[0][0]) == f"{APACHE} responded with code 101"
    alone.take(v2.encode_read_response(v2.Code.OK, 1, 5, entry(5)))
    assert second.all == [(None, entry(5))]
    alone.take(v2.encode_read_response(v2.Code.OK, 1, 5, entry(5)))
    assert (len(first.all), len(second.all)) == (1, 1)
    assert alone.connection.in_flight_bytes == 0


async def test_bytes_in_flight_fall_with_every_kind_of_response() -> None:
    alone = Alone().connect()
    kept = v2.encode_read(1, 99)
    request = v3.read_lac_request(0, 1)
    alone.connection.send_read(1, 99, Responses())
    alone.add(0)
    alone.add(1)
    alone.add(1)
    alone.connection.send_read(1, 5, Responses())
    alone.connection.send_batch_read(1, 5, (10, 1000), Responses())
    alone.connection.send_message(request, Responses())
    alone.take(added(0))
    alone.take(added(1)[:10])
    alone.take(added(1)[10:])  # in two pieces, it is taken as a frame
    alone.take(v2.encode_read_response(v2.Code.OK, 1, 5, entry(5)))
    alone.take(v2.encode_batch_read_response(v2.Code.OK, 1, 5, 1, [entry(5)]))
    alone.take(v3.frame(v3.read_lac_response(request, v3.Status.NO_ENTRY)))
    assert alone.connection.in_flight_bytes == len(kept)
    assert not alone.connection.is_idle
    assert alone.outcomes == [(0, None), (1, None)]
    alone.connection.fail(BookieUnavailableError("end"))


@pytest.mark.parametrize("is_split", [False, True])
async def test_error_of_an_add_is_that_of_its_code(is_split: bool) -> None:
    alone = Alone().connect()
    codes = [v2.Code.FENCED, v2.Code.READ_ONLY, 9999, v2.Code.OK]
    for entry_id, code in enumerate(codes):
        alone.add(entry_id)
        data = added(entry_id, code)
        cut = 5 if is_split else 0
        alone.take(data[:cut])
        alone.take(data[cut:])
    assert [error for _, error in alone.outcomes] == [
        LedgerFencedError,
        ReadOnlyError,
        UnknownStateError,
        None,
    ]
    assert str(alone.writer.outcomes[0][1]) == f"{APACHE} responded with code 104"


async def test_connection_that_fails_within_a_response_completes_the_others_once() -> None:
    alone = Alone().connect()
    outcomes: list[tuple[int, bool]] = []

    def on_added(op: Op, _: object, error: RhumblineError | None) -> None:
        outcomes.append((op.entry_id, error is None))
        alone.connection.fail(ClosedError("closed by the first callback"))

    alone.writer.on_added = on_added  # type: ignore[method-assign,assignment]
    for entry_id in range(3):
        alone.add(entry_id)
    responses = Responses()
    alone.connection.send_read(1, 5, responses)
    read = v2.encode_read_response(v2.Code.OK, 1, 5, entry(5))
    alone.take(added(0), added(1), added(2), read)
    assert outcomes == [(0, True), (1, False), (2, False)]
    assert responses.errors == [ClosedError]
    assert alone.lost == [responses.all[0][0]]
    assert str(alone.lost[0]) == "closed by the first callback"


async def test_frames_after_the_end_of_the_connection_are_ignored() -> None:
    alone = Alone().connect()
    second = Responses()

    def on_first(error: RhumblineError | None, _: object) -> None:
        alone.connection.fail(ClosedError("end"))
        alone.connection.fail(ClosedError("again"))

    alone.connection.send_read(1, 5, on_first)
    alone.connection.send_read(1, 6, second)
    alone.take(
        v2.encode_read_response(v2.Code.NO_ENTRY, 1, 5),
        v2.encode_read_response(v2.Code.OK, 1, 6, entry(6)),
    )
    assert second.errors == [ClosedError]
    assert len(alone.lost) == 1
    assert alone.transport.aborts == 1


async def test_lost_connection_says_why() -> None:
    alone, other = Alone().connect(), Alone().connect()
    responses = Responses()
    alone.connection.send_read(1, 5, responses)
    alone.connection.connection_lost(None)
    assert responses.errors == [BookieUnavailableError]
    assert str(alone.lost[0]) == f"connection to {APACHE} lost: closed"
    other.connection.connection_lost(OSError("reset"))
    assert str(other.lost[0]) == f"connection to {APACHE} lost: reset"


async def test_transport_that_comes_after_the_time_out_is_aborted() -> None:
    alone = Alone(OURS)
    waiting = asyncio.get_running_loop().create_task(alone.connection.wait_ready())
    await pass_ms(1)
    alone.connection.fail(BookieUnavailableError("timed out"))
    with pytest.raises(BookieUnavailableError, match=r"^timed out$"):
        await waiting
    alone.connect()
    assert alone.transport.aborts == 1
    assert alone.transport.written == []


async def test_caller_that_stops_waiting_does_not_disturb_the_others() -> None:
    alone = Alone(OURS)
    loop = asyncio.get_running_loop()
    one = loop.create_task(alone.connection.wait_ready())
    other = loop.create_task(alone.connection.wait_ready())
    await pass_ms(1)
    one.cancel()
    alone.connect()
    alone.take(v2.encode_auth(handshake.PLUGIN, handshake.encode_response(OURS, OURS)))
    await other
    assert one.cancelled()
    alone.connection.fail(BookieUnavailableError("end"))


async def test_bookie_that_does_not_know_the_plugin_is_unreachable() -> None:
    alone = Alone(OURS).connect()
    alone.take(v2.encode_auth(handshake.APACHE_NO_AUTH_PLUGIN, b""))
    assert [type(error) for error in alone.lost] == [BookieUnavailableError]


@pytest.mark.parametrize("bookie", [APACHE, OURS])
async def test_proof_that_was_not_asked_for_breaks_the_protocol(bookie: BookieId) -> None:
    alone = Alone(bookie).connect()
    proof = v2.encode_auth(handshake.PLUGIN, handshake.encode_response(OURS, OURS))
    if bookie == OURS:
        alone.take(proof)
    assert alone.lost == []
    alone.take(proof)
    assert [type(error) for error in alone.lost] == [ProtocolError]


async def test_story_tells_the_states_of_the_connection() -> None:
    alone = Alone(OURS).connect()
    alone.connection.fail(BookieUnavailableError("cable cut"))
    story = alone.connection.story()
    assert story.index("HANDSHAKE") < story.index("LOST")
    assert "cable cut" in story


async def test_connection_that_serves_requests_without_a_transport_is_a_bug() -> None:
    alone = Alone(OURS)
    with pytest.raises(InvariantBrokenError, match="requests have no transport") as broken:
        alone.connection._life.take(ConnectionEvent.CONNECT)
    assert broken.value.story.endswith("CONNECTING -> HANDSHAKE by CONNECT")


async def test_reads_may_fill_the_bytes_in_flight_to_the_last_one() -> None:
    alone = Alone(config=LedgerConfig(in_flight_bytes_max=MIB))
    assert alone.add(0, b"x" * (MIB - len(v2.encode_read(1, 0))))
    assert alone.connection.send_read(1, 0, Responses())
    assert alone.connection.in_flight_bytes == MIB
    assert not alone.connection.send_read(1, 0, Responses())
    alone.connection.fail(BookieUnavailableError("lost"))


async def test_handshake_is_a_measured_round_trip() -> None:
    alone = Alone(OURS)
    await pass_ms(40)
    alone.connect()
    await pass_ms(5)
    alone.take(v2.encode_auth(handshake.PLUGIN, handshake.encode_response(OURS, OURS)))
    assert alone.traffic.latency.take_lowest_ms() == pytest.approx(5)
    alone.connection.fail(BookieUnavailableError("end"))

"""Connections: identity, addresses, time-outs, loss, backoff, bounds."""

import asyncio

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.connection.bookie_link import address_for
from rhumbline.core.ledger.connection.bookie_pool import BookiePool
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    DeadlineExceededError,
    NoSuchEntryError,
    ProtocolError,
    RhumblineError,
)
from rhumbline.core.protocol.ledger_metadata import DigestType
from rhumbline.core.wire import v2, v3
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

"""The pool of links: one per bookie, the memory of failures, traffic, and the end."""

import asyncio

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.connection.bookie_pool import BookiePool
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import ClosedError, RhumblineError
from rhumbline.core.wire import v2, v3
from rhumbline.tests.unit.core.ledger.world import FakeBookie, World, run_in_world, until

pytestmark = pytest.mark.run_by(runner=run_in_world)


def pool_of(world: World, config: LedgerConfig | None = None) -> BookiePool:
    return BookiePool(
        world.runtime, world.directory, config=config or LedgerConfig(), region=Region("a")
    )


def add_apache(world: World) -> FakeBookie:
    apache = FakeBookie(BookieId("10.0.0.1:3181"), 9100, None)
    world.bookies.append(apache)
    world.by_id[apache.bookie] = apache
    world.loop.bookies[apache.port] = apache
    return apache


async def test_each_bookie_has_one_link_for_each_protocol_that_it_separates() -> None:
    world = World("ab")
    apache = add_apache(world).bookie
    pool = pool_of(world)
    ours, other = world.bookies[0].bookie, world.bookies[1].bookie
    assert pool.link(ours) is pool.link(ours) is pool.message_link(ours)
    assert pool.link(ours) is not pool.link(other)
    assert pool.link(apache) is pool.link(apache)
    assert pool.message_link(apache) is pool.message_link(apache)
    assert pool.link(apache) is not pool.message_link(apache)
    assert pool.link(other).bookie == other
    await pool.aclose()


async def test_failures_are_remembered_for_a_while_and_listed_oldest_first() -> None:
    world = World("abc")
    pool = pool_of(world, LedgerConfig(failure_memory_ms=1_000))
    a, b, c = (bookie.bookie for bookie in world.bookies)
    assert pool.failed_lately() == []
    pool.on_failure(a)
    await asyncio.sleep(0.4)
    pool.on_failure(b)
    pool.on_failure(c)
    assert pool.failed_lately() == [a, b, c]
    await asyncio.sleep(0.4)
    pool.on_failure(b)
    assert pool.failed_lately() == [a, c, b]
    await asyncio.sleep(0.3)
    assert pool.failed_lately() == [c, b]
    await asyncio.sleep(0.4)
    assert pool.failed_lately() == [b]
    await asyncio.sleep(0.4)
    assert pool.failed_lately() == []


async def test_failure_counts_until_the_end_of_the_memory() -> None:
    world = World("a")
    pool = pool_of(world, LedgerConfig(failure_memory_ms=0))
    pool.on_failure(world.bookies[0].bookie)
    assert pool.failed_lately() == [world.bookies[0].bookie]
    await asyncio.sleep(0.001)
    assert pool.failed_lately() == []


async def test_traffic_is_summed_over_both_links_of_a_bookie() -> None:
    world = World("a")
    apache = add_apache(world)
    pool = pool_of(world)
    assert pool.traffic() == {}
    errors: list[RhumblineError | None] = []
    fast, message = pool.link(apache.bookie).connect(), pool.message_link(apache.bookie).connect()
    assert fast is not None
    assert message is not None
    read = v2.encode_read(1, 0)
    request = v3.read_lac_request(0, 1)
    fast.send_read(1, 0, lambda error, _: errors.append(error))
    message.send_message(request, lambda error, _: errors.append(error))
    pool.link(world.bookies[0].bookie)
    await until(lambda: len(errors) == 2)
    request.header.txn_id = 1
    lac = v3.frame(v3.read_lac_response(request, v3.Status.NO_ENTRY))
    assert pool.traffic() == {
        world.bookies[0].bookie: (0, 0),
        apache.bookie: (
            len(read) + len(v3.frame(request)),
            len(v2.encode_read_response(v2.Code.NO_ENTRY, 1, 0)) + len(lac),
        ),
    }
    await pool.aclose()


async def test_the_median_of_recent_adds_is_told_where_adds_were_timed() -> None:
    world = World("ab")
    pool = pool_of(world)
    timed, idle = (bookie.bookie for bookie in world.bookies)
    pool.link(idle)
    latency = pool.link(timed).traffic.latency
    for number, took_s in enumerate((0.03, 0.01, 0.02)):
        latency.begin(b"key", float(number))
        latency.end(number + took_s)
    assert pool.recent_add_ms(3.0) == pytest.approx({timed: 20.0})
    assert pool.recent_add_ms(60.0) == {}
    await pool.aclose()


async def test_closed_pool_fails_all_requests_and_connects_no_more() -> None:
    world = World("a")
    apache = add_apache(world)
    pool = pool_of(world)
    errors: list[RhumblineError | None] = []
    links = [
        pool.link(world.bookies[0].bookie),
        pool.link(apache.bookie),
        pool.message_link(apache.bookie),
    ]
    for bookie in world.bookies:
        bookie.is_hung = True
    for link in links:
        connection = link.connect()
        assert connection is not None
        connection.send_message(v3.read_lac_request(0, 1), lambda error, _: errors.append(error))
    await asyncio.sleep(0.1)
    assert errors == []
    await pool.aclose()
    assert [type(error) for error in errors] == [ClosedError] * 3
    assert {str(error) for error in errors} == {"the ledger client was closed"}
    await asyncio.sleep(60)
    assert [link.connect() for link in links] == [None, None, None]
    await pool.aclose()


async def test_pool_that_is_closed_while_it_connects_leaves_no_connection() -> None:
    world = World("a")
    pool = pool_of(world)
    link = pool.link(world.bookies[0].bookie)
    errors: list[RhumblineError | None] = []
    connection = link.connect()
    assert connection is not None
    connection.send_message(v3.read_lac_request(0, 1), lambda error, _: errors.append(error))
    await asyncio.sleep(0)
    await pool.aclose()
    assert len(errors) == 1
    assert link.connection is None
    assert "cancelled" in str(link.last_error)


async def test_writers_of_a_process_leave_slow_bookies_at_a_bounded_rate() -> None:
    pool = pool_of(World("abc"))
    assert [pool.may_leave(0.0) for _ in range(25)] == [True] * 20 + [False] * 5
    assert [pool.may_leave(0.1) for _ in range(3)] == [True, True, False]


async def test_bookies_that_were_left_are_remembered_for_a_while() -> None:
    world = World("abc")
    pool = pool_of(world, LedgerConfig(slow_memory_ms=1_000))
    a, b, _ = (bookie.bookie for bookie in world.bookies)
    pool.on_slow(a)
    await asyncio.sleep(0.6)
    pool.on_slow(b)
    assert (pool.slow_lately(), pool.departure_count) == ([a, b], 2)
    await asyncio.sleep(0.6)
    assert (pool.slow_lately(), pool.departure_count) == ([b], 2)

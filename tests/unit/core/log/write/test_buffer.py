"""Tests of flush policies: the number and time of entries, and when records become visible."""

import asyncio
from collections import Counter

import pytest

from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.read.stream_reader import StreamReader
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld


async def open_writer_with(world: LogWorld, flush: FlushPolicy) -> StreamWriter:
    return await world.writer("s", StreamPolicy(flush=flush))


def now() -> float:
    return asyncio.get_running_loop().time()


async def next_payload(reader: StreamReader) -> bytes:
    return (await asyncio.wait_for(anext(reader), 60)).payload


async def test_immediate_flush_sends_one_entry_per_loop_turn(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy())
    for _ in range(3):
        tickets = [writer.append(b"x") for _ in range(10)]
        assert len({(await ticket).dlsn.entry_id for ticket in tickets}) == 1
    await writer.close()


async def test_periodic_flush_sends_one_entry_per_period(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy(period_ms=10))
    tickets = []
    for n in range(100):
        tickets.append(writer.append(b"%d" % n))
        await asyncio.sleep(0.001)
    counts = Counter([(await ticket).dlsn.entry_id for ticket in tickets])
    assert counts[0] == 1, "the first record does not wait"
    assert 10 <= len(counts) <= 12
    assert all(9 <= counts[entry] <= 11 for entry in range(1, len(counts) - 1))
    await writer.close()


async def test_first_record_after_a_pause_is_sent_at_once(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy(period_ms=1000))
    for _ in range(3):
        began = now()
        await writer.append(b"alone")
        assert now() - began < 0.001
        second = writer.append(b"soon after")
        await second
        assert now() - began == pytest.approx(1, abs=0.01), "entries keep their interval"
        await asyncio.sleep(3)
    await writer.close()


async def test_full_buffer_is_sent_before_its_period(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy(period_ms=1000, bytes_max=1000))
    await writer.append(b"first")
    tickets = [writer.append(bytes(100)) for _ in range(20)]
    await tickets[0]
    assert now() < 0.1
    assert not tickets[-1].is_done
    await tickets[-1]
    assert now() == pytest.approx(1, abs=0.01)
    await writer.close()


async def test_flush_by_size_alone_waits_for_bytes_or_flush(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy(period_ms=None, bytes_max=1000))
    ticket = writer.append(b"alone")
    await asyncio.sleep(3600)
    assert not ticket.is_done
    await writer.flush()
    assert ticket.is_done
    await writer.close()


async def test_record_above_the_buffer_size_is_sent(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy(bytes_max=10))
    small, large, after = writer.append(b"s"), writer.append(bytes(5000)), writer.append(b"t")
    dlsns = [(await ticket).dlsn for ticket in (small, large, after)]
    assert dlsns == sorted(dlsns)
    await writer.close()
    assert [len(r.payload) for r in await world.read_all("s", 3)] == [1, 5000, 1]


async def test_record_becomes_visible_without_another_entry(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy())
    reader = await world.namespace.open_reader("s", EARLIEST)
    await writer.append(b"only")
    assert await next_payload(reader) == b"only"
    await asyncio.sleep(3600)
    assert (world.ledgers.entries_sent, world.ledgers.writers[0].lac_publications) == (1, 1)
    await reader.aclose()
    await writer.close()


async def test_refused_explicit_lac_is_replaced_by_one_control_record(world: LogWorld) -> None:
    world.ledgers.is_lac_refused = True
    writer = await open_writer_with(world, FlushPolicy())
    reader = await world.namespace.open_reader("s", EARLIEST)
    await writer.append(b"only")
    assert await next_payload(reader) == b"only"
    await asyncio.sleep(3600)
    assert world.ledgers.entries_sent == 2, "an idle writer sends nothing"
    await reader.aclose()
    await writer.close()


async def test_consecutive_appends_need_no_explicit_lac(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy())
    for _ in range(100):
        await writer.append(b"x")
    assert world.ledgers.writers[0].lac_publications == 0
    await asyncio.sleep(1)
    assert (world.ledgers.entries_sent, world.ledgers.writers[0].lac_publications) == (100, 1)
    await writer.close()


async def test_steady_traffic_needs_no_control_records(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy(period_ms=10))
    reader = await world.namespace.open_reader("s", EARLIEST)
    for n in range(200):
        writer.append(b"%d" % n)
        await asyncio.sleep(0.001)
    assert 18 <= world.ledgers.entries_sent <= 22, "one entry per period, and no control records"
    assert [await next_payload(reader) for _ in range(200)] == [b"%d" % n for n in range(200)]
    assert world.ledgers.writers[0].lac_publications <= 22, "at most one per entry"
    await reader.aclose()
    await writer.close()


async def test_acknowledged_record_is_visible_before_the_next_entry(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy(period_ms=1000))
    reader = await world.namespace.open_reader("s", EARLIEST)
    await writer.append(b"a")
    later = writer.append(b"b")
    assert await next_payload(reader) == b"a"
    assert now() < 0.1
    assert not later.is_done
    await reader.aclose()
    await writer.close()


async def open_writer_in_flight(world: LogWorld, count: int) -> StreamWriter:
    """Return a writer with ``count`` entries in flight, of one record each."""
    writer = await open_writer_with(world, FlushPolicy())
    world.ledgers.are_acks_held = True
    for n in range(count):
        writer.append(b"%d" % n)
        await asyncio.sleep(0)
    return writer


async def test_visibility_does_not_wait_for_entries_in_flight(world: LogWorld) -> None:
    """An entry per millisecond with acknowledgements after 2 ms keeps entries in flight forever."""
    writer = await open_writer_in_flight(world, 3)
    reader = await world.namespace.open_reader("s", EARLIEST)
    world.ledgers.release_acks(1)
    assert await next_payload(reader) == b"0"
    assert now() < 0.1
    assert world.ledgers.writers[0].lac_publications == 1
    await reader.aclose()
    world.ledgers.are_acks_held = False
    world.ledgers.release_acks()
    await writer.close()


async def test_many_entries_in_flight_need_no_explicit_lac(world: LogWorld) -> None:
    writer = await open_writer_in_flight(world, 10)
    world.ledgers.release_acks(5)
    await asyncio.sleep(1)
    assert world.ledgers.writers[0].lac_publications == 0
    world.ledgers.are_acks_held = False
    world.ledgers.release_acks()
    await asyncio.sleep(1)
    assert world.ledgers.writers[0].lac_publications == 1
    await writer.close()


async def test_visibility_ms_delays_the_explicit_lac(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy(period_ms=10, visibility_ms=100))
    reader = await world.namespace.open_reader("s", EARLIEST)
    await writer.append(b"a")
    acknowledged = now()
    await next_payload(reader)
    assert now() - acknowledged == pytest.approx(0.1, abs=0.002)
    await reader.aclose()
    await writer.close()


async def test_explicit_lac_is_sent_at_most_once_per_millisecond(world: LogWorld) -> None:
    writer = await open_writer_with(world, FlushPolicy())
    for _ in range(1000):
        await writer.append(b"x")
        for _ in range(20):
            await asyncio.sleep(
                0
            )  # more loop turns than the publisher waits, without any time passing
    assert world.ledgers.writers[0].lac_publications <= 2
    assert world.ledgers.entries_sent == 1000
    await writer.close()


async def test_full_pipeline_makes_larger_entries(world: LogWorld) -> None:
    from rhumbline.core.log.config import WriterConfig

    writer = await world.writer("s", config=WriterConfig(entries_in_flight_max=2))
    world.ledgers.are_acks_held = True
    tickets = []
    for n in range(50):
        tickets.append(writer.append(b"%d" % n))
        await asyncio.sleep(0)
    assert world.ledgers.entries_sent == 2
    world.ledgers.are_acks_held = False
    world.ledgers.release_acks()
    assert {(await ticket).dlsn.entry_id for ticket in tickets} == {0, 1, 2}
    await writer.close()


async def test_writer_waits_for_a_ledger_without_room(world: LogWorld) -> None:
    world.ledgers.pending_entries_max = 3
    world.ledgers.are_acks_held = True
    writer = await open_writer_with(world, FlushPolicy())
    tickets = []
    for n in range(20):
        tickets.append(writer.append(b"%d" % n))
        await asyncio.sleep(0)
    world.ledgers.are_acks_held = False
    world.ledgers.release_acks()
    assert [(await ticket).dlsn.lssn for ticket in tickets] == [1] * 20
    await writer.close()
    assert [r.payload for r in await world.read_all("s", 20)] == [b"%d" % n for n in range(20)]


@pytest.mark.parametrize(
    "bad", [{"period_ms": -1}, {"bytes_max": 0}, {"bytes_max": 2**30}, {"visibility_ms": 10**9}]
)
def test_impossible_policies_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError):
        FlushPolicy(**bad)

"""Tests that a writer refuses invalid appends with a typed error and without side effects."""

import asyncio

import pytest

from rhumbline.core.log.config import WriterConfig
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.write.append_validation import default_txid
from rhumbline.core.protocol.errors import (
    ClosedError,
    EndOfStreamError,
    InvalidArgumentError,
    RecordTooLargeError,
    TooManyRequestsError,
    TxidOutOfOrderError,
)
from rhumbline.tests.support.fakes.log_world import LogWorld


async def test_txids_never_fall(world: LogWorld) -> None:
    writer = await world.writer("s")
    for txid in (5, 5, 9):
        writer.append(b"%d" % txid, txid=txid)
    with pytest.raises(TxidOutOfOrderError, match="txid 8 is below 9"):
        writer.append(b"8", txid=8)
    with pytest.raises(TxidOutOfOrderError):
        writer.append_many([b"a", b"b"], txids=[10, 9])
    for bad in (0, -1, 2**63 - 1, 2**70, True):
        with pytest.raises(InvalidArgumentError):
            writer.append(b"x", txid=bad)
    writer.append(b"now")
    assert writer.last_txid == world.clock.now_ms
    with pytest.raises(TxidOutOfOrderError):
        writer.append(b"late", txid=world.clock.now_ms - 1)
    world.clock.now_ms = 50  # the clock jumps back; txids do not
    await writer.flush()
    await writer.append(b"later")
    await writer.close()
    records = await world.read_all("s", 5)
    assert [r.txid for r in records] == [5, 5, 9, 1_000_000, 1_000_000]
    assert [r.payload for r in records] == [b"5", b"5", b"9", b"now", b"later"]


async def test_txids_never_fall_across_writers(world: LogWorld) -> None:
    writer = await world.writer("s")
    await writer.append(b"a", txid=2_000_000)
    await writer.close()
    writer = await world.writer("s")
    assert writer.last_txid == 2_000_000
    with pytest.raises(TxidOutOfOrderError):
        writer.append(b"b", txid=1_999_999)
    await writer.append(b"c")
    await writer.close()
    assert [r.txid for r in await world.read_all("s", 2)] == [2_000_000, 2_000_000]


async def test_given_and_default_txids_mix_in_one_entry(world: LogWorld) -> None:
    writer = await world.writer("s")
    world.clock.now_ms = 10
    writer.append(b"a")
    writer.append(b"b", txid=10)
    writer.append(b"c", txid=20)
    writer.append(b"d")
    writer.append_many([b"e", b"f"])
    writer.append_many([b"g", b"h"], txids=[20, 30])
    await writer.close()
    records = await world.read_all("s", 8)
    assert [r.txid for r in records] == [10, 10, 20, 20, 20, 20, 20, 30]
    assert len({r.dlsn.entry_id for r in records}) == 1


async def test_records_above_the_policy_limit_are_refused(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(record_bytes_max=100))
    with pytest.raises(RecordTooLargeError, match="101 bytes is above the limit of 100"):
        writer.append(bytes(101))
    with pytest.raises(RecordTooLargeError):
        writer.append_many([b"fine", bytes(101)])
    await writer.append(bytes(100))
    await writer.close()
    assert len(await world.read_all("s", 1)) == 1


async def test_entry_above_the_ledger_limit_fails_alone(world: LogWorld) -> None:
    world.ledgers.entry_bytes_max = 1000
    writer = await world.writer("s")
    large = writer.append(bytes(2000))
    await asyncio.sleep(0)
    with pytest.raises(RecordTooLargeError):
        await large
    await writer.append(b"small")
    await writer.close()
    assert [r.payload for r in await world.read_all("s", 1)] == [b"small"]


async def test_records_must_be_bytes(world: LogWorld) -> None:
    writer = await world.writer("s")
    with pytest.raises(InvalidArgumentError, match="not str"):
        writer.append("text")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        writer.append_many([b"a", 5])  # type: ignore[list-item]
    with pytest.raises(InvalidArgumentError):
        writer.append_many([])
    with pytest.raises(InvalidArgumentError):
        writer.append_many([b"a"], txids=[1, 2])
    view = bytearray(b"changes")
    ticket = writer.append(view)  # type: ignore[arg-type]
    view[:] = b"CHANGED"
    await ticket
    await writer.append_many([bytearray(b"m"), memoryview(b"v")])  # type: ignore[list-item]
    await writer.close()
    assert [r.payload for r in await world.read_all("s", 3)] == [b"changes", b"m", b"v"]


async def test_appends_above_the_outstanding_limit_are_refused_until_room(world: LogWorld) -> None:
    config = WriterConfig(outstanding_bytes_max=10_000)
    policy = StreamPolicy(flush=FlushPolicy(bytes_max=1000))
    writer = await world.writer("s", policy, config)
    world.ledgers.are_acks_held = True
    taken = 0
    with pytest.raises(TooManyRequestsError, match="room"):
        while True:
            writer.append(bytes(100))
            taken += 1
    assert taken * 116 <= 10_000 + 2_000
    with pytest.raises(TooManyRequestsError):
        writer.append_many([b"x"])
    waiting = asyncio.ensure_future(writer.room())
    await asyncio.sleep(1)
    assert not waiting.done()
    world.ledgers.are_acks_held = False
    world.ledgers.release_acks()
    await waiting
    await writer.append(b"last")
    await writer.close()
    assert len(await world.read_all("s", taken + 1)) == taken + 1


async def test_single_call_above_the_outstanding_limit_is_refused(world: LogWorld) -> None:
    writer = await world.writer("s", None, WriterConfig(outstanding_bytes_max=10_000))
    with pytest.raises(RecordTooLargeError, match="outstanding_bytes_max"):
        writer.append_many([bytes(1000)] * 11)
    await writer.close()


async def test_append_many_over_several_entries_keeps_order_and_positions(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(flush=FlushPolicy(bytes_max=500)))
    payloads = [b"%05d" % n * (1 + n % 40) for n in range(300)]
    ticket = writer.append_many(payloads)
    result = await ticket
    records = await world.read_all("s", 300)
    assert [r.payload for r in records] == payloads
    assert [r.dlsn for r in records] == list(ticket.dlsns())
    assert (result.first, result.last) == (records[0].dlsn, records[-1].dlsn)
    assert (result.record_count, result.regions) == (300, ("north", "south"))
    await writer.close()


async def test_append_many_fills_the_open_batch_first(world: LogWorld) -> None:
    policy = StreamPolicy(flush=FlushPolicy(period_ms=None, bytes_max=1_000))
    writer = await world.writer("s", policy)
    payloads = [b"%04d" % n for n in range(240)]  # 20 bytes each with their overhead
    tickets = [writer.append_many(payloads[at : at + 60]) for at in range(0, 240, 60)]
    await writer.flush()
    results = [await ticket for ticket in tickets]
    assert [result.record_count for result in results] == [60] * 4
    records = await world.read_all("s", 240)
    assert [r.payload for r in records] == payloads
    assert [r.dlsn for r in records] == [dlsn for ticket in tickets for dlsn in ticket.dlsns()]
    entries = [r.dlsn.entry_id for r in records if r.dlsn.slot == 0]
    assert [entries.index(r.dlsn.entry_id) for r in records] == [n // 50 for n in range(240)]
    await writer.close()


async def test_closed_writer_refuses_appends(world: LogWorld) -> None:
    writer = await world.writer("s")
    ticket = writer.append(b"in time")
    await writer.close()
    assert ticket.is_done
    with pytest.raises(ClosedError):
        writer.append(b"late")
    with pytest.raises(ClosedError):
        writer.append_many([b"late"])
    with pytest.raises(ClosedError):
        await writer.room()
    await writer.close()
    assert len(await world.read_all("s", 1)) == 1


async def test_ended_stream_refuses_appends_and_writers(world: LogWorld) -> None:
    writer = await world.writer("s")
    writer.append(b"a")
    await writer.end_stream()
    with pytest.raises(EndOfStreamError):
        writer.append(b"b")
    for _ in range(2):
        with pytest.raises(EndOfStreamError):
            await world.writer("s")
    assert (await world.namespace.describe("s")).is_ended
    reader = await world.namespace.open_reader("s", (await world.read_all("s", 1))[0].dlsn)
    assert [r.payload async for r in reader] == [b"a"]
    await reader.aclose()
    assert len(world.ledgers.ledgers) == 1, "refused writers leave no ledger behind"


async def test_cancelled_wait_does_not_withdraw_the_record(world: LogWorld) -> None:
    writer = await world.writer("s")
    world.ledgers.are_acks_held = True
    first, second = writer.append(b"a"), writer.append(b"b")

    async def waits() -> None:
        await first

    task = asyncio.ensure_future(waits())
    await asyncio.sleep(0.1)
    task.cancel()
    other = asyncio.ensure_future(writer.flush())
    await asyncio.sleep(0.1)
    assert task.cancelled()
    world.ledgers.are_acks_held = False
    world.ledgers.release_acks()
    await other
    assert (await first).dlsn < (await second).dlsn
    await writer.close()
    assert len(await world.read_all("s", 2)) == 2


async def test_append_without_a_txid_leaves_room_for_the_numbers_of_the_application(
    world: LogWorld,
) -> None:
    """One append by hand got the time of day, and every later number was refused."""
    world.clock.now_ms = 1_790_000_000_000
    writer = await world.writer("s")
    await writer.append(b"7", txid=7)
    await writer.close()
    writer = await world.writer("s")
    await writer.append(b"by hand")
    writer.append_many([b"by hand", b"too"])
    writer.append(b"8", txid=8)
    writer.append(b"by hand")
    await writer.close()
    assert [r.txid for r in await world.read_all("s", 6)] == [7, 7, 7, 7, 8, 8]


async def test_number_below_a_time_of_day_is_refused_with_the_reason(world: LogWorld) -> None:
    world.clock.now_ms = 1_790_000_000_000
    writer = await world.writer("s")
    await writer.append(b"by hand")
    assert writer.last_txid == world.clock.now_ms
    with pytest.raises(TxidOutOfOrderError, match="the time of day in ms of an earlier record"):
        writer.append(b"1", txid=1)
    await writer.append(b"later", txid=world.clock.now_ms + 1)
    await writer.close()


@pytest.mark.parametrize(
    ("last", "now_ms", "expected"),
    [(0, 0, 1), (0, 5, 5), (9, 5, 9), (9, 50, 50), (9, 1 << 40, 9), (1 << 40, 1 << 41, 1 << 41),
     ((1 << 40) - 1, 1 << 40, (1 << 40) - 1), (1 << 60, 1 << 41, 1 << 60)],
)  # fmt: skip
def test_default_txid_is_the_time_of_day_or_the_last_number(
    last: int, now_ms: int, expected: int
) -> None:
    assert default_txid(last, now_ms) == expected

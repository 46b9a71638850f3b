"""Conditional appends: the stream ends where they expect it, or they add nothing (rule STR-41)."""

import asyncio
from collections.abc import Sequence

import pytest

from rhumbline.core.log.config import WriterConfig
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.write.batch import AppendMany, Batch
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    EndMismatchError,
    InvalidArgumentError,
    InvalidPositionError,
    LedgerFencedError,
    StreamLostError,
    UnavailableError,
)
from rhumbline.core.protocol.record_set import (
    NO_PRODUCER,
    NO_SEQUENCE,
    TXID_FIRST,
    Kind,
    Producer,
    encode_record_set,
)
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld

NO_NUMBERS = Producer(NO_PRODUCER, NO_SEQUENCE)


async def end_of(world: LogWorld, count: int) -> Dlsn:
    """Return the position of a reader that has read ``count`` records."""
    async with await world.namespace.open_reader("s", EARLIEST) as reader:
        for _ in range(count):
            await anext(reader)
        return reader.position


def a_set(*payloads: bytes, producer: Producer = NO_NUMBERS) -> bytes:
    return encode_record_set(
        payloads, first_txid=TXID_FIRST, last_txid=TXID_FIRST, producer=producer
    )


class Lookups:
    """Lookups of the end of the stream: they take 0.1 s, and the first ones raise ``errors``."""

    def __init__(self, writer: StreamWriter, errors: Sequence[Exception]) -> None:
        self.count = 0
        self._find_tail = writer._tail_lookup._find_tail
        self._errors = errors
        writer._tail_lookup._find_tail = self._find

    async def _find(self) -> Dlsn:
        self.count += 1
        await asyncio.sleep(0.1)
        if self.count <= len(self._errors):
            raise self._errors[self.count - 1]
        return await self._find_tail()


async def writer_behind_a_record(
    world: LogWorld, *errors: Exception
) -> tuple[StreamWriter, Lookups]:
    """Return a writer that has to look up the end of the stream, which is 1:0:1."""
    async with await world.writer("s") as before:
        await before.append(b"a")
    writer = await world.writer("s")
    return writer, Lookups(writer, errors)


async def check_mismatch(writer: StreamWriter, expected: Dlsn, end: Dlsn) -> None:
    with pytest.raises(EndMismatchError, match=f"ends at .*, not at {expected}") as caught:
        await writer.append(b"never", expected=expected)
    assert caught.value.end == end
    assert caught.value.end is not None
    assert caught.value.end.stream_id == writer.stream_id


async def test_the_first_record_of_a_stream_can_be_conditional(world: LogWorld) -> None:
    writer = await world.writer("s")
    start = await end_of(world, 0)
    first = await writer.append(b"a", expected=start)
    assert first.dlsn == Dlsn(1, 0, 0)
    await check_mismatch(writer, start, Dlsn(1, 0, 1))
    await writer.close()
    assert [one.payload for one in await world.read_all("s", 1)] == [b"a"]


async def test_a_chain_of_conditional_appends(world: LogWorld) -> None:
    writer = await world.writer("s")
    await writer.append_many([b"a", b"b"])
    await writer.append(b"c", expected=await end_of(world, 2))
    result = await writer.append_many([b"d", b"e"], expected=await end_of(world, 3))
    assert (result.record_count, result.first.entry_id) == (2, result.last.entry_id)
    await check_mismatch(writer, await end_of(world, 4), await end_of(world, 5))
    await writer.append_set(a_set(b"f", b"g"), expected=await end_of(world, 5))
    await writer.close()
    assert [one.payload for one in await world.read_all("s", 7)] == [
        b"a", b"b", b"c", b"d", b"e", b"f", b"g",
    ]  # fmt: skip


@pytest.mark.parametrize("closes", [True, False])
async def test_a_new_owner_finds_the_end_that_others_left(world: LogWorld, closes: bool) -> None:
    before = await world.writer("s")
    await before.append_many([b"a", b"b"])
    end = await end_of(world, 2)
    middle = await end_of(world, 1)
    if closes:
        await before.close()
    writer = await world.writer("s")
    await check_mismatch(writer, middle, end)
    result = await writer.append(b"c", expected=end)
    assert result.dlsn == Dlsn(2, 0, 0)
    await writer.close()
    if not closes:
        await before.abort()


async def test_segments_and_entries_without_records_do_not_move_the_end(world: LogWorld) -> None:
    policy = StreamPolicy(keepalive_ms=100)
    writer = await world.writer("s", policy)
    await writer.append(b"a")
    end = await end_of(world, 1)
    await asyncio.sleep(1)  # keepalives follow the record
    assert writer._pipeline.segment.last_entry_id > 3
    await writer.append(b"b", expected=end)
    end = await end_of(world, 2)
    await asyncio.sleep(1)
    await writer.close()
    for _ in range(3):
        async with await world.writer("s"):
            pass  # segments without records
    writer = await world.writer("s")
    await check_mismatch(writer, Dlsn(1, 0, 1), end)
    await writer.append(b"c", expected=end)
    await writer.close()


async def test_positions_that_stand_for_the_same_end_are_equal(world: LogWorld) -> None:
    async with await world.writer("s") as before:
        await before.append(b"a")
    for number, expected in enumerate([Dlsn(1, 0, 1), Dlsn(1, 1, 0), Dlsn(2, 0, 0)]):
        async with await world.writer("s") as writer:
            if number:
                await check_mismatch(writer, Dlsn(1, 0, 1), Dlsn(number + 1, 0, 1))
                expected = Dlsn(number + 1, 1, 0)
            await writer.append(b"b", expected=expected)
    async with await world.writer("s") as writer:
        await check_mismatch(writer, Dlsn(9, 0, 0), Dlsn(4, 0, 1))


async def test_records_in_flight_and_in_the_buffer_come_first(world: LogWorld) -> None:
    world.ledgers.delay_s = lambda: 0.05
    policy = StreamPolicy(flush=FlushPolicy(period_ms=None))
    writer = await world.writer("s", policy)
    start = await end_of(world, 0)
    earlier = writer.append(b"earlier")  # waits in the buffer
    refused = writer.append(b"never", expected=start)
    later = writer.append(b"later")
    assert not refused.is_done
    with pytest.raises(EndMismatchError) as caught:
        await refused
    assert earlier.is_done
    assert caught.value.end == Dlsn(1, 0, 1), "the end that is named is acknowledged"
    await writer.flush()
    assert [(await one).dlsn for one in (earlier, later)] == [Dlsn(1, 0, 0), Dlsn(1, 1, 0)]
    await writer.close()


async def test_appends_behind_a_condition_that_is_looked_up_keep_their_order(
    world: LogWorld,
) -> None:
    async with await world.writer("s") as before:
        await before.append(b"a")
    writer = await world.writer("s")
    first, second = writer.append(b"b", expected=Dlsn(1, 0, 1)), writer.append(b"c")
    await writer.flush()
    assert [(await one).dlsn for one in (first, second)] == [Dlsn(2, 0, 0), Dlsn(2, 1, 0)]
    await writer.close()


async def test_a_conditional_record_is_sent_again_after_a_failure_of_the_ledger(
    world: LogWorld,
) -> None:
    writer = await world.writer("s")
    await writer.append(b"a")
    end = await end_of(world, 1)
    world.ledgers.are_acks_held = True
    world.ledgers.keeps_unacked = False
    ticket = writer.append(b"b", expected=end)
    await asyncio.sleep(0.01)
    world.ledgers.are_acks_held = False
    world.ledgers.fail_writers()
    result = await ticket
    assert result.dlsn.lssn == 2
    await writer.close()
    assert [one.payload for one in await world.read_all("s", 2)] == [b"a", b"b"]


async def test_a_replaced_writer_appends_nothing(world: LogWorld) -> None:
    old = await world.writer("s")
    await old.append(b"a")
    end = await end_of(world, 1)
    async with await world.writer("s"):
        with pytest.raises(StreamLostError):
            await old.append(b"never", expected=end)
    await old.abort()


async def test_a_refusal_for_a_record_that_is_lost_names_no_end(world: LogWorld) -> None:
    """It named the end that the append expected (seed 4 of the plan of conditions)."""
    old = await world.writer("s")
    await old.append(b"a")
    end = await end_of(world, 1)
    world.ledgers.are_acks_held = True
    world.ledgers.keeps_unacked = False
    lost, refused = old.append(b"lost"), old.append(b"never", expected=end)
    await asyncio.sleep(0.01)
    world.ledgers.are_acks_held = False
    world.ledgers.fail_writers(LedgerFencedError("by another writer"))
    for ticket in (lost, refused):
        with pytest.raises(StreamLostError):
            await ticket
    await old.abort()
    async with await world.writer("s") as new:
        await new.append(b"b", expected=end)


async def test_a_refusal_waits_for_a_record_that_is_sent_again(world: LogWorld) -> None:
    """The refusal used to name the expected end when a control record behind it was settled."""
    writer = await world.writer("s")
    await writer.append(b"a")
    end = await end_of(world, 1)
    world.ledgers.are_acks_held = True
    world.ledgers.keeps_unacked = False
    later = writer.append(b"b")
    await asyncio.sleep(0.01)
    writer._pipeline.submit(Batch(0, 0, 0, Kind.KEEPALIVE))
    refused = writer.append(b"never", expected=end)
    await asyncio.sleep(0.01)
    world.ledgers.are_acks_held = False
    world.ledgers.fail_writers()
    with pytest.raises(EndMismatchError) as caught:
        await refused
    assert (await later).dlsn == Dlsn(2, 0, 0)
    assert caught.value.end == Dlsn(2, 0, 1)
    await writer.close()


async def test_an_end_that_cannot_be_read_appends_nothing(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await world.writer("s") as before:
        await before.append(b"a")
    writer = await world.writer("s", config=WriterConfig(failover_ms_max=500))

    async def unavailable() -> Dlsn:
        raise UnavailableError("no bookie responds")

    async def never() -> Dlsn:
        await asyncio.sleep(1_000)
        raise AssertionError

    monkeypatch.setattr(writer._tail_lookup, "_find_tail", unavailable)
    refused, later = writer.append(b"never", expected=Dlsn(1, 0, 1)), writer.append(b"b")
    with pytest.raises(UnavailableError, match="no bookie responds"):
        await refused
    await later
    await writer.append(b"c", expected=Dlsn(2, 0, 1))
    await writer.close()
    writer = await world.writer("s", config=WriterConfig(failover_ms_max=500))
    monkeypatch.setattr(writer._tail_lookup, "_find_tail", never)
    with pytest.raises(UnavailableError, match="was not found within 500 ms"):
        await writer.append(b"never", expected=Dlsn(2, 1, 1))
    await writer.abort()


async def test_every_append_that_waits_for_an_unknown_end_is_refused(world: LogWorld) -> None:
    """The writer refused only the first append, and then the second one waited forever."""
    writer, lookups = await writer_behind_a_record(world, UnavailableError("no bookie responds"))
    refused = [writer.append_many([b"never"], expected=Dlsn(1, 0, 1)) for _ in range(3)]
    later: list[AppendMany] = []
    refused[0].on_done(lambda: later.append(writer.append_many([b"b"], expected=Dlsn(1, 0, 1))))
    async with asyncio.timeout(10):
        for one in refused:
            with pytest.raises(UnavailableError, match="no bookie responds"):
                await one
        assert (await later[0]).first == Dlsn(2, 0, 0)
        await writer.close()
    assert lookups.count == 2


async def test_the_end_is_read_once_for_all_appends_that_wait_for_it(world: LogWorld) -> None:
    writer, lookups = await writer_behind_a_record(world)
    first, *others = (writer.append(b"b", expected=Dlsn(1, 0, 1)) for _ in range(3))
    assert (await first).dlsn == Dlsn(2, 0, 0)
    for other in others:
        with pytest.raises(EndMismatchError):
            await other
    await asyncio.sleep(1)
    assert lookups.count == 1
    await writer.close()


async def test_an_append_is_repeated_at_once_after_the_end_was_not_found(world: LogWorld) -> None:
    """The repeated append waited forever, because the failed lookup still counted as running."""
    writer, lookups = await writer_behind_a_record(world, UnavailableError("no bookie responds"))
    async with asyncio.timeout(10):
        with pytest.raises(UnavailableError, match="no bookie responds"):
            await writer.append(b"never", expected=Dlsn(1, 0, 1))
        assert (await writer.append(b"b", expected=Dlsn(1, 0, 1))).dlsn == Dlsn(2, 0, 0)
        await writer.close()
    assert lookups.count == 2


async def test_a_refusal_does_not_stop_the_buffer(world: LogWorld) -> None:
    world.ledgers.delay_s = lambda: 0.05
    writer = await world.writer("s", config=WriterConfig(entries_in_flight_max=1))
    first = writer.append(b"a")
    await asyncio.sleep(0.01)  # it is in flight, and no other entry may be sent
    refused, later = writer.append(b"never", expected=Dlsn(1, 0, 0)), writer.append(b"b")
    async with asyncio.timeout(10):
        await first
        with pytest.raises(EndMismatchError):
            await refused
        assert (await later).dlsn == Dlsn(1, 1, 0)
    await writer.close()


async def test_wrong_conditions_are_refused_at_once(world: LogWorld) -> None:
    writer = await world.writer("s")
    with pytest.raises(InvalidPositionError, match="of another stream"):
        writer.append(b"a", expected=Dlsn(1, 0, 0).in_stream("ffffffffffff"))
    with pytest.raises(InvalidArgumentError, match="read it with"):
        writer.append(b"a", expected="1:0:0")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="must not be numbered"):
        writer.append_set(a_set(b"a", producer=Producer(b"p" * 16, 0)), expected=Dlsn(1, 0, 0))
    await writer.append(b"b")
    await writer.close()

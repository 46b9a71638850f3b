"""Seeking by creation time finds what reading everything finds, whatever the clocks do."""

from random import Random

import pytest

from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.read.record_batch import Record
from rhumbline.core.protocol.record_set import Producer, encode_record_set
from rhumbline.core.protocol.start import AtEventTime, AtTime
from rhumbline.tests.support.fakes.log_world import LogWorld

POLICY = StreamPolicy(roll_bytes=600, flush=FlushPolicy(bytes_max=400, period_ms=0))


async def fill(world: LogWorld, random: Random, sessions: int = 6) -> None:
    """Write segments with own txids, remote producers, wrong clocks and idle times."""
    txid = 1
    for _ in range(sessions):
        writer = await world.writer("s", POLICY)
        for _ in range(random.randint(0, 12)):
            # The clock of the owner jumps, mostly forward.
            world.clock.now_ms += random.choice((0, 1, 5, 50, 1_000, 1_000, -200))
            if random.random() < 0.5:
                for _ in range(random.randint(1, 4)):
                    txid += random.randint(0, 3)
                    writer.append(b"x" * random.randint(1, 90), txid)
            else:
                encoded = encode_record_set(
                    [b"r"] * random.randint(1, 3),
                    first_txid=txid,
                    last_txid=txid,
                    created_ms=max(0, world.clock.now_ms + random.randint(-3_000, 3_000)),
                    producer=Producer(bytes(16), -1),
                )
                writer.append_set(encoded, keeps_txids=True)
            if random.random() < 0.7:
                await writer.flush()
        if random.random() < 0.5:
            await writer.close()
        else:
            await writer.abort()
        world.clock.now_ms += random.choice((0, 0, 100, -500))


async def read_everything(world: LogWorld) -> list[Record]:
    end = await world.namespace.end("s")
    found: list[Record] = []
    async with await world.namespace.open_reader("s", AtTime(0)) as reader:
        while (batch := await reader.next_batch(until=end)) is not None:
            found += batch.records()
    return found


@pytest.mark.seeds(20)
async def test_seek_finds_what_reading_everything_finds(world: LogWorld, seed: int) -> None:
    random = Random(seed)
    await fill(world, random)
    records = await read_everything(world)
    times = [record.created_ms for record in records]
    assert times == sorted(times), "creation times never fall"
    end = await world.namespace.end("s")
    wanted = {time + delta for time in times for delta in (-1, 0, 1)} | {0, 1, 1 << 50}
    for ms in sorted(wanted):
        expected = [record.dlsn for record in records if record.created_ms >= ms]
        async with await world.namespace.open_reader("s", AtTime(ms)) as reader:
            batch = await reader.next_batch(until=end)
            found = None if batch is None else batch.first_dlsn
            assert found == (expected[0] if expected else None)


async def test_seek_reads_few_entries(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=2_000))
    for n in range(600):
        world.clock.now_ms += 10
        await writer.append(b"x" * 50, 1 + n)
    await writer.close()
    segments = await world.segments("s")
    assert len(segments) > 20
    records = await read_everything(world)
    for record in records[::50]:
        before = world.ledgers.reads
        async with await world.namespace.open_reader("s", AtTime(record.created_ms)) as reader:
            searched = world.ledgers.reads - before
            assert (await anext(reader)).dlsn == record.dlsn
        assert searched <= 8, "the end of the segment, and log2 of its entries"


async def test_seek_to_a_later_time_waits_for_it(world: LogWorld) -> None:
    writer = await world.writer("s")
    await writer.append(b"early", 1)
    async with await world.namespace.open_reader("s", AtTime(world.clock.now_ms + 50)) as reader:
        world.clock.now_ms += 49
        await writer.append(b"still early", 2)
        world.clock.now_ms += 1
        await writer.append(b"in time", 3)
        assert (await anext(reader)).payload == b"in time"
    await writer.close()


async def test_creation_times_do_not_fall_at_a_takeover(world: LogWorld) -> None:
    """The clock of the next owner is behind."""
    writer = await world.writer("s")
    before = await writer.append(b"x", 1)
    await writer.abort()
    world.clock.now_ms -= 10_000
    writer = await world.writer("s")
    await writer.append(b"y", 1)
    await writer.close()
    first, second = await world.read_all("s", 2)
    assert second.created_ms >= first.created_ms
    assert first.dlsn == before.dlsn


async def test_producer_with_a_wrong_clock_does_not_move_the_time_of_others(
    world: LogWorld,
) -> None:
    writer = await world.writer("s")
    await writer.append(b"x")
    ahead = encode_record_set(
        [b"r"], first_txid=1, last_txid=1, created_ms=world.clock.now_ms + 10**9
    )
    await writer.append_set(ahead)
    world.clock.now_ms += 5
    await writer.append(b"y")
    await writer.close()
    times = [record.created_ms for record in await world.read_all("s", 3)]
    assert times == [world.clock.now_ms - 5, world.clock.now_ms - 5, world.clock.now_ms]


@pytest.mark.seeds(8)
async def test_event_time_is_found_in_any_order(world: LogWorld, seed: int) -> None:
    random = Random(seed)
    for session in range(4):
        writer = await world.writer("s", POLICY)
        for n in range(15):
            world.clock.now_ms += random.choice((0, 10, 700))
            late_ms = random.choice((0, 5, 400, 5_000, -900))
            event_ms = random.choice((None, world.clock.now_ms - late_ms))
            writer.append(b"%d.%d" % (session, n), 1, event_time=event_ms)
            if random.random() < 0.4:
                await writer.flush()
        await writer.close()
    records = await read_everything(world)
    times = [
        record.created_ms if record.event_time is None else record.event_time for record in records
    ]
    ahead_ms = max(time - one.created_ms for one, time in zip(records, times, strict=True))
    end = await world.namespace.end("s")
    for ms in sorted({time + delta for time in times for delta in (-1, 0, 1)}):
        expected = [one.dlsn for one, time in zip(records, times, strict=True) if time >= ms]
        start = AtEventTime(ms, ahead_ms=max(0, ahead_ms))
        async with await world.namespace.open_reader("s", start) as reader:
            batch = await reader.next_batch(until=end)
            found = None if batch is None else batch.first_dlsn
            assert found == (expected[0] if expected else None)

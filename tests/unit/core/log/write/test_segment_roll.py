"""Tests of planned segment rolls: by size, by time and after a policy change (rule STR-8)."""

import asyncio

from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld


async def test_rolls_by_size(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=10_000))
    for _ in range(100):
        await writer.append(bytes(1000))
        await asyncio.sleep(0.01)
    await writer.close()
    segments = await world.segments("s")
    assert 9 <= len(segments) <= 13
    assert all(s.length_bytes <= 13_000 for s in segments)
    assert sum(s.record_count for s in segments) == 100
    assert [s.start_sequence_id for s in segments] == [
        sum(s.record_count for s in segments[:n]) for n in range(len(segments))
    ]
    assert len(await world.read_all("s", 100)) == 100


async def test_idle_segment_rolls_by_time(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_ms=60_000))
    await asyncio.sleep(300)
    assert len(await world.segments("s")) == 1, "an empty segment is not rolled"
    await writer.append(b"a")
    await asyncio.sleep(61)
    segments = await world.segments("s")
    assert [segment.is_completed for segment in segments] == [True, False]
    assert segments[0].record_count == 1
    await asyncio.sleep(600)
    assert len(await world.segments("s")) == 2
    result = await writer.append(b"d")
    assert result.dlsn.lssn == 2
    await writer.close()


async def test_next_segment_gets_entries_only_after_the_old_one_is_acknowledged(
    world: LogWorld,
) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=1))
    world.ledgers.are_acks_held = True
    first = writer.append(b"a")
    await asyncio.sleep(1)
    second = writer.append(b"b")
    await asyncio.sleep(1)
    assert len(await world.segments("s")) == 2
    assert [len(ledger.entries) for ledger in world.ledgers.ledgers.values()] == [1, 0]
    world.ledgers.are_acks_held = False
    world.ledgers.release_acks()
    assert (await first).dlsn.lssn == 1
    assert (await second).dlsn.lssn == 2
    await writer.close()


async def test_readers_continue_across_segments(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=300))
    readers = [await world.namespace.open_reader("s", EARLIEST) for _ in range(3)]

    async def read(count: int, index: int) -> list[bytes]:
        return [(await anext(readers[index])).payload for _ in range(count)]

    reading = [asyncio.ensure_future(read(200, n)) for n in range(3)]
    for n in range(200):
        ticket = writer.append(b"%d" % n)
        if n % 3 == 0:
            await ticket
    await writer.close()
    for task in reading:
        assert await task == [b"%d" % n for n in range(200)]
    for reader in readers:
        await reader.aclose()
    assert len(await world.segments("s")) > 5


async def test_policy_change_takes_effect_at_the_next_segment(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=1))
    await world.namespace.set_stream_policy("s", StreamPolicy(Quorum(5, 3, 2)))
    await writer.append(b"a")
    await asyncio.sleep(0.1)
    for _ in range(10):
        await writer.append(b"b")
    await writer.close()
    sizes = [ledger.metadata.ensemble_size for ledger in world.ledgers.ledgers.values()]
    assert sizes == [3, 5], "the new roll_bytes applies from the second segment on"


async def test_ledgers_name_their_stream_and_segment(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=1))
    await writer.append(b"a")
    await asyncio.sleep(0.1)
    await writer.close()
    named = [dict(ledger.metadata.custom) for ledger in world.ledgers.ledgers.values()]
    head, _ = await StreamStore(world.store, "test").head("s")
    assert named == [
        {
            "rhumbline.namespace": b"test",
            "rhumbline.stream": b"s",
            "rhumbline.lssn": b"%d" % n,
            "rhumbline.stream-id": head.stream_id.encode(),
            "rhumbline.epoch": b"%d" % head.epoch,
        }
        for n in (1, 2)
    ]

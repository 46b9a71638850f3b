"""Tests of the read-ahead budget: large for a fast consumer, small for a slow one."""

import asyncio

from rhumbline.core.log.config import ReaderConfig
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.read.read_ahead import BUDGET_BYTES_MIN
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld

ENTRY_BYTES = 50_000
ENTRIES = 200


async def write_records(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(flush=FlushPolicy(bytes_max=1)))
    for _ in range(ENTRIES):
        await writer.append(bytes(ENTRY_BYTES))
    await writer.close()
    world.ledgers.batch_entries_max = 1


async def test_slow_consumer_keeps_read_ahead_small(world: LogWorld) -> None:
    await write_records(world)
    reader = await world.namespace.open_reader("s", EARLIEST)
    for _ in range(50):
        await anext(reader)
        await asyncio.sleep(1)
        assert reader._read_ahead.bytes <= 2 * BUDGET_BYTES_MIN + 2 * ENTRY_BYTES
    await reader.aclose()


async def test_fast_consumer_grows_read_ahead_to_its_limit(world: LogWorld) -> None:
    await write_records(world)
    world.ledgers.delay_s = lambda: 0.001
    limit = 1_000_000
    namespace = world.open_namespace(reader_config=ReaderConfig(read_ahead_bytes_max=limit))
    reader = await namespace.open_reader("s", EARLIEST)
    for _ in range(50):
        await anext(reader)
    await asyncio.sleep(1)
    assert limit <= reader._read_ahead.bytes <= limit + 2 * ENTRY_BYTES
    reads = world.ledgers.reads
    for _ in range(10):
        await anext(reader)
    assert world.ledgers.reads <= reads + 10
    await reader.aclose()


async def test_entries_fetched_before_a_failure_are_returned_first(world: LogWorld) -> None:
    await write_records(world)
    reader = await world.namespace.open_reader("s", EARLIEST)
    await anext(reader)
    await asyncio.sleep(1)
    ahead = reader._read_ahead.bytes // ENTRY_BYTES
    assert ahead > 3
    await world.namespace.delete_stream("s")
    got = 0
    try:
        async for _ in reader:
            got += 1
    except Exception as error:
        assert type(error).__name__ == "NoSuchStreamError"
    assert got >= ahead
    await reader.aclose()

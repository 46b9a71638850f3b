"""Read-ahead: it hides the fetches from a fast consumer and stays small for a slow one."""

import asyncio

from rhumbline.core.log.config import ReaderConfig
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.read.positioning import EARLIEST
from rhumbline.core.log.read.read_ahead import BUDGET_BYTES_MIN
from rhumbline.tests.support.fakes.log_world import LogWorld, in_world

ENTRY_BYTES = 50_000
ENTRIES = 200


async def filled(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(flush=FlushPolicy(bytes_max=1)))
    for _ in range(ENTRIES):
        await writer.append(bytes(ENTRY_BYTES))
    await writer.close()
    world.ledgers.batch_entries_max = 1


@in_world
async def test_a_slow_consumer_keeps_it_small(world: LogWorld) -> None:
    await filled(world)
    reader = await world.namespace.open_reader("s", EARLIEST)
    for _ in range(50):
        await anext(reader)
        await asyncio.sleep(1)
        assert reader._ahead.bytes <= 2 * BUDGET_BYTES_MIN + 2 * ENTRY_BYTES
    await reader.aclose()


@in_world
async def test_a_fast_consumer_makes_it_grow_to_its_limit(world: LogWorld) -> None:
    await filled(world)
    world.ledgers.delay_s = lambda: 0.001
    limit = 1_000_000
    namespace = world.opened(reader_config=ReaderConfig(read_ahead_bytes_max=limit))
    reader = await namespace.open_reader("s", EARLIEST)
    for _ in range(50):
        await anext(reader)
    await asyncio.sleep(1)
    assert limit <= reader._ahead.bytes <= limit + 2 * ENTRY_BYTES
    reads = world.ledgers.reads
    for _ in range(10):
        await anext(reader)
    assert world.ledgers.reads <= reads + 10
    await reader.aclose()


@in_world
async def test_what_was_fetched_before_a_failure_is_given_first(world: LogWorld) -> None:
    await filled(world)
    reader = await world.namespace.open_reader("s", EARLIEST)
    await anext(reader)
    await asyncio.sleep(1)
    ahead = reader._ahead.bytes // ENTRY_BYTES
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

"""The end of a writer's block: what was appended is settled, and nothing hides how it ended."""

import asyncio

import pytest

from rhumbline.core.log.close_at_exit import CANCELLED_CLOSE_S_MAX
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    PermissionDeniedError,
    UnauthorizedError,
)
from rhumbline.tests.support.fakes.log_world import LogWorld


async def test_time_out_of_a_writers_block_is_raised_although_no_bookie_responds(
    world: LogWorld,
) -> None:
    world.ledgers.are_acks_held = True
    loop = asyncio.get_running_loop()
    writer = await world.writer("s")
    began = loop.time()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1), writer:
            pending = writer.append(b"a")
            await pending
    assert loop.time() - began == 1 + CANCELLED_CLOSE_S_MAX
    with pytest.raises(AppendOutcomeUnknownError):
        await pending


async def test_a_writer_that_bookies_refuse_closes_at_once_and_begins_nothing(
    world: LogWorld,
) -> None:
    loop = asyncio.get_running_loop()
    writer = await world.writer("s")
    await writer.append(b"before")
    world.ledgers.are_acks_held = world.ledgers.is_recovery_refused = True
    sent = writer.append(b"sent")
    await asyncio.sleep(1)
    segments = await world.segments("s")
    world.ledgers.fail_writers(UnauthorizedError("responded with code 102"))
    began = loop.time()
    with pytest.raises(PermissionDeniedError, match="refused segment 1"):
        writer.append(b"after")
    with pytest.raises(PermissionDeniedError):
        await writer.close()
    with pytest.raises(AppendOutcomeUnknownError):
        await sent
    assert loop.time() == began
    await asyncio.sleep(60)
    assert await world.segments("s") == segments
    world.ledgers.are_acks_held = world.ledgers.is_recovery_refused = False
    async with await world.writer("s") as successor:
        await successor.append(b"last")
    assert [one.payload for one in await world.read_all("s", 3)] == [b"before", b"sent", b"last"]


async def test_cancelled_block_still_gets_its_records_acknowledged(world: LogWorld) -> None:
    writer = await world.writer("s")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1), writer:
            await asyncio.sleep(0.99)
            pending = writer.append(b"a")
            await asyncio.sleep(60)
    assert (await pending).dlsn == (1, 0, 0)

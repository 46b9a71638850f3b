"""Atomic batches: one record set in one entry, or a typed refusal (rule STR-42)."""

import asyncio

import pytest

from rhumbline.core.log.config import WriterConfig
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.write.append_validation import SET_BYTES_MAX
from rhumbline.core.protocol.errors import RecordTooLargeError
from rhumbline.tests.support.fakes.log_world import LogWorld

SMALL = StreamPolicy(flush=FlushPolicy(bytes_max=1024))


async def test_an_atomic_batch_is_one_entry_whatever_its_size(world: LogWorld) -> None:
    writer = await world.writer("s", SMALL)
    payloads = [bytes(100)] * 50
    several = await writer.append_many(payloads)
    assert several.last.entry_id > several.first.entry_id
    writer.append(b"in the buffer")
    together = await writer.append_many(payloads, atomic=True)
    assert together.last.entry_id == together.first.entry_id
    assert together.last.slot - together.first.slot == 49
    await writer.append_many(payloads, list(range(10**13, 10**13 + 50)), atomic=True)
    await writer.close()


async def test_an_atomic_batch_joins_the_open_batch_if_it_fits(world: LogWorld) -> None:
    writer = await world.writer("s")
    first = writer.append(b"a")
    result = await writer.append_many([b"b", b"c"], atomic=True)
    assert (await first).dlsn.entry_id == result.first.entry_id == result.last.entry_id
    await writer.close()


async def test_the_largest_atomic_batch_fits_and_a_larger_one_is_refused(world: LogWorld) -> None:
    writer = await world.writer("s", config=WriterConfig())
    size = SET_BYTES_MAX // 4 - 16
    result = await writer.append_many([bytes(size)] * 4, atomic=True)
    assert result.record_count == 4
    with pytest.raises(RecordTooLargeError, match="2621444 bytes cannot be appended together"):
        writer.append_many([bytes(size + 1)] * 4, atomic=True)
    with pytest.raises(RecordTooLargeError, match="cannot be appended together"):
        writer.append_many([bytes(size + 1)] * 4, expected=result.last)
    await writer.close()
    assert len(await world.read_all("s", 4)) == 4


@pytest.mark.parametrize("keeps_unacked", [True, False])
async def test_a_takeover_finds_all_of_an_atomic_batch_or_nothing(
    world: LogWorld, keeps_unacked: bool
) -> None:
    world.ledgers.keeps_unacked = keeps_unacked
    writer = await world.writer("s", SMALL)
    await writer.append(b"before")
    world.ledgers.are_acks_held = True
    writer.append_many([bytes(100)] * 50, atomic=True)
    await asyncio.sleep(1)
    await writer.abort()
    world.ledgers.are_acks_held = False
    async with await world.writer("s") as successor:
        await successor.append(b"after")
    count = 52 if keeps_unacked else 2
    payloads = [one.payload for one in await world.read_all("s", count)]
    assert (payloads[0], payloads[-1]) == (b"before", b"after")
    assert payloads[1:-1] == [bytes(100)] * (count - 2)

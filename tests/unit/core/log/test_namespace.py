"""Tests of streams end to end over ledgers in memory: create, append, read, tail, take over."""

import asyncio

import pytest

from rhumbline.core.protocol.errors import StreamLostError
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld


async def test_appended_records_are_read_in_order(world: LogWorld) -> None:
    writer = await world.writer("s")
    tickets = [writer.append(b"%d" % n) for n in range(1000)]
    results = [await ticket for ticket in tickets]
    assert [r.dlsn for r in results] == sorted({r.dlsn for r in results})
    await writer.close()
    records = await world.read_all("s", 1000)
    assert [r.payload for r in records] == [b"%d" % n for n in range(1000)]
    assert [r.dlsn for r in records] == [r.dlsn for r in results]
    assert [r.sequence_id for r in records] == list(range(1000))


async def test_tail_reader_sees_a_single_record_soon(world: LogWorld) -> None:
    writer = await world.writer("s")
    reader = await world.namespace.open_reader("s", EARLIEST)
    for n in range(5):
        await writer.append(b"%d" % n)
        assert (await asyncio.wait_for(anext(reader), 1)).payload == b"%d" % n
    await reader.aclose()
    await writer.close()


async def test_second_writer_continues_and_the_first_one_fails(world: LogWorld) -> None:
    first = await world.writer("s")
    await first.append(b"a")
    second = await world.writer("s")
    with pytest.raises(StreamLostError):  # it was sent, but it is not in the closed ledger
        await first.append(b"x")
    with pytest.raises(StreamLostError):
        await first.append(b"x")
    await second.append(b"b")
    await second.close()
    assert [r.payload for r in await world.read_all("s", 2)] == [b"a", b"b"]

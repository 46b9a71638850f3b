"""next_batch(until=...): a reader that wants only what is there now never waits at the tail."""

import asyncio

from rhumbline.core.log.read.positioning import EARLIEST, LATEST
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.tests.support.fakes.log_world import LogWorld, in_world


async def read_what_is_there(world: LogWorld) -> list[bytes]:
    latest = await world.namespace.open_reader("s", LATEST)
    reader = await world.namespace.open_reader("s", EARLIEST)
    found: list[bytes] = []
    async with asyncio.timeout(5):
        while (batch := await reader.next_batch(until=latest.position)) is not None:
            found += batch.payloads()
    await reader.aclose()
    await latest.aclose()
    return found


@in_world
async def test_behind_data_and_behind_control_records_alike(world: LogWorld) -> None:
    writer = await world.writer("s")
    assert await read_what_is_there(world) == []
    expected = []
    for n in range(4):
        expected.append(b"%d" % n)
        await writer.append(expected[-1])
        await asyncio.sleep(0.02)  # long enough for a control record that makes it visible
        assert await read_what_is_there(world) == expected
    await writer.close()
    assert await read_what_is_there(world) == expected


@in_world
async def test_across_writers(world: LogWorld) -> None:
    for n in range(3):
        writer = await world.writer("s")
        await writer.append(b"%d" % n)
        await writer.close()
    await world.writer("s")
    assert await read_what_is_there(world) == [b"0", b"1", b"2"]


@in_world
async def test_at_the_start_of_an_empty_last_segment(world: LogWorld) -> None:
    for n in range(2):
        writer = await world.writer("s")
        await writer.append(b"%d" % n)
        await writer.close()
    await (await world.writer("s")).close()  # an empty segment, completed
    await world.writer("s")  # and one in progress
    for lssn, expected in ((2, [b"0"]), (3, [b"0", b"1"]), (4, [b"0", b"1"])):
        reader = await world.namespace.open_reader("s", EARLIEST)
        found: list[bytes] = []
        async with asyncio.timeout(5):
            while (batch := await reader.next_batch(until=Dlsn(lssn, 0, 0))) is not None:
                found += batch.payloads()
        await reader.aclose()
        assert found == expected

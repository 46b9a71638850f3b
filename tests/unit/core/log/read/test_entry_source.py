"""Tests of ``next_batch(until=...)``: it returns all existing records and never waits."""

import asyncio

from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.start import EARLIEST, LATEST
from rhumbline.tests.support.fakes.log_world import LogWorld


async def read_existing(world: LogWorld) -> list[bytes]:
    latest = await world.namespace.open_reader("s", LATEST)
    reader = await world.namespace.open_reader("s", EARLIEST)
    found: list[bytes] = []
    async with asyncio.timeout(5):
        while (batch := await reader.next_batch(until=latest.position)) is not None:
            found += batch.payloads()
    await reader.aclose()
    await latest.aclose()
    return found


async def test_until_ends_behind_data_and_control_records(world: LogWorld) -> None:
    writer = await world.writer("s")
    assert await read_existing(world) == []
    expected = []
    for n in range(4):
        expected.append(b"%d" % n)
        await writer.append(expected[-1])
        await asyncio.sleep(0.02)  # long enough for an explicit LAC or a control record
        assert await read_existing(world) == expected
    await writer.close()
    assert await read_existing(world) == expected


async def test_until_ends_across_writers(world: LogWorld) -> None:
    for n in range(3):
        writer = await world.writer("s")
        await writer.append(b"%d" % n)
        await writer.close()
    await world.writer("s")
    assert await read_existing(world) == [b"0", b"1", b"2"]


async def test_until_ends_at_an_empty_last_segment(world: LogWorld) -> None:
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

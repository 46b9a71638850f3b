"""A time is found in archived segments, which do not have their control records."""

from random import Random

import pytest

from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.read.record_batch import Record
from rhumbline.core.protocol.segments import Residence
from rhumbline.core.protocol.start import EARLIEST, AtTime, Start
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore, archive_segments

POLICY = StreamPolicy(
    roll_bytes=900,
    flush=FlushPolicy(bytes_max=300, period_ms=0, visibility_ms=1),
    keepalive_ms=1_000,
    hot_retention_ms=0,
)


async def fill(world: LogWorld, random: Random) -> None:
    """Write segments that begin, end and go on with control records, with numbered producers."""
    sequence = 0
    for _ in range(5):
        writer = await world.writer("s", POLICY)
        for _ in range(random.randint(0, 10)):
            world.clock.now_ms += random.choice((0, 7, 900))
            if random.random() < 0.3:
                await writer.append_numbered(b"p" * 16, sequence, [b"numbered"])
                sequence += 1
            else:
                writer.append(b"x" * random.randint(1, 120))
            if random.random() < 0.5:
                await writer.flush()
        await writer.close()


async def read_from(world: LogWorld, start: Start) -> list[Record]:
    end = await world.namespace.end("s")
    found: list[Record] = []
    async with await world.namespace.open_reader("s", start) as reader:
        while (batch := await reader.next_batch(until=end)) is not None:
            found += batch.records()
    return found


@pytest.mark.seeds(8)
async def test_seek_finds_in_archives_what_reading_everything_finds(
    world: LogWorld, seed: int
) -> None:
    pytest.importorskip("pyarrow")
    await fill(world, Random(seed))
    await archive_segments(world, DictColdStore())
    world.clock.now_ms += 10_000
    await world.namespace.maintain("s")
    segments = await world.segments("s")
    assert Residence.ARCHIVE in {one.residence for one in segments}
    records = await read_from(world, EARLIEST)
    for ms in sorted({one.created_ms + delta for one in records for delta in (-1, 0, 1)}):
        expected = [one.dlsn for one in records if one.created_ms >= ms]
        found = await read_from(world, AtTime(ms))
        assert [one.dlsn for one in found] == expected

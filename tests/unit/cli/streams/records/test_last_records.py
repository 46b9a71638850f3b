"""``stream tail`` finds the last records of a stream, and reads little of what is before them."""

import pytest

from rhumbline.cli.streams.records.last_records import read_last, starts_of_last
from rhumbline.cli.streams.records.record_parts import RecordPart, read_parts
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld

SIZES: dict[str, list[tuple[int, ...]]] = {
    "one-record": [(1,)],
    "one-segment": [(1,) * 40],
    "large-entries-at-the-end": [(1,) * 300, (7,) * 3],
    "small-segments-at-the-end": [(50,), (3,), (1, 1)],
    "three-segments": [(2,) * 20, (1,) * 20, (9,)],
}
"""Streams, as the numbers of records of each entry of each segment."""


def payloads(parts: list[RecordPart]) -> list[bytes]:
    return [record.payload for part in parts for record in part.records()]


async def write_segments(world: LogWorld, *sizes: tuple[int, ...], is_closed: bool) -> list[bytes]:
    """Write segments and return all payloads. A tuple has the number of records of each entry."""
    written: list[bytes] = []
    for number, sizes_of_segment in enumerate(sizes):
        writer = await world.writer("s")
        for size in sizes_of_segment:
            new = [b"%d" % (len(written) + index) for index in range(size)]
            await writer.append_many(new)
            written += new
        if is_closed or number + 1 < len(sizes):
            await writer.close()
    return written


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
async def test_the_last_records_are_found_at_every_count(
    world: LogWorld, sizes: list[tuple[int, ...]], *, is_closed: bool
) -> None:
    written = await write_segments(world, *sizes, is_closed=is_closed)
    end = await world.namespace.end("s")
    for count in [*range(0, 60), len(written) - 1, len(written), len(written) + 1, 10**6]:
        wanted = written[-count:] if count else []
        assert payloads(await read_last(world.namespace, "s", count, end)) == wanted, count


async def test_truncated_records_are_not_among_the_last(world: LogWorld) -> None:
    written = await write_segments(world, (1,) * 40, (1,) * 40, is_closed=True)
    second = (await world.segments("s"))[1]
    await world.namespace.truncate("s", Dlsn(second.lssn, 30, 0))
    for count in (1, 9, 10, 11, 100):
        found = await read_last(world.namespace, "s", count, await world.namespace.end("s"))
        assert payloads(found) == written[70:][-count:]


@pytest.mark.parametrize("is_closed", [True, False])
async def test_few_entries_of_a_long_segment_are_read(world: LogWorld, *, is_closed: bool) -> None:
    await write_segments(world, (1,) * 2_000, is_closed=is_closed)
    end = await world.namespace.end("s")
    before = world.ledgers.reads
    assert len(await read_last(world.namespace, "s", 10, end)) == 10
    assert world.ledgers.reads - before <= 4  # of 8 entries each
    assert len(await read_last(world.namespace, "s", 1_500, end)) == 1_500


async def test_starts_go_back_to_the_start_of_the_stream(world: LogWorld) -> None:
    await write_segments(world, (1,) * 5, (1,) * 400, is_closed=True)
    known = await world.namespace.describe("s")
    starts = list(starts_of_last(known, 20, await world.namespace.end("s")))
    assert starts == sorted(starts, reverse=True) and len(starts) == len(set(starts))
    assert starts[-1] == known.start and len(starts) == 4
    assert starts[0].lssn == known.segments[-1].lssn and starts[0].entry_id >= 400 - 16


async def test_records_are_read_up_to_an_end_and_a_limit(world: LogWorld) -> None:
    written = await write_segments(world, (4, 4), (4,), is_closed=True)
    records = await world.read_all("s", len(written))
    ends = [record.dlsn for record in records]
    for wanted, end in enumerate(ends):
        for limit in (None, 1, 3, 5, 12, 100):
            async with await world.namespace.open_reader("s", EARLIEST) as reader:
                found = [part async for parts in read_parts(reader, end, limit) for part in parts]
            assert payloads(found) == written[: min(wanted, limit or wanted)], (end, limit)

"""The bytes of a lag are exact for whole segments, and in proportion otherwise."""

import asyncio

from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.segments import Segment
from rhumbline.regions.subscriptions.lag_bytes import bytes_between, measure_bytes
from rhumbline.regions.subscriptions.stream_lag import NO_LAG, UNKNOWN_LAG, count_records, lag_of
from rhumbline.tests.support.fakes.log_world import LogWorld


def segment(lssn: int, start: int, records: int, length_bytes: int) -> Segment:
    return Segment(
        lssn, "id", 10 + lssn, 1, 0,
        is_completed=True, completed_ms=1, last_entry_id=records - 1, record_count=records,
        length_bytes=length_bytes, start_sequence_id=start,
    )  # fmt: skip


SEGMENTS = [
    segment(1, 0, 10, 1_000),
    segment(2, 10, 10, 5_000),
    segment(3, 20, 2, 60),
    Segment(4, "id", 14, 1, 0),
]


def test_whole_segments_are_exact_and_parts_are_in_proportion() -> None:
    assert bytes_between(SEGMENTS, 10, 22) == 5_060
    assert bytes_between(SEGMENTS, 0, 22) == 6_060
    assert bytes_between(SEGMENTS, 5, 12) == 500 + 1_000
    assert bytes_between(SEGMENTS, 22, 22) == 0


def test_records_in_progress_have_the_mean_size_of_completed_ones() -> None:
    assert bytes_between(SEGMENTS[:1], 0, 13) == 1_000 + 300
    assert bytes_between([], 0, 3) is None


async def test_lag_of_a_subscription_between_segments(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=1))
    for size in (100, 200, 300):
        await writer.append(b"x" * size)
        await asyncio.sleep(1)  # the segment rolls
    await writer.close()
    segments = (await world.namespace.describe("s")).segments
    count = await count_records(world.namespace, "s")
    assert count is not None
    second = next(one for one in segments if one.start_sequence_id == 1)
    lag = await lag_of(world.namespace, "s", Dlsn(second.lssn, 0, 0), count)
    assert lag.records == 2
    expected = sum(one.length_bytes for one in segments if one.lssn >= second.lssn)
    assert expected >= 500
    lags = [lag, UNKNOWN_LAG, NO_LAG]
    assert await measure_bytes(world.namespace, "s", lags, count) == [expected, None, 0]
    assert await measure_bytes(world.namespace, "missing", lags, count) == [None, None, 0]

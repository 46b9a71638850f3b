"""Triggers wait for enough records, and the progress says how many records are left."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from rhumbline.spark.progress import RECORDS_BEHIND
from rhumbline.spark.read.options import parse_options
from rhumbline.spark.read.streaming import RhumblineStreamReader
from rhumbline.tests.unit.spark.streaming_world import StreamingWorld


def reader(**given: str) -> RhumblineStreamReader:
    fixed = {"metadata": "sqlite:///here", "namespace": "test", "startingOffsets": "earliest"}
    return RhumblineStreamReader(parse_options({**fixed, **given}, is_streaming=True))


@pytest.mark.parametrize("source", ["ledgers", "archive"])
def test_a_trigger_waits_for_enough_records(source: str) -> None:
    more = {"archive": "file:///cold"} if source == "archive" else {}
    with StreamingWorld() as world:
        world.write("a", [3, 2])
        world.write("b", [1])
        given = {"subscribe": "a,b", "minOffsetsPerTrigger": "9", **more}
        query = reader(**given, maxTriggerDelay="1h")
        limit = query.getDefaultReadLimit()
        assert limit == ReadMinRows(9)
        start = query.initialOffset()
        assert query.latestOffset(start, limit) == start
        world.write("b", [1, 1])
        if source == "archive":
            world.roll("a")
            world.archive("a", 1)
        assert query.latestOffset(start, limit) == start, "there are 8 new records"
        assert query.reportLatestOffset()[RECORDS_BEHIND] == {"a": 5, "b": 3}
        world.write("b", [1])
        end = query.latestOffset(start, limit)
        assert end != start
        assert query.reportLatestOffset()[RECORDS_BEHIND] == {}
        world.write("b", [1])
        assert query.latestOffset(end, limit) == end
        assert query.latestOffset(end, ReadAllAvailable()) != end
        query.prepareForTriggerAvailableNow()
        assert query.latestOffset(end, limit) != end, "a run that ends reads everything"
        query.stop()
        hasty = reader(**given, maxTriggerDelay="0ms")
        assert hasty.latestOffset(start, limit) != start, "the delay has passed"
        hasty.stop()


@pytest.mark.parametrize("is_archived", [False, True])
def test_progress_reports_the_records_that_are_left(is_archived: bool) -> None:
    with StreamingWorld() as world:
        world.write("a", [3, 2, 4, 5])
        world.roll("a")
        world.write("b", [2, 2, 2])
        if is_archived:
            world.roll("b")
            world.archive("a", 1)
            world.archive("b", 1)
            query = RhumblineStreamReader(
                parse_options(
                    {"archive": "file:///cold", "namespace": "test", "subscribe": "a,b",
                     "startingOffsets": "earliest"}, is_streaming=True,
                )
            )  # fmt: skip
        else:
            query = reader(subscribe="a,b")
        at = query.initialOffset()
        limit: ReadLimit = ReadMaxRows(8)
        lags = []
        while (end := query.latestOffset(at, limit)) != at:
            lags.append(query.reportLatestOffset()[RECORDS_BEHIND])
            at = end
        query.stop()
        assert lags == [{"a": 11, "b": 2}, {"a": 9}, {"a": 5}, *[{}] * (1 + is_archived)]

"""Tests of the counters that all writers of a process share."""

import asyncio

import pytest

from rhumbline.core.log.log_context import LogContext
from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.read.stream_reader import StreamReader
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.core.runtime.metrics import samples
from rhumbline.tests.support.fakes.log_world import LogWorld


async def test_counts_records_entries_and_failed_segments(world: LogWorld) -> None:
    context = LogContext()
    namespace = Namespace(
        world.runtime, world.store, world.ledgers.client(), "test", context=context
    )
    await namespace.create_stream("s", StreamPolicy())
    async with await namespace.open_writer("s") as writer:
        tickets = [writer.append(b"x" * 100) for _ in range(10)]
        for ticket in tickets:
            await ticket
        world.clock.now_ms += 7
        await writer.append_many([b"y"] * 5)
        world.ledgers.fail_writers()
        await writer.append(b"z")
    found = context.statistics()
    assert (found["records"], found["segments_failed"]) == (16, 1)
    assert 3 <= found["entries"] <= 4
    assert found["bytes"] >= 1_006
    assert found["acks"]["count"] == found["entries"]


async def test_lag_is_zero_only_while_every_reader_waits_at_the_end(world: LogWorld) -> None:
    context = LogContext()
    namespace = Namespace(
        world.runtime, world.store, world.ledgers.client(), "test", context=context
    )
    await namespace.create_stream("s", StreamPolicy())
    async with await namespace.open_writer("s") as writer:
        await writer.append(b"one")
        fast, slow = [await namespace.open_reader("s", EARLIEST) for _ in range(2)]
        assert context.statistics()["readers"] == {"open": 0, "behind_ms": 0}, "none has begun"
        assert await slow.next_batch() is not None
        following = asyncio.ensure_future(follow(fast))
        await asyncio.sleep(5)
        found = context.statistics()["readers"]
        assert found["open"] == 2
        assert found["behind_ms"] >= 5_000, "the slow one has not asked again"
        await slow.aclose()
        assert context.statistics()["readers"] == {"open": 1, "behind_ms": 0}
        following.cancel()
        await asyncio.wait([following])
        await fast.aclose()
        assert context.statistics()["readers"]["open"] == 0


async def write_and_read(world: LogWorld, context: LogContext) -> None:
    """Write a record to each of three streams, and read the first one."""
    namespace = Namespace(
        world.runtime, world.store, world.ledgers.client(), "test", context=context
    )
    for name in ("a", "b", "c"):
        await namespace.create_stream(name, StreamPolicy())
        async with await namespace.open_writer(name) as writer:
            await writer.append(b"x" * 10)
    async with await namespace.open_reader("a", EARLIEST) as reader:
        assert await reader.next_batch() is not None
        assert context.statistics()["readers"]["open"] == 1


@pytest.mark.parametrize(
    ("by", "series_max", "expected"),
    [
        ("none", None, {}),
        ("namespace", None, {"test": {"": 3}}),
        ("stream", 3, {"test": {"a": 1, "b": 1, "c": 1}}),
        ("stream", 1, {"other": {"other": 2}, "test": {"a": 1}}),
    ],
)
async def test_streams_are_counted_by_themselves_up_to_a_maximum(
    world: LogWorld, by: str, series_max: int | None, expected: dict[str, dict[str, int]]
) -> None:
    context = LogContext(series_by=by, series_max=series_max)
    await write_and_read(world, context)
    found = context.series.statistics()
    assert {
        namespace: {stream: counts["records"] for stream, counts in streams.items()}
        for namespace, streams in found.items()
    } == expected
    assert context.statistics()["records"] == 3
    assert context.statistics()["readers"]["open"] == 0, "the reader was closed"


async def test_streams_counted_by_themselves_are_metrics_with_labels(world: LogWorld) -> None:
    context = LogContext(series_by="stream", series_max=10)
    await write_and_read(world, context)
    found = {metric.prometheus_name: values for metric, values in
             samples("client", {"by_stream": context.series.statistics()}).items()}  # fmt: skip
    records = found["rhumbline_client_by_stream_records_total"]
    assert [dict(sample.labels) for sample in records] == [
        {"namespace": "test", "stream": name} for name in ("a", "b", "c")
    ]
    assert "rhumbline_client_by_stream_readers_behind_seconds" in found


async def follow(reader: StreamReader) -> None:
    while await reader.next_batch() is not None:
        pass


async def test_failed_records_are_not_counted(world: LogWorld) -> None:
    context = LogContext()
    namespace = Namespace(
        world.runtime, world.store, world.ledgers.client(), "test", context=context
    )
    await namespace.create_stream("s", StreamPolicy())
    writer = await namespace.open_writer("s")
    world.ledgers.are_acks_held = True
    ticket = writer.append(b"x")
    await writer.abort()
    try:
        await ticket
    except RhumblineError:
        assert context.statistics()["records"] == 0
    else:
        raise AssertionError("an aborted append was acknowledged")

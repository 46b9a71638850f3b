"""The elected process measures the lag of every subscription, and exports a bounded number."""

import asyncio

import pytest

from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.stream_series import BY_NAMESPACE, BY_STREAM
from rhumbline.core.log.topics.topic_writer import open_topic_writer
from rhumbline.core.log.topics.topics import create_topic
from rhumbline.core.protocol.dlsn import FIRST_DLSN, Dlsn
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.core.runtime.metrics import samples
from rhumbline.regions.all_streams import STREAMS_AT_ONCE
from rhumbline.regions.subscriptions import lag_runner
from rhumbline.regions.subscriptions.lag_runner import SeriesRule, SubscriptionLags
from rhumbline.regions.subscriptions.stream_lag import read_positions
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log

AGE_MS = 7_000


async def fill(world: LogWorld) -> None:
    """Create streams of 1, 2 and 3 records, with a subscription at the beginning of each."""
    for count, name in enumerate(("a", "b", "c"), 1):
        writer = await world.writer(name)
        for n in range(count):
            await writer.append(b"%d" % n)
        await writer.close()
        await world.namespace.subscriptions.create(name, "group", FIRST_DLSN)
    world.clock.now_ms += AGE_MS


def lags_of(world: LogWorld, series: SeriesRule | None = None) -> SubscriptionLags:
    return SubscriptionLags(
        world.store,
        lambda _: world.namespace,
        world.clock,
        interval_ms=60_000,
        series=series,
    )


async def test_the_slowest_subscription_of_all_is_exported(world: LogWorld) -> None:
    await fill(world)
    lags = lags_of(world)
    await lags.run_once()
    found = samples("repair", {"subscriptions": lags.statistics()})
    [segment] = (await world.namespace.describe("c")).segments
    assert {metric.prometheus_name: values[0].value for metric, values in found.items()} == {
        "rhumbline_repair_subscriptions_examined": 3,
        "rhumbline_repair_subscriptions_unknown": 0,
        "rhumbline_repair_subscriptions_lag_records": 3,
        "rhumbline_repair_subscriptions_lag_bytes": segment.length_bytes,
        "rhumbline_repair_subscriptions_behind_seconds": AGE_MS / 1000,
    }


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (SeriesRule(BY_NAMESPACE, 5), {("test", "", ""): 3}),
        (
            SeriesRule(BY_STREAM, 5),
            {("test", "a", "group"): 1, ("test", "b", "group"): 2, ("test", "c", "group"): 3},
        ),
        (
            SeriesRule(BY_STREAM, 1),
            {("test", "a", "group"): 1, ("other", "other", "other"): 3},
        ),
    ],
)
async def test_single_series_are_exported_up_to_their_maximum(
    world: LogWorld, series: SeriesRule, expected: dict[tuple[str, str, str], int]
) -> None:
    await fill(world)
    lags = lags_of(world, series)
    await lags.run_once()
    found = samples("repair", {"subscriptions": lags.statistics()})
    (values,) = [
        values
        for metric, values in found.items()
        if metric.prometheus_name == "rhumbline_repair_subscriptions_by_name_lag_records"
    ]
    assert {tuple(text for _, text in one.labels): one.value for one in values} == expected


async def test_only_the_elected_process_measures(world: LogWorld) -> None:
    await fill(world)
    lags, is_elected = lags_of(world), True
    running = asyncio.ensure_future(lags.run(lambda: is_elected))
    await asyncio.sleep(61)
    assert lags.statistics()["examined"] == 3
    is_elected = False
    await asyncio.sleep(60)
    assert lags.statistics()["examined"] == 0
    running.cancel()
    await asyncio.wait([running])


async def test_a_failed_pass_is_logged_and_the_next_one_measures(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(world)
    lags = lags_of(world)
    with (
        recorded_log("rhumbline.regions.subscriptions.lag_runner") as log,
        monkeypatch.context() as m,
    ):

        async def fail(_self: SubscriptionLags) -> None:
            raise MetadataUnavailableError("the store is away")

        m.setattr(SubscriptionLags, "run_once", fail)
        running = asyncio.ensure_future(lags.run(lambda: True))
        await asyncio.sleep(61)
        assert log.events() == ["lag measurement failed"]
        m.undo()
        await asyncio.sleep(60)
    assert lags.statistics()["examined"] == 3
    running.cancel()
    await asyncio.wait([running])


async def test_lag_of_a_group_is_the_sum_over_the_partitions_of_its_topic(world: LogWorld) -> None:
    await fill(world)
    topic = await create_topic(world.store, world.namespace, "t", 3)
    async with await open_topic_writer(world.namespace, topic) as writer:
        for partition, count in enumerate((4, 0, 6)):
            for n in range(count):
                await writer.writers[partition].append(b"%d" % n)
    for stream in topic.streams:
        await world.namespace.subscriptions.create(stream, "workers", FIRST_DLSN)
    world.clock.now_ms += 500
    lags = lags_of(world, SeriesRule(BY_STREAM, 5))
    await lags.run_once()
    shown = lags.statistics()
    (found,) = shown["by_group"]["test"]["t"].values()
    assert (found["lag_records"], found["behind_ms"]) == (10, 500)
    described = [await world.namespace.describe(stream) for stream in topic.streams]
    assert found["lag_bytes"] == sum(one.segments[0].length_bytes for one in described) > 0
    names = [metric.prometheus_name for metric in samples("repair", {"subscriptions": shown})]
    assert "rhumbline_repair_subscriptions_by_group_lag_records" in names
    lags = lags_of(world, SeriesRule(BY_NAMESPACE, 5))
    await lags.run_once()
    assert lags.statistics()["by_group"] == {}


async def test_streams_are_measured_at_the_same_time_and_exported_in_order(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass measured one stream after the other, each with several round trips."""
    for number in range(2 * STREAMS_AT_ONCE):
        await world.namespace.create_stream(f"s{number:02}")
        await world.namespace.subscriptions.create(f"s{number:02}", "group", FIRST_DLSN)

    async def far(namespace: Namespace, stream: str) -> list[tuple[str, Dlsn]]:
        await asyncio.sleep(0.1 if stream == "s00" else 0.05)
        return await read_positions(namespace, stream)

    monkeypatch.setattr(lag_runner, "read_positions", far)
    lags = lags_of(world, SeriesRule(BY_STREAM, 3))
    began_s = asyncio.get_running_loop().time()
    await lags.run_once()
    assert asyncio.get_running_loop().time() - began_s < 0.2
    found = lags.statistics()
    assert found["examined"] == 2 * STREAMS_AT_ONCE
    assert sorted(found["by_name"]["test"]) == ["s00", "s01", "s02"]

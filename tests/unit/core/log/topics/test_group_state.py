"""Groups are listed, described, reset and deleted."""

import asyncio

import pytest

from rhumbline.core.log.topics.consumer_group import GroupMember
from rhumbline.core.log.topics.group_state import (
    delete_group,
    describe_group,
    list_groups,
    reset_group,
)
from rhumbline.core.log.topics.topic_writer import open_topic_writer
from rhumbline.core.log.topics.topics import create_topic
from rhumbline.core.protocol.errors import (
    InvalidArgumentError,
    NoSuchSubscriptionError,
    NotEmptyError,
)
from rhumbline.core.protocol.start import EARLIEST, LATEST
from rhumbline.regions.subscriptions.group_lag import (
    LagTotal,
    PartitionLag,
    lag_by_member,
    measure_group,
)
from rhumbline.regions.subscriptions.stream_lag import Lag
from rhumbline.tests.support.fakes.log_world import LogWorld


async def test_lag_is_that_of_partitions_members_and_the_group(world: LogWorld) -> None:
    store, namespace = world.store, world.namespace
    topic = await create_topic(store, namespace, "t", 2)
    async with await open_topic_writer(namespace, topic) as writer:
        for partition, count in ((0, 3), (1, 5)):
            await writer.writers[partition].append_many([b"x" * 100] * count)
    with pytest.raises(NoSuchSubscriptionError, match="no group g"):
        await describe_group(store, namespace, topic, "g")
    async with GroupMember(world.runtime, store, namespace, topic, "g") as member:
        await asyncio.sleep(1)
        delivery = await anext(member)
        records = delivery.batch.records()
        await member.commit(delivery, through=records[1].dlsn)
        world.clock.now_ms += 4_000
        described = await describe_group(store, namespace, topic, "g")
        (only,) = described.members
        assert [one.member for one in described.partitions] == [only, only]
        assert await list_groups(store, namespace, topic) == ["g"]
        lags = await measure_group(namespace, described)
        assert [one.lag.records for one in lags] == [1, 5]
        total = LagTotal.of(lags, world.clock.now_ms)
        assert total == lag_by_member(lags, world.clock.now_ms)[only]
        assert (total.records, total.behind_ms) == (6, 4_000)
        assert total.bytes is not None
        assert 600 < total.bytes < 1_200, "six of the records of 100 bytes, with their overhead"
        with pytest.raises(NotEmptyError, match="nothing was reset"):
            await reset_group(store, namespace, topic, "g", EARLIEST)
        with pytest.raises(NotEmptyError):
            await delete_group(store, namespace, topic, "g")
    assert (await describe_group(store, namespace, topic, "g")).members == ()
    after = await reset_group(store, namespace, topic, "g", LATEST, partition=1)
    assert [one.lag.records for one in await measure_group(namespace, after)] == [1, 0]
    after = await reset_group(store, namespace, topic, "g", EARLIEST)
    assert [one.lag.records for one in await measure_group(namespace, after)] == [3, 5]
    with pytest.raises(InvalidArgumentError, match="no partition 7"):
        await reset_group(store, namespace, topic, "g", EARLIEST, partition=7)
    await delete_group(store, namespace, topic, "g")
    assert await list_groups(store, namespace, topic) == []


async def test_part_of_the_lag_that_is_unknown_makes_the_sum_unknown() -> None:
    lags = [PartitionLag(0, "a", Lag(3, 10), 30), PartitionLag(1, "b", Lag(None, None), None)]
    assert LagTotal.of(lags, 20) == LagTotal(None, None, None)
    assert lag_by_member(lags, 20) == {"a": LagTotal(3, 30, 10), "b": LagTotal(None, None, None)}

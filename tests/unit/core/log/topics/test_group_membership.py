"""Rebalances as an application sees them: callbacks, pauses, crashes, and growing topics."""

import asyncio
from collections.abc import Sequence

import pytest

from rhumbline.core.log.topics.consumer_group import Delivery, GroupMember
from rhumbline.core.log.topics.group_membership import GroupConfig, GroupListener
from rhumbline.core.log.topics.topic_writer import TopicWriter, open_topic_writer
from rhumbline.core.log.topics.topics import Topic, create_topic, grow_topic
from rhumbline.core.protocol.errors import ConfigurationError, InvalidArgumentError
from rhumbline.tests.support.fakes.log_world import LogWorld


class Recorder(GroupListener):
    """Notes each callback."""

    def __init__(self, name: str = "", log: list[str] | None = None) -> None:
        self.name = name
        self.log: list[str] = [] if log is None else log
        self.fails = False

    async def on_assigned(self, partitions: Sequence[int]) -> None:
        self.log.append(f"{self.name}+{list(partitions)}")
        if self.fails:
            raise RuntimeError("the application's own fault")

    async def on_revoked(self, partitions: Sequence[int]) -> None:
        self.log.append(f"{self.name}-{list(partitions)}")

    async def on_lost(self, partitions: Sequence[int]) -> None:
        self.log.append(f"{self.name}!{list(partitions)}")


async def make_topic(world: LogWorld, partitions: int) -> tuple[Topic, TopicWriter]:
    topic = await create_topic(world.store, world.namespace, "t", partitions)
    return topic, await open_topic_writer(world.namespace, topic)


def member_of(
    world: LogWorld,
    topic: Topic,
    listener: GroupListener | None = None,
    config: GroupConfig | None = None,
) -> GroupMember:
    return GroupMember(
        world.runtime, world.store, world.namespace, topic, "g", listener=listener, config=config
    )


async def take(member: GroupMember, count: int) -> list[Delivery]:
    async with asyncio.timeout(60):
        return [await anext(member) for _ in range(count)]


async def test_partitions_that_stay_are_not_interrupted(world: LogWorld) -> None:
    topic, writer = await make_topic(world, 4)
    log: list[str] = []
    async with member_of(world, topic, Recorder("a", log)) as first:
        await asyncio.sleep(1)
        assert first.partitions == (0, 1, 2, 3)
        kept = dict(first._sources)
        async with member_of(world, topic, Recorder("b", log)) as second:
            await asyncio.sleep(1)
            assert len(first.partitions) == len(second.partitions) == 2
            assert {n: kept[n] for n in first.partitions} == first._sources, "the same readers"
            moved = list(second.partitions)
            assert log == ["a+[0, 1, 2, 3]", f"a-{moved}", f"b+{moved}"]
            del log[:]
        await asyncio.sleep(1)
        assert log == [f"a+{moved}"]
    await writer.close()


async def test_application_commits_in_the_callback_before_a_partition_goes(world: LogWorld) -> None:
    """Without it, the next member would read the batch again."""
    topic, writer = await make_topic(world, 2)
    for partition in (0, 1):
        await writer.writers[partition].append(b"%d" % partition)
    processed: list[Delivery] = []

    class Commits(GroupListener):
        async def on_revoked(self, partitions: Sequence[int]) -> None:
            for delivery in processed:
                if delivery.partition in partitions:
                    await first.commit(delivery)

    first = member_of(world, topic, Commits())
    async with first:
        processed += await take(first, 2)
        async with member_of(world, topic) as second:
            waiting = asyncio.create_task(take(first, 1))  # both batches are finished
            await asyncio.sleep(5)
            (gone,) = second.partitions
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(30):
                    await anext(second)
            position = (await world.namespace.subscriptions.read(topic.stream(gone), "g")).position
            assert position > processed[gone].batch.first_dlsn
            waiting.cancel()
    await writer.close()


async def test_what_a_callback_raises_iteration_raises(world: LogWorld) -> None:
    topic, writer = await make_topic(world, 1)
    listener = Recorder()
    listener.fails = True
    async with member_of(world, topic, listener) as member:
        with pytest.raises(RuntimeError, match="the application's own fault"):
            await take(member, 1)
        await writer.append(b"goes on")
        (found,) = await take(member, 1)
        assert found.batch.payloads() == [b"goes on"]
    await writer.close()


async def test_lost_partitions_are_reported_apart_from_revoked_ones(world: LogWorld) -> None:
    topic, writer = await make_topic(world, 2)
    listener = Recorder()
    async with member_of(world, topic, listener) as member:
        await asyncio.sleep(1)
        assert member._session is not None
        member._session.expire()  # type: ignore[attr-defined]
        await asyncio.sleep(5)
        assert listener.log == ["+[0, 1]", "![0, 1]", "+[0, 1]"]
    await writer.close()


async def test_paused_partition_waits_and_the_others_go_on(world: LogWorld) -> None:
    topic, writer = await make_topic(world, 2)
    async with member_of(world, topic) as member:
        await asyncio.sleep(1)
        member.pause(0)
        assert member.paused == (0,)
        for n in range(20):
            for partition in (0, 1):
                await writer.writers[partition].append(b"%d" % n)
        found = await take(member, 20)
        assert {one.partition for one in found} == {1}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await anext(member)
        waiting = asyncio.create_task(take(member, 20))
        await asyncio.sleep(1)
        member.resume(0)
        found = await waiting
        assert [one.batch.payloads() for one in found] == [[b"%d" % n] for n in range(20)]
        with pytest.raises(InvalidArgumentError, match="has no partition 2: it has 2"):
            member.pause(2)
    await writer.close()


async def test_position_within_a_batch_is_committed(world: LogWorld) -> None:
    topic, writer = await make_topic(world, 1)
    await writer.writers[0].append_many([b"%d" % n for n in range(10)])
    async with member_of(world, topic) as member:
        (delivery,) = await take(member, 1)
        records = delivery.batch.records()
        await member.commit(delivery, through=records[3].dlsn)
        await member.commit(delivery, through=records[1].dlsn)  # never back
    async with member_of(world, topic) as member:
        (again,) = await take(member, 1)
        assert again.batch.payloads() == [b"%d" % n for n in range(4, 10)]
        with pytest.raises(InvalidArgumentError, match="no record of the batch is at"):
            await member.commit(again, through=records[3].dlsn)
        await member.commit(again)
    await writer.close()


async def test_crashed_member_is_replaced_within_its_session(world: LogWorld) -> None:
    topic, writer = await make_topic(world, 4)
    config = GroupConfig(session_ttl_ms=1_500)
    async with member_of(world, topic, config=config) as survivor:
        crashed = member_of(world, topic, config=config)
        await crashed.__aenter__()
        await asyncio.sleep(1)
        assert len(crashed.partitions) == 2
        session = crashed._session
        await crashed._run_tasks.aclose()  # the process has gone, its session ends by itself
        await crashed._reader_tasks.aclose()
        for source in crashed._sources.values():
            await source.aclose()
        asyncio.get_running_loop().call_later(1.5, session.expire)  # type: ignore[union-attr]
        await asyncio.sleep(2)
        assert survivor.partitions == (0, 1, 2, 3)
    await writer.close()


@pytest.mark.parametrize("turns", range(1, 12))
async def test_member_whose_leaving_is_cancelled_leaves_all_the_same(
    world: LogWorld, turns: int
) -> None:
    topic, writer = await make_topic(world, 2)
    member = member_of(world, topic)
    await member.__aenter__()
    await asyncio.sleep(1)
    assert member.partitions == (0, 1)
    leaving = asyncio.create_task(member.aclose())
    for _ in range(turns):
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await asyncio.sleep(1)
    async with member_of(world, topic) as next_member:
        await asyncio.sleep(1)
        assert next_member.partitions == (0, 1)
    await member.aclose()
    await writer.close()


async def test_members_read_the_partitions_of_a_topic_that_grows(world: LogWorld) -> None:
    topic, _ = await make_topic(world, 2)
    async with member_of(world, topic) as first, member_of(world, topic) as second:
        await asyncio.sleep(1)
        grown = await grow_topic(world.store, world.namespace, "t", 5)
        await asyncio.sleep(1)
        assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3, 4]
        async with await open_topic_writer(world.namespace, grown) as larger:
            for n in range(100):
                larger.append(b"%d" % n, key=b"%d" % n)
        seen: set[bytes] = set()

        async def collect(member: GroupMember) -> None:
            async for delivery in member:
                seen.update(delivery.batch.payloads())

        tasks = [asyncio.create_task(collect(member)) for member in (first, second)]
        await asyncio.sleep(10)
        assert len(seen) == 100
        for task in tasks:
            task.cancel()


async def test_members_have_names(world: LogWorld) -> None:
    topic, writer = await make_topic(world, 1)
    async with member_of(world, topic, config=GroupConfig(member_name="host-7")) as member:
        await asyncio.sleep(1)
        assert member._id.startswith("host-7.")
    with pytest.raises(InvalidArgumentError, match="bad member name"):
        GroupConfig(member_name="a/b")
    with pytest.raises(ConfigurationError, match="session_ttl_ms"):
        GroupConfig(session_ttl_ms=0)
    await writer.close()

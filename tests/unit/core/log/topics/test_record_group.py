"""Members that acknowledge single records: crashes, handovers, dead letters of a partition."""

import asyncio
from collections import Counter

import pytest

from rhumbline.core.log.topics.dead_letters import StreamDeadLetters, dead_letter_in
from rhumbline.core.log.topics.record_consumer import RecordConfig
from rhumbline.core.log.topics.record_group import RecordGroupMember
from rhumbline.core.log.topics.topic_writer import TopicWriter, open_topic_writer
from rhumbline.core.log.topics.topics import Topic, create_topic
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.tests.support.fakes.log_world import LogWorld


async def make_topic(world: LogWorld, partitions: int) -> tuple[Topic, TopicWriter]:
    topic = await create_topic(world.store, world.namespace, "t", partitions)
    return topic, await open_topic_writer(world.namespace, topic)


def member_of(
    world: LogWorld, topic: Topic, records: RecordConfig | None = None
) -> RecordGroupMember:
    has_dead_letters = records is not None and records.deliveries_max is not None
    return RecordGroupMember(
        world.runtime,
        world.store,
        world.namespace,
        topic,
        "g",
        records=records,
        dead_letters=(lambda n: StreamDeadLetters(world.namespace, f"dead.{n}"))
        if has_dead_letters
        else None,
    )


async def work(member: RecordGroupMember, seen: Counter[bytes], rejected: set[bytes]) -> None:
    async for received in member:
        await asyncio.sleep(0.01)
        seen[received.payload] += 1
        if received.payload in rejected:
            member.reject(received, reason="not now")
        else:
            member.acknowledge(received)


async def test_every_record_is_acknowledged_or_a_dead_letter(world: LogWorld) -> None:
    topic, writer = await make_topic(world, 3)
    await create_topic(world.store, world.namespace, "dead", 3)
    config = RecordConfig(deliveries_max=3, timeout_ms=2_000)
    seen: Counter[bytes] = Counter()
    rejected = {b"7", b"42"}
    for n in range(60):
        writer.append(b"%d" % n, key=b"%d" % n)
    await writer.end_streams()
    async with member_of(world, topic, config) as first:
        first_work = asyncio.create_task(work(first, seen, rejected))
        await asyncio.sleep(0.2)
        async with member_of(world, topic, config) as second:
            second_work = asyncio.create_task(work(second, seen, rejected))
            async with asyncio.timeout(120):
                await asyncio.gather(first_work, second_work)
    assert set(seen) == {b"%d" % n for n in range(60)}
    dead = []
    for key in sorted(rejected):
        stream = f"dead.{topic.partition_of(key)}"
        (record,) = await world.read_all(stream, 1)
        dead.append(dead_letter_in(record))
    assert [letter.payload for letter in dead] == sorted(rejected)
    assert {letter.reason for letter in dead} == {"not now"}
    assert {letter.stream for letter in dead} <= set(topic.streams)


async def test_handover_waits_for_the_records_that_the_application_has(world: LogWorld) -> None:
    topic, writer = await make_topic(world, 2)
    for partition in (0, 1):
        await writer.writers[partition].append(b"%d" % partition)
    async with member_of(world, topic) as first:
        async with asyncio.timeout(60):
            held = [await anext(first) for _ in range(2)]
        async with member_of(world, topic) as second:
            await asyncio.sleep(3)
            assert second.partitions == (), "the application has both records"
            for received in held:
                assert first.acknowledge(received)
            await asyncio.sleep(1)
            assert len(second.partitions) == 1
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(30):
                    await anext(second)
            gone = held[second.partitions[0]]
            assert not first.acknowledge(gone), "the partition has another reader"
    await writer.close()


async def test_records_of_a_lost_member_are_delivered_again(world: LogWorld) -> None:
    topic, writer = await make_topic(world, 1)
    await writer.writers[0].append_many([b"%d" % n for n in range(5)])
    async with member_of(world, topic) as member:
        async with asyncio.timeout(60):
            held = [await anext(member) for _ in range(5)]
        member.acknowledge(held[1])
        await member.flush()
        assert member._session is not None
        member._session.expire()  # type: ignore[attr-defined]
        async with asyncio.timeout(60):
            again = [await anext(member) for _ in range(4)]
        assert [received.payload for received in again] == [b"0", b"2", b"3", b"4"]
        assert {received.deliveries for received in again} == {2}
    await writer.close()


async def test_deliveries_are_limited_only_with_a_dead_letter_stream(world: LogWorld) -> None:
    topic, writer = await make_topic(world, 1)
    with pytest.raises(ConfigurationError, match="only allowed together"):
        RecordGroupMember(
            world.runtime,
            world.store,
            world.namespace,
            topic,
            "g",
            records=RecordConfig(deliveries_max=3),
        )
    await writer.close()

"""A writer of a topic does what a writer of a stream does, for all partitions."""

import asyncio

import pytest

from rhumbline.core.log.config import WriterConfig
from rhumbline.core.log.topics.topic_writer import open_topic_writer
from rhumbline.core.log.topics.topics import (
    Topic,
    create_topic,
    grow_topic,
    list_topics,
    open_topic,
)
from rhumbline.core.protocol.errors import (
    InvalidArgumentError,
    NoSuchStreamError,
    StreamLostError,
    TooManyRequestsError,
)
from rhumbline.tests.support.fakes.log_world import LogWorld

PRODUCER = bytes(range(16))


async def make_topic(world: LogWorld, partitions: int) -> Topic:
    return await create_topic(world.store, world.namespace, "t", partitions)


async def test_batches_are_split_by_key_and_keep_their_order(world: LogWorld) -> None:
    topic = await make_topic(world, 3)
    keys = [b"%d" % (n % 5) for n in range(40)]
    async with await open_topic_writer(world.namespace, topic) as writer:
        appended = writer.append_many([b"%d" % n for n in range(40)], keys)
        results = await appended
        assert appended.is_done
        assert sum(result.record_count for result in results.values()) == 40
        await writer.append_many([b"a", b"b", b"c"])
        with pytest.raises(InvalidArgumentError, match="need as many keys"):
            writer.append_many([b"x"], [])
        with pytest.raises(InvalidArgumentError, match="at least one record"):
            writer.append_many([])
    for partition, result in results.items():
        mine = [b"%d" % n for n in range(40) if topic.partition_of(keys[n]) == partition]
        found = await world.read_all(topic.stream(partition), len(mine))
        assert [record.payload for record in found] == mine
        assert found[0].dlsn == result.first


async def test_room_and_failure_are_those_of_all_partitions(world: LogWorld) -> None:
    topic = await make_topic(world, 2)
    namespace = world.open_namespace(WriterConfig(outstanding_bytes_max=2_000))
    writer = await open_topic_writer(namespace, topic)
    world.ledgers.are_acks_held = True
    for _ in range(5):
        writer.writers[0].append_many([b"x" * 400])
        await asyncio.sleep(1)
    await writer.writers[1].room()
    full = writer.writers[0]
    with pytest.raises(TooManyRequestsError):
        full.append_many([b"x" * 400])
    with pytest.raises(TooManyRequestsError):
        writer.append_many([b"y", b"z"])
    world.ledgers.are_acks_held = False
    world.ledgers.release_acks()
    await writer.room()
    await writer.append_many([b"y", b"z"])
    assert writer.failure is None
    await world.namespace.open_writer("t.1")
    with pytest.raises(StreamLostError):
        await writer.writers[1].append(b"late")
    assert isinstance(writer.failure, StreamLostError)
    await writer.writers[0].close()


async def test_numbered_records_are_appended_once_to_each_partition(world: LogWorld) -> None:
    topic = await make_topic(world, 2)
    for _ in range(2):  # the second attempt repeats everything with another writer
        async with await open_topic_writer(world.namespace, topic) as writer:
            for key in (b"a", b"b", b"c", b"d"):
                partition = writer.partition_of(key)
                assert partition == topic.partition_of(key)
            for partition in (0, 1):
                await writer.append_numbered(PRODUCER, 0, [b"0", b"1"], partition=partition)
                assert writer.last_sequence(PRODUCER, partition=partition) == 1
            with pytest.raises(InvalidArgumentError, match="no partition 2"):
                writer.append_numbered(PRODUCER, 2, [b"2"], partition=2)
    for stream in topic.streams:
        assert [record.payload for record in await world.read_all(stream, 2)] == [b"0", b"1"]
        assert await world.namespace.end(stream) > (await world.read_all(stream, 2))[1].dlsn


async def test_topic_grows_and_keys_keep_their_order_within_a_partition(world: LogWorld) -> None:
    topic = await make_topic(world, 2)
    grown = await grow_topic(world.store, world.namespace, "t", 5)
    assert (grown.partition_count, grown.first_count) == (5, 2)
    assert await grow_topic(world.store, world.namespace, "t", 5) == grown
    assert await open_topic(world.store, world.namespace, "t") == grown
    async with await open_topic_writer(world.namespace, grown) as writer:
        for n in range(50):
            key = b"%d" % n
            chosen = writer.partition_of(key)
            assert chosen == grown.partition_of(key)
            assert chosen == topic.partition_of(key) or chosen >= 2
    with pytest.raises(InvalidArgumentError, match="cannot shrink to 3"):
        await grow_topic(world.store, world.namespace, "t", 3)
    with pytest.raises(NoSuchStreamError, match="no topic u"):
        await grow_topic(world.store, world.namespace, "u", 3)
    assert await list_topics(world.store, world.namespace) == ["t"]
    assert await list_topics(world.store, world.namespace, "x") == []

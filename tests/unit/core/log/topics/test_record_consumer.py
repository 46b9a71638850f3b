"""Acknowledgement of single records: redelivery, delays, dead letters, and what a crash leaves."""

import asyncio

import pytest

from rhumbline.core.log.metadata.subscriptions import Subscription
from rhumbline.core.log.topics.dead_letters import StreamDeadLetters, dead_letter_in
from rhumbline.core.log.topics.record_consumer import ReceivedRecord, RecordConfig, RecordConsumer
from rhumbline.core.protocol.errors import (
    ClosedError,
    ConfigurationError,
    CorruptionError,
    InvalidArgumentError,
    SubscriptionLostError,
)
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, OK, UNAVAILABLE


async def write(world: LogWorld, count: int, *, per_batch: int = 5, ends: bool = False) -> None:
    writer = await world.writer("s")
    for first in range(0, count, per_batch):
        await writer.append_many([b"%d" % n for n in range(first, min(count, first + per_batch))])
    await (writer.end_stream() if ends else writer.close())


def open_consumer(world: LogWorld, **config: int | None) -> RecordConsumer:
    dead_letters = None
    if config.get("deliveries_max") is not None:
        dead_letters = StreamDeadLetters(world.namespace, "dead")
    return RecordConsumer(
        world.runtime,
        world.namespace,
        "s",
        "mine",
        config=RecordConfig(**config),  # type: ignore[arg-type]
        dead_letters=dead_letters,
    )


async def take(consumer: RecordConsumer, count: int) -> list[ReceivedRecord]:
    async with asyncio.timeout(60):
        return [await anext(consumer) for _ in range(count)]


async def stored(world: LogWorld) -> Subscription:
    return await world.namespace.subscriptions.read("s", "mine")


async def test_acknowledged_records_are_not_delivered_again(world: LogWorld) -> None:
    await write(world, 20)
    async with open_consumer(world) as consumer:
        found = await take(consumer, 20)
        assert [one.payload for one in found] == [b"%d" % n for n in range(20)]
        assert {one.deliveries for one in found} == {1}
        for one in found[::2]:
            assert consumer.acknowledge(one.position)
            assert not consumer.acknowledge(one.position), "it was acknowledged before"
    async with open_consumer(world) as consumer:
        found = await take(consumer, 10)
        assert [int(one.payload) for one in found] == list(range(1, 20, 2))
        assert {one.deliveries for one in found} == {2}
        for one in found:
            consumer.acknowledge(one.position)
    left = await stored(world)
    assert left.acknowledgements is not None
    assert not left.acknowledgements.ranges
    assert str(left.position) > str(found[-1].position)


async def test_position_never_passes_an_unacknowledged_record(world: LogWorld) -> None:
    await write(world, 20)
    async with open_consumer(world) as consumer:
        found = await take(consumer, 20)
        for one in found[:3] + found[4:]:
            consumer.acknowledge(one.position)
        await consumer.flush()
        assert (await stored(world)).position == found[3].position
        consumer.acknowledge(found[3].position)
        await consumer.flush()
        assert (await stored(world)).position > found[-1].position


async def test_rejected_record_returns_after_its_delay(world: LogWorld) -> None:
    await write(world, 3)
    loop = asyncio.get_running_loop()
    async with open_consumer(world) as consumer:
        found = await take(consumer, 3)
        began = loop.time()
        assert consumer.reject(found[1].position, delay_ms=7_000)
        assert not consumer.reject(found[1].position), "the application does not have it"
        (again,) = await take(consumer, 1)
        assert (again.payload, again.deliveries) == (b"1", 2)
        assert 7.0 <= loop.time() - began < 7.5
        with pytest.raises(InvalidArgumentError, match="delay_ms=-1"):
            consumer.reject(again.position, delay_ms=-1)


async def test_record_that_is_not_acknowledged_in_time_returns(world: LogWorld) -> None:
    await write(world, 2)
    async with open_consumer(world, timeout_ms=5_000) as consumer:
        first, second = await take(consumer, 2)
        consumer.acknowledge(second.position)
        began = asyncio.get_running_loop().time()
        (again,) = await take(consumer, 1)
        assert (again.position, again.deliveries) == (first.position, 2)
        assert 4.9 <= asyncio.get_running_loop().time() - began < 6


async def test_delivery_stops_at_the_limit_of_unacknowledged_records(world: LogWorld) -> None:
    await write(world, 20)
    async with open_consumer(world, unacknowledged_max=4, timeout_ms=None) as consumer:
        found = await take(consumer, 4)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await anext(consumer)
        consumer.acknowledge(found[2].position)
        (fifth,) = await take(consumer, 1)
        assert fifth.payload == b"4"


async def test_record_at_which_consumers_crash_becomes_a_dead_letter(world: LogWorld) -> None:
    await write(world, 6)
    await world.namespace.create_stream("dead")
    seen = []
    for _ in range(3):
        consumer = open_consumer(world, deliveries_max=3)
        await consumer.open()
        while True:
            (one,) = await take(consumer, 1)
            seen.append((one.payload, one.deliveries))
            if one.payload == b"2":
                break
            consumer.acknowledge(one.position)
            await consumer.flush()
        await consumer.abandon()
    assert [count for payload, count in seen if payload == b"2"] == [1, 2, 3]
    async with open_consumer(world, deliveries_max=3) as consumer:
        found = await take(consumer, 3)
        assert [one.payload for one in found] == [b"3", b"4", b"5"]
    (record,) = await world.read_all("dead", 1)
    letter = dead_letter_in(record)
    assert (letter.stream, letter.subscription, letter.payload) == ("s", "mine", b"2")
    assert letter.deliveries == 3
    assert letter.reason == "its consumer stopped without an answer"


async def test_dead_letter_is_appended_before_the_record_is_acknowledged(world: LogWorld) -> None:
    await write(world, 1)
    await world.namespace.create_stream("dead")
    async with open_consumer(world, deliveries_max=2) as consumer:
        (one,) = await take(consumer, 1)
        consumer.reject(one.position, reason="no such customer")
        (one,) = await take(consumer, 1)
        world.ledgers.are_acks_held = True
        consumer.reject(one.position, reason="no such customer")
        await asyncio.sleep(30)
        assert (await stored(world)).position <= one.position
        world.ledgers.are_acks_held = False
        world.ledgers.release_acks()
        await asyncio.sleep(1)
        assert (await stored(world)).position > one.position
    (record,) = await world.read_all("dead", 1)
    letter = dead_letter_in(record)
    assert (letter.reason, letter.deliveries, letter.position) == (
        "no such customer",
        2,
        one.position,
    )


async def test_dead_letter_keeps_key_headers_and_event_time(world: LogWorld) -> None:
    writer = await world.writer("s")
    await writer.append(b"x", key=b"k", headers={"trace": b"1"}, event_time=77)
    await writer.append(b"y", headers={f"h{n}": b"" for n in range(100)})
    await writer.close()
    await world.namespace.create_stream("dead")
    async with open_consumer(world, deliveries_max=1) as consumer:
        for one in await take(consumer, 2):
            consumer.reject(one.position, reason="no")
        await asyncio.sleep(5)
    first, second = await world.read_all("dead", 2)
    letter = dead_letter_in(first)
    assert (letter.key, letter.headers, letter.event_time) == (b"k", {"trace": b"1"}, 77)
    assert first.headers["rhumbline-dead-reason"] == b"no"
    assert dead_letter_in(second).headers == {}, "they do not fit"
    (plain,) = await world.read_all("s", 1)
    with pytest.raises(CorruptionError, match="is not a dead letter"):
        dead_letter_in(plain)


async def test_second_consumer_takes_over_and_the_first_stores_nothing(world: LogWorld) -> None:
    await write(world, 4)
    first = open_consumer(world)
    await first.open()
    found = await take(first, 4)
    async with open_consumer(world) as second:
        again = await take(second, 4)
        assert [one.deliveries for one in again] == [2] * 4
        first.acknowledge(found[0].position)
        with pytest.raises(SubscriptionLostError, match="another consumer"):
            await first.flush()
        await asyncio.sleep(1)
        with pytest.raises(SubscriptionLostError):
            await anext(first)
        second.acknowledge(again[1].position)
    await first.aclose()
    left = await stored(world)
    assert left.position == again[0].position
    assert left.acknowledgements is not None
    assert left.acknowledgements.contains(again[1].position)


async def test_reset_ends_the_consumer(world: LogWorld) -> None:
    await write(world, 4)
    async with open_consumer(world) as consumer:
        found = await take(consumer, 4)
        await world.namespace.subscriptions.reset("s", "mine", found[2].position)
        consumer.acknowledge(found[0].position)
        await asyncio.sleep(1)
        with pytest.raises(SubscriptionLostError, match="was reset"):
            await anext(consumer)
    assert (await stored(world)).acknowledgements is None


async def test_iteration_ends_when_an_ended_stream_is_acknowledged(world: LogWorld) -> None:
    await write(world, 3, ends=True)
    async with open_consumer(world) as consumer:
        found = await take(consumer, 3)
        for one in found[:2]:
            consumer.acknowledge(one.position)
        waiting = asyncio.create_task(take(consumer, 1))
        await asyncio.sleep(1)
        assert not waiting.done()
        consumer.reject(found[2].position)
        (last,) = await waiting
        consumer.acknowledge(last.position)
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)


async def test_dead_letters_need_a_limit_of_deliveries(world: LogWorld) -> None:
    sink = StreamDeadLetters(world.namespace, "dead")
    with pytest.raises(ConfigurationError, match="only allowed together"):
        RecordConsumer(world.runtime, world.namespace, "s", "mine", dead_letters=sink)
    with pytest.raises(ConfigurationError, match="unacknowledged_max"):
        RecordConfig(unacknowledged_max=0)
    with pytest.raises(ClosedError, match="not open"):
        RecordConsumer(world.runtime, world.namespace, "s", "mine").try_next()


async def test_states_are_stored_despite_faults_of_the_metadata_store(world: LogWorld) -> None:
    await write(world, 6)
    async with open_consumer(world) as consumer:
        found = await take(consumer, 6)
        world.store.outcomes = [UNAVAILABLE, OK, LOST_REPLY, OK, UNAVAILABLE]
        for one in found:
            consumer.acknowledge(one.position)
        await asyncio.sleep(20)
        assert (await stored(world)).position > found[-1].position

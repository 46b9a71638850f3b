"""Tests of consumer groups over rebalances: at-least-once delivery, one reader per partition."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import cast

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.log.api.log_writer import LogWriter
from rhumbline.core.log.namespace import delete_namespace
from rhumbline.core.log.topics.consumer_group import GroupMember, PartitionAssignment
from rhumbline.core.log.topics.topic_writer import TopicWriter, open_topic_writer
from rhumbline.core.log.topics.topics import Topic, create_topic, delete_topic, open_topic
from rhumbline.core.protocol.errors import (
    ClosedError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NoSuchStreamError,
    NotEmptyError,
    RhumblineError,
)
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LOST_REQUEST, OK, UNAVAILABLE


async def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(2400):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the condition was not met within two minutes")


@dataclass
class Readers:
    """Group members that commit each batch after ``processing_s``, and what they received."""

    world: LogWorld
    topic: Topic
    processing_s: float = 0.0
    seen: Counter[bytes] = field(default_factory=Counter)
    failures: list[RhumblineError] = field(default_factory=list)
    members: dict[str, GroupMember] = field(default_factory=dict)
    tasks: Tasks = field(default_factory=Tasks)
    work: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def join(self, name: str) -> None:
        world = self.world
        member = GroupMember(world.runtime, world.store, world.namespace, self.topic, "g")
        self.members[name] = await member.__aenter__()
        self.work[name] = self.tasks.spawn(self._work(member), name)

    async def leave(self, name: str) -> None:
        await self.members.pop(name).aclose()

    async def _work(self, member: GroupMember) -> None:
        while True:
            try:
                async for delivery in member:
                    if self.processing_s:
                        await asyncio.sleep(self.processing_s)
                    self.seen.update(delivery.batch.payloads())
                    await member.commit(delivery)
                return
            except ClosedError:
                return
            except RhumblineError as error:
                self.failures.append(error)

    def shares(self) -> list[tuple[int, ...]]:
        return [member.partitions for member in self.members.values()]

    async def wait_for_assignment(self) -> None:
        """Wait wait_until every partition is assigned once and the shares are even."""
        everything = list(range(self.topic.partition_count))
        await wait_until(
            lambda: (
                sorted(n for share in self.shares() for n in share) == everything
                and max(map(len, self.shares())) - min(map(len, self.shares())) <= 1
            )
        )

    async def wait_for(self, count: int) -> None:
        await wait_until(lambda: len(self.seen) >= count)

    async def aclose(self) -> None:
        for name in list(self.members):
            await self.leave(name)
        await self.tasks.aclose()


async def create_group(world: LogWorld, partitions: int = 8) -> tuple[Readers, TopicWriter]:
    topic = await create_topic(world.store, world.namespace, "t", partitions)
    return Readers(world, topic), await open_topic_writer(world.namespace, topic)


async def test_everything_is_delivered_once_without_rebalance(
    world: LogWorld,
) -> None:
    readers, writer = await create_group(world, 3)
    await readers.join("a")
    await readers.join("b")
    await readers.wait_for_assignment()
    sent = [(b"key %d" % (n % 5), b"%d" % n) for n in range(300)]
    for key, payload in sent:
        writer.append(payload, key=key)
    await writer.flush()
    await readers.wait_for(300)
    assert readers.seen == Counter(payload for _, payload in sent)
    await readers.leave("a")
    await readers.leave("b")
    await readers.join("c")
    await readers.wait_for_assignment()
    await asyncio.sleep(60)
    assert sum(readers.seen.values()) == 300, "the committed positions were kept"
    await readers.aclose()
    await writer.close()
    assert not readers.failures


async def test_members_log_the_positions_at_which_they_begin(
    world: LogWorld, caplog: pytest.LogCaptureFixture
) -> None:
    readers, writer = await create_group(world, 2)
    writer.append_many([b"one", b"two"], [b"same key"] * 2)
    await writer.flush()
    with caplog.at_level(logging.INFO, "rhumbline.core.log.topics"):
        await readers.join("a")
        await readers.wait_for(2)
        await readers.leave("a")
        await readers.join("b")
        await readers.wait_for_assignment()
    await readers.aclose()
    await writer.close()
    lines = [record.getMessage().split(" member=") for record in caplog.records]
    begun = "committed position read topic=t group=g partition="
    assert [before for before, _ in lines] == [f"{begun}{n}" for n in (0, 1, 0, 1)]
    positions = [after.split("position=")[1] for _, after in lines]
    assert positions[:2] == ["1:0:0", "1:0:0"]
    assert sorted(positions[2:]) == ["1:0:0", "1:0:2"], "one partition has two records"


async def test_orderly_joins_and_leaves_deliver_everything(world: LogWorld) -> None:
    readers, writer = await create_group(world)
    readers.processing_s = 0.01
    count = 0
    for step in ("+a", "+b", "+c", "-a", "+d", "-b", "-c"):
        await (readers.join if step[0] == "+" else readers.leave)(step[1])
        for _ in range(50):
            writer.append(b"%d" % count)
            count += 1
            await asyncio.sleep(0.002)
        await readers.wait_for_assignment()
    await writer.flush()
    await readers.wait_for(count)
    assert len(readers.seen) == count
    # Leaving during a batch repeats that batch; a handover does not.
    assert sum(readers.seen.values()) <= count + 3 * 8
    await readers.aclose()
    await writer.close()
    assert not readers.failures


async def test_partition_is_handed_over_after_the_current_batch(world: LogWorld) -> None:
    readers, writer = await create_group(world, 2)
    readers.processing_s = 3.0
    await readers.join("a")
    await readers.wait_for_assignment()
    writer.append(b"x")
    writer.append(b"y")
    await writer.flush()
    await asyncio.sleep(1)
    await readers.join("b")
    await readers.wait_for_assignment()
    await readers.wait_for(2)
    await asyncio.sleep(10)
    assert readers.seen == Counter([b"x", b"y"])
    await readers.aclose()
    await writer.close()


async def test_member_with_expired_session_is_replaced_and_rejoins(world: LogWorld) -> None:
    readers, writer = await create_group(world)
    await readers.join("a")
    await readers.join("b")
    await readers.wait_for_assignment()
    assert isinstance(world.store.inner, MemoryStore)
    session = readers.members["a"]._session
    assert session is not None
    session.expire()  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    assert readers.members["a"].partitions == (), "at once"
    await readers.wait_for_assignment()
    assert all(len(share) == 4 for share in readers.shares())
    for n in range(100):
        writer.append(b"%d" % n)
    await writer.flush()
    await readers.wait_for(100)
    await readers.aclose()
    await writer.close()
    assert not readers.failures


@pytest.mark.seeds(12)
async def test_delivers_at_least_once_despite_lost_replies_and_expired_sessions(
    world: LogWorld, seed: int
) -> None:
    random = Random(seed)
    readers, writer = await create_group(world, 6)
    await readers.join("first")
    count = 0
    for round_number in range(20):
        outcome = random.choice([LOST_REPLY, LOST_REQUEST, UNAVAILABLE, OK])
        world.store.outcomes = [OK] * random.randint(0, 6) + [outcome]
        chance = random.random()
        if chance < 0.4 or len(readers.members) < 2:
            await readers.join(f"m{round_number}")
        elif chance < 0.6:
            await readers.leave(random.choice(list(readers.members)))
        else:
            session = random.choice(list(readers.members.values()))._session
            if session is not None:
                session.expire()  # type: ignore[attr-defined]
        for _ in range(10):
            writer.append(b"%d" % count)
            count += 1
        await asyncio.sleep(random.random())
    world.store.outcomes = []
    await readers.wait_for_assignment()
    await writer.flush()
    await readers.wait_for(count)
    await readers.aclose()
    await writer.close()
    assert all(error.retryable for error in readers.failures), readers.failures


async def test_claim_of_an_interrupted_step_is_released_if_another_member_should_have_it(
    world: LogWorld,
) -> None:
    """Nobody would read the partition until the session of the member that claimed it ends."""
    readers, writer = await create_group(world, 4)
    open_source = GroupMember._open_source

    async def fail(member: GroupMember, partition: int) -> PartitionAssignment:
        if len(readers.members) == 1:
            raise MetadataUnavailableError("away")
        return await open_source(member, partition)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GroupMember, "_open_source", fail)
        await readers.join("a")
        await asyncio.sleep(1)
        for name in ("b", "c", "d"):
            await readers.join(name)
        await readers.wait_for_assignment()
    await readers.aclose()
    await writer.close()


async def test_topic_is_created_once_and_deleted_completely(world: LogWorld) -> None:
    readers, writer = await create_group(world, 2)
    assert await create_topic(world.store, world.namespace, "t", 2) == readers.topic
    assert await open_topic(world.store, world.namespace, "t") == readers.topic
    with pytest.raises(InvalidArgumentError, match="2 partitions"):
        await create_topic(world.store, world.namespace, "t", 3)
    await readers.join("a")
    await readers.wait_for_assignment()
    await readers.aclose()
    await writer.close()
    await delete_topic(world.store, world.namespace, "t")
    with pytest.raises(NoSuchStreamError):
        await open_topic(world.store, world.namespace, "t")
    assert await world.namespace.streams() == []
    await delete_namespace(world.store, "test")


async def test_keys_other_than_bytes_are_refused(world: LogWorld) -> None:
    """A str key raised TypeError from the hash."""
    readers, writer = await create_group(world, 2)
    with pytest.raises(InvalidArgumentError, match="a key is bytes, not str"):
        writer.append(b"x", key=cast(bytes, "customer 1"))
    await readers.aclose()
    await writer.close()


async def end_all(*writers: LogWriter) -> None:
    for writer in writers:
        await writer.end_stream()


@pytest.mark.parametrize("member_count", [1, 2, 5])
async def test_iteration_ends_after_all_partitions_were_ended(
    world: LogWorld, member_count: int
) -> None:
    """The members of a topic without further records waited for ever."""
    readers, writer = await create_group(world, 3)
    readers.processing_s = 0.1
    for n in range(member_count):
        await readers.join(f"m{n}")
    await readers.wait_for_assignment()
    for n in range(60):
        writer.append(b"%d" % n)
    await writer.flush()
    await writer.writers[0].end_stream()
    await asyncio.sleep(30)
    assert all(not task.done() for task in readers.work.values()), "two partitions go on"
    writer.writers[1].append(b"last")
    await end_all(*writer.writers[1:])
    async with asyncio.timeout(60):
        await asyncio.gather(*readers.work.values())
    assert readers.seen == Counter([b"%d" % n for n in range(60)] + [b"last"])
    for member in readers.members.values():
        with pytest.raises(StopAsyncIteration):
            await anext(member)
    await readers.aclose()
    assert not readers.failures


async def test_iteration_goes_on_while_another_member_is_not_finished(world: LogWorld) -> None:
    readers, writer = await create_group(world, 2)
    await readers.join("a")
    slow = GroupMember(world.runtime, world.store, world.namespace, readers.topic, "g")
    await slow.__aenter__()
    await wait_until(lambda: len(slow.partitions) == 1 and readers.shares()[0] != (0, 1))
    for n in range(4):
        writer.append(b"%d" % n)
    await writer.flush()
    await end_all(*writer.writers)
    await anext(slow)
    await asyncio.sleep(60)
    assert not readers.work["a"].done()
    await slow.aclose()  # without a commit: the other member takes the partition over
    async with asyncio.timeout(60):
        await readers.work["a"]
    assert readers.seen == Counter(b"%d" % n for n in range(4))
    await readers.aclose()
    assert not readers.failures


async def test_topic_with_a_live_member_is_not_deleted(world: LogWorld) -> None:
    """All streams were deleted before NotEmptyError was raised."""
    readers, writer = await create_group(world, 2)
    await readers.join("a")
    await readers.wait_for_assignment()
    with pytest.raises(NotEmptyError, match="group g has 1 member"):
        await delete_topic(world.store, world.namespace, "t")
    assert await world.namespace.streams() == ["t.0", "t.1"]
    await writer.append(b"kept")
    await readers.wait_for(1)
    await readers.aclose()
    await writer.close()
    assert not readers.failures
    await delete_topic(world.store, world.namespace, "t")
    assert await world.namespace.streams() == []


async def test_errors_of_one_partition_reach_the_application(world: LogWorld) -> None:
    readers, writer = await create_group(world, 2)
    await readers.join("a")
    await readers.wait_for_assignment()
    await writer.writers[0].abort()
    await world.namespace.delete_stream("t.0")
    writer.writers[1].append(b"still")
    await readers.wait_for(1)
    await wait_until(lambda: bool(readers.failures))
    assert isinstance(readers.failures[0], NoSuchStreamError)
    await readers.aclose()
    await writer.writers[1].close()

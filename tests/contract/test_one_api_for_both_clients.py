"""One program for both kinds of clients: what a direct client does, a client of proxies does."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from rhumbline.client.connect import Client
from rhumbline.client.topics import Topics
from rhumbline.core.log.api.log_client import LogClient
from rhumbline.core.log.metadata.stream_schema import (
    Compatibility,
    SchemaHistory,
    SchemaKind,
    StreamSchema,
)
from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.topics.dead_letters import dead_letter_in
from rhumbline.core.log.topics.group_membership import GroupConfig
from rhumbline.core.log.topics.record_consumer import RecordConfig
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    IncompatibleSchemaError,
    InvalidArgumentError,
    InvalidPositionError,
    NoSuchStreamError,
    NoSuchSubscriptionError,
    NotEmptyError,
    SequenceGapError,
    StreamSealedError,
)
from rhumbline.core.protocol.start import EARLIEST, LATEST
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.served_calls import ProxyNetwork
from rhumbline.typed import JsonCodec, TypedStream

ANNE = b"anne".ljust(16, b".")
AVRO = StreamSchema(SchemaKind.AVRO, '"long"')


@dataclass(frozen=True)
class Order:
    number: int


@dataclass(frozen=True)
class PricedOrder:
    number: int
    price: int


class WorldClient(Client):
    """A direct client of the streams of a test world."""

    def __init__(self, log: LogWorld) -> None:
        super().__init__("memory://", runtime=log.runtime)
        self._log = log

    async def __aenter__(self) -> "WorldClient":
        return self

    def namespace(self, name: str | None = None, **_: object) -> Namespace:
        return self._log.open_namespace()


@asynccontextmanager
async def connected(kind: str, log: LogWorld) -> AsyncIterator[LogClient]:
    if kind == "direct":
        async with WorldClient(log) as direct:
            yield direct
        return
    network = ProxyNetwork(log)
    await network.start("one:1", "two:1")
    async with network.client() as thin:
        yield thin
    await network.stop()


KINDS = pytest.mark.parametrize("kind", ["direct", "proxies"])


@KINDS
async def test_streams_and_positions(world: LogWorld, kind: str) -> None:
    async with connected(kind, world) as client:
        namespace = client.namespace()
        await namespace.create_stream("s", StreamPolicy())
        async with client.writer("s") as writer:
            first = await writer.append(b"0")
            await writer.append_many([b"1", b"2"])
            writer.append(b"3")
            await writer.flush()
            await writer.room()
        assert await namespace.streams() == ["s"]
        described = await namespace.describe("s")
        assert described.identity
        assert described.stream_id == first.dlsn.stream_id
        end = await namespace.end("s")
        assert end > first.dlsn
        found = []
        async with client.reader("s", EARLIEST) as reader:
            while (batch := await reader.next_batch(until=end)) is not None:
                found += batch.payloads()
        assert found == [b"0", b"1", b"2", b"3"]
        with pytest.raises(NoSuchStreamError):
            await namespace.delete_stream("s", identity="another")
        await namespace.delete_stream("s", identity=described.identity)
        assert await namespace.streams() == []


@KINDS
async def test_numbered_appends_are_stored_once(world: LogWorld, kind: str) -> None:
    async with connected(kind, world) as client:
        await client.namespace().create_stream("s")
        async with client.writer("s") as writer:
            first = await writer.append_numbered(ANNE, 0, [b"0", b"1"])
            again = await writer.append_numbered(ANNE, 0, [b"0", b"1"])
            assert again.first == first.first
        async with client.writer("s") as writer:
            await writer.append_numbered(ANNE, 0, [b"0", b"1"])
            await writer.append_numbered(ANNE, 2, [b"2"])
            with pytest.raises(InvalidArgumentError):
                writer.append_numbered(b"short", 0, [b"x"])
        with pytest.raises(SequenceGapError):
            async with client.writer("s") as writer:
                await writer.append_numbered(ANNE, 7, [b"7"])
        end = await client.namespace().end("s")
        found = []
        async with client.reader("s") as reader:
            while (batch := await reader.next_batch(until=end)) is not None:
                found += batch.payloads()
        assert found == [b"0", b"1", b"2"]


@KINDS
async def test_seal_refuses_writers_until_unseal(world: LogWorld, kind: str) -> None:
    async with connected(kind, world) as client:
        namespace = client.namespace()
        await namespace.create_stream("s")
        async with client.writer("s") as writer:
            await writer.append(b"0")
        await namespace.take_over("s")
        assert all(segment.is_completed for segment in (await namespace.describe("s")).segments)
        await namespace.seal("s")
        assert (await namespace.describe("s")).is_sealed
        with pytest.raises(StreamSealedError):
            async with client.writer("s") as writer:
                await writer.append(b"1")
        assert await namespace.unseal("s")
        assert not await namespace.unseal("s")
        async with client.writer("s") as writer:
            await writer.append(b"1")
        await namespace.end_stream("s")
        await namespace.end_stream("s")
        async with client.reader("s") as reader:
            assert [record.payload async for record in reader] == [b"0", b"1"]


@KINDS
async def test_subscriptions(world: LogWorld, kind: str) -> None:
    async with connected(kind, world) as client:
        namespace, subscriptions = client.namespace(), client.namespace().subscriptions
        await namespace.create_stream("s")
        async with client.writer("s") as writer:
            results = [await writer.append(b"%d" % n) for n in range(3)]
        positions = [result.dlsn for result in results]
        held = await subscriptions.create("s", "billing", positions[0])
        assert (await subscriptions.create("s", "billing", positions[2])).position == positions[0]
        moved = await subscriptions.commit(held, "s", positions[2])
        assert moved.position == positions[2]
        assert (await subscriptions.commit(held, "s", positions[1])).position == positions[2]
        assert (await subscriptions.read("s", "billing")).position == positions[2]
        reset = await subscriptions.reset("s", "billing", positions[1])
        assert (reset.position, reset.generation) == (positions[1], 1)
        with pytest.raises(InvalidArgumentError):
            await subscriptions.commit(held, "s", positions[2])
        with pytest.raises(InvalidPositionError):
            await subscriptions.reset("s", "billing", Dlsn(1, 0, 0).in_stream("00000000"))
        await subscriptions.create("s", "audit", positions[0])
        assert await subscriptions.names("s") == ["audit", "billing"]
        assert await subscriptions.names("s", after="audit") == ["billing"]
        assert await subscriptions.names("s", limit=1) == ["audit"]
        assert await subscriptions.slowest("s") == positions[0]
        await subscriptions.delete("s", "audit")
        with pytest.raises(NoSuchSubscriptionError):
            await subscriptions.read("s", "audit")
        with pytest.raises(NoSuchSubscriptionError):
            await subscriptions.delete("s", "audit")


@KINDS
async def test_a_typed_stream_keeps_its_schemas(world: LogWorld, kind: str) -> None:
    old, new = JsonCodec(Order), JsonCodec(PricedOrder)
    async with connected(kind, world) as client:
        schemas = client.namespace().schemas
        orders, priced = TypedStream("orders", old), TypedStream("orders", new)
        with pytest.raises(NoSuchStreamError):
            await schemas.read("orders")
        await client.namespace().create_stream("orders")
        assert await schemas.read("orders") == SchemaHistory()
        for number in range(2):
            async with orders.writer(client) as writer:
                await writer.append_numbered(ANNE, number, [Order(number)])
        before = SchemaHistory(Compatibility.BACKWARD, (old.schema,))
        assert await schemas.read("orders") == before
        with pytest.raises(IncompatibleSchemaError, match="price: required, but absent"):
            async with priced.writer(client):
                pytest.fail("opened")
        with pytest.raises(IncompatibleSchemaError, match="price: required, but absent"):
            async with priced.reader(client):
                pytest.fail("opened")
        async with orders.reader(client) as reader:
            assert [(await anext(reader)).value for _ in range(2)] == [Order(0), Order(1)]
        # Two programs have read the same history: only one of them adds its schema to it.
        assert await schemas.set_compatibility("orders", Compatibility.NONE)
        found = await schemas.read("orders")
        assert await schemas.add("orders", new.schema, before) is None
        for _ in range(2):  # a repeat, as after a lost answer
            assert await schemas.add("orders", new.schema, found) == found.extended(new.schema)
        assert await schemas.add("orders", AVRO, found) is None
        assert (await schemas.read("orders")).schemas == (old.schema, new.schema)


@KINDS
async def test_topics_are_shared_by_the_members_of_a_group(world: LogWorld, kind: str) -> None:
    async with connected(kind, world) as client:
        topics = Topics(client)
        topic = await topics.create("orders", 4)
        assert await topics.create("orders", 4) == topic == await topics.get("orders")
        assert await topics.names() == ["orders"]
        with pytest.raises(InvalidArgumentError):
            await topics.create("orders", 5)
        with pytest.raises(NoSuchStreamError):
            await topics.get("none")
        assert len(await topics.describe("orders")) == 4
        async with topics.writer("orders") as writer:
            for number in range(40):
                writer.append(b"%d" % number, key=b"key %d" % (number % 7))
        seen: Counter[bytes] = Counter()
        done = asyncio.Event()

        async def work() -> None:
            async with topics.join("orders", "billing") as member:
                async for delivery in member:
                    seen.update(delivery.batch.payloads())
                    await member.commit(delivery)
                    if len(seen) == 40:
                        done.set()

        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(work()) for _ in range(3)]
            await done.wait()
            with pytest.raises(NotEmptyError):
                await topics.delete("orders")
            for worker in workers:
                worker.cancel()
        assert sum(seen.values()) == 40
        await topics.delete("orders")
        assert await topics.names() == []


@KINDS
async def test_iteration_ends_with_the_last_partition(world: LogWorld, kind: str) -> None:
    async with connected(kind, world) as client:
        topics = Topics(client)
        topic = await topics.create("t", 2)
        for stream in topic.streams:
            async with client.writer(stream) as writer:
                writer.append(b"last")
                await writer.end_stream()
        found = []
        async with topics.join("t", "g", config=GroupConfig(session_ttl_ms=2_000)) as member:
            async for delivery in member:
                found += delivery.batch.payloads()
                await member.commit(delivery)
        assert found == [b"last", b"last"]


@KINDS
async def test_the_latest_position_of_a_group_begins_after_what_exists(
    world: LogWorld, kind: str
) -> None:
    async with connected(kind, world) as client:
        topics = Topics(client)
        await topics.create("t", 1)
        async with topics.writer("t") as writer:
            await writer.append(b"before")
        async with topics.join("t", "g", start=LATEST) as member:
            receiving = asyncio.ensure_future(anext(member))
            await asyncio.sleep(1)
            async with topics.writer("t") as writer:
                await writer.append(b"after")
            assert (await receiving).batch.payloads() == [b"after"]


@KINDS
async def test_a_grown_topic_is_read_by_members_that_were_there(world: LogWorld, kind: str) -> None:
    async with connected(kind, world) as client:
        topics = Topics(client)
        await topics.create("t", 2)
        seen: Counter[bytes] = Counter()
        done = asyncio.Event()

        async def work() -> None:
            async with topics.join("t", "g") as member:
                async for delivery in member:
                    seen.update(delivery.batch.payloads())
                    await member.commit(delivery)
                    if len(seen) == 40:
                        done.set()

        async with asyncio.TaskGroup() as group:
            worker = group.create_task(work())
            await asyncio.sleep(1)
            grown = await topics.grow("t", 5)
            assert (grown.partition_count, grown.first_count) == (5, 2)
            assert await topics.get("t") == grown
            async with topics.writer("t") as writer:
                for number in range(40):
                    writer.append(b"%d" % number, key=b"%d" % number)
            await done.wait()
            assert [one.lag.records for one in await topics.lag("t", "g")] == [0] * 5
            worker.cancel()
        assert sum(seen.values()) == 40


@KINDS
async def test_single_records_are_acknowledged_rejected_and_given_up(
    world: LogWorld, kind: str
) -> None:
    async with connected(kind, world) as client:
        topics = Topics(client)
        await topics.create("t", 1)
        await topics.create("dead", 1)
        async with topics.writer("t") as writer:
            await writer.append(b"good", key=b"k", headers={"h": b"1"}, event_time=5)
            await writer.append(b"bad")
        received: list[bytes] = []
        async with topics.join_records(
            "t", "g", records=RecordConfig(deliveries_max=2), dead_letters="dead"
        ) as member:
            while len(received) < 3:
                one = await anext(member)
                received.append(one.payload)
                if one.payload == b"good":
                    assert (one.record.key, one.record.event_time) == (b"k", 5)
                    assert member.acknowledge(one)
                else:
                    assert member.reject(one, reason="refused")
            await asyncio.sleep(5)
            await member.flush()
        assert received == [b"good", b"bad", b"bad"]
        async with client.reader("dead.0") as reader:
            letter = dead_letter_in(await anext(reader))
        assert (letter.payload, letter.reason, letter.deliveries) == (b"bad", "refused", 2)
        assert await topics.groups("t") == ["g"]
        described = await topics.describe_group("t", "g")
        assert described.members == ()
        assert described.partitions[0].subscription is not None
        reset = await topics.reset_group("t", "g", EARLIEST)
        assert reset.partitions[0].subscription is not None
        assert reset.partitions[0].subscription.acknowledgements is None
        await topics.delete_group("t", "g")
        with pytest.raises(NoSuchSubscriptionError):
            await topics.describe_group("t", "g")

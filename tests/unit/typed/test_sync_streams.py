"""Typed writers and readers without asyncio, with a stream in memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rhumbline.client.sync_api.loop_thread import LoopThread
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.protocol.errors import PayloadError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.typed.world_client import WorldClient
from rhumbline.typed import JsonCodec, StrCodec, TypedStream
from rhumbline.typed.sync_streams import SyncTypedReader, SyncTypedWriter


@dataclass(frozen=True)
class Order:
    number: int


PRODUCER = b"a producer of 16"
ORDERS = TypedStream("orders", JsonCodec(Order))
TEXTS = TypedStream("orders", StrCodec())


async def _client() -> WorldClient:
    world = LogWorld()
    await create_namespace(world.store, world.runtime, "test", world.policy)
    await world.namespace.create_stream("orders")
    return WorldClient(world)


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


def test_values_are_written_and_read_without_asyncio(thread: LoopThread) -> None:
    client = thread.call(_client())
    with SyncTypedWriter(thread, ORDERS.writer(client)) as writer:
        first = writer.append(Order(0), key=b"k").dlsn
        writer.append_many([Order(1), Order(2)])
        writer.append_numbered(PRODUCER, 0, [Order(3)])
        writer.append_numbered(PRODUCER, 0, [Order(3)])
        writer.flush()
    with SyncTypedReader(thread, ORDERS.reader(client)) as reader:
        record = next(iter(reader))
        assert (record.value, record.dlsn, record.key) == (Order(0), first, b"k")
        batch = reader.next_batch()
        assert batch is not None
        values = [record.value for record in batch]
        while len(values) < 3:
            following = reader.next_record(timeout_s=10)
            assert following is not None
            values.append(following.value)
        assert values == [Order(1), Order(2), Order(3)]
        position = reader.position
        with pytest.raises(TimeoutError):
            reader.next_record(timeout_s=0.01)
        assert reader.position == position


def test_reading_continues_after_a_payload_that_does_not_decode(thread: LoopThread) -> None:
    client = thread.call(_client())
    with SyncTypedWriter(thread, TEXTS.writer(client)) as texts:
        texts.append_many(['{"number": 1}', "no JSON", '{"number": 2}'])
    with SyncTypedReader(thread, ORDERS.reader(client)) as reader:
        values: list[Order] = []
        with pytest.raises(PayloadError):
            values += [record.value for record in reader]
        assert reader.failed is not None
        assert reader.failed.payload == b"no JSON"
        assert next(iter(reader)).value == Order(2)

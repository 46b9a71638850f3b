"""Typed writers and readers: schemas at open, interceptors, and payloads that do not decode."""

from dataclasses import dataclass, replace

import pytest

from rhumbline.client.connect import Client
from rhumbline.core.log.metadata.stream_schema import Compatibility, SchemaHistory, StreamSchemas
from rhumbline.core.protocol.errors import (
    IncompatibleSchemaError,
    InvalidArgumentError,
    PayloadError,
)
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.typed.world_client import WorldClient
from rhumbline.typed import (
    AvroCodec,
    AvroValue,
    Interceptor,
    JsonCodec,
    OutgoingRecord,
    StrCodec,
    TypedRecord,
    TypedStream,
)
from rhumbline.typed.typed_stream import OpensStreams


@dataclass(frozen=True)
class Order:
    number: int
    note: str = ""


@dataclass(frozen=True)
class PricedOrder:
    number: int
    price: int


ORDERS = TypedStream("orders", JsonCodec(Order))


def types_of_the_client(client: Client) -> OpensStreams:
    """Show the type checker that the client opens typed streams."""
    return client


async def opened(world: LogWorld) -> WorldClient:
    await world.namespace.create_stream("orders")
    return WorldClient(world)


async def test_values_survive_by_record_and_by_batch(world: LogWorld) -> None:
    client = await opened(world)
    orders = [Order(number) for number in range(5)]
    async with ORDERS.writer(client) as writer:
        await writer.append(orders[0])
        await writer.append_many(orders[1:])
        await writer.room()
        await writer.flush()
    async with ORDERS.reader(client) as reader:
        first = await anext(reader)
        rest = await reader.next_batch()
        assert rest is not None
        assert [first.value, *(record.value for record in rest)] == orders
        assert first.txid == first.record.txid
        assert repr(first).startswith(f"TypedRecord({first.dlsn}, txid=")
        position = reader.position
    async with ORDERS.reader(client, position) as reader:
        assert await reader.next_batch(until=position) is None


async def test_a_writer_stores_its_schema_once(world: LogWorld) -> None:
    client = await opened(world)
    for _ in range(2):
        async with ORDERS.writer(client) as writer:
            await writer.append(Order(1))
    history = await client.namespace().schemas.read("orders")
    assert history == SchemaHistory(Compatibility.BACKWARD, (JsonCodec(Order).schema,))


async def test_an_incompatible_program_is_refused_before_it_writes_or_reads(
    world: LogWorld,
) -> None:
    client = await opened(world)
    async with ORDERS.writer(client) as writer:
        await writer.append(Order(1))
        priced = TypedStream("orders", JsonCodec(PricedOrder))
        with pytest.raises(IncompatibleSchemaError, match="price: required, but absent"):
            async with priced.writer(client):
                pytest.fail("opened")
        with pytest.raises(IncompatibleSchemaError, match="price: required, but absent"):
            async with priced.reader(client):
                pytest.fail("opened")
        await writer.append(Order(2))  # it was not fenced
        full = TypedStream("orders", JsonCodec(Order), compatibility=Compatibility.FULL)
        with pytest.raises(InvalidArgumentError, match="has the compatibility backward, not full"):
            async with full.writer(client):
                pytest.fail("opened")
    unchecked = TypedStream("orders", JsonCodec(PricedOrder), stores_schema=False)
    async with unchecked.writer(client) as other:
        position = (await other.append(PricedOrder(3, 100))).dlsn
    async with unchecked.reader(client, position) as reader:
        assert (await anext(reader)).value == PricedOrder(3, 100)


async def test_programs_that_start_at_once_all_store_their_schemas(world: LogWorld) -> None:
    client = await opened(world)
    schemas = client.namespace().schemas
    added: list[SchemaHistory | None] = []

    class Overtaken(StreamSchemas):
        """Schemas to which another program adds one first."""

        async def read(self, stream: str) -> SchemaHistory:
            found = await schemas.read(stream)
            if not added:
                added.append(await schemas.add(stream, JsonCodec(Order).schema, found))
            return found

        async def replace(self, stream: str, before: SchemaHistory, after: SchemaHistory) -> bool:
            return await schemas.replace(stream, before, after)

    class OvertakenNamespace:
        schemas = Overtaken()

    class OvertakenClient(WorldClient):
        def namespace(self) -> OvertakenNamespace:  # type: ignore[override]
            return OvertakenNamespace()

    numbers = TypedStream("orders", JsonCodec(PricedOrder))
    with pytest.raises(IncompatibleSchemaError):  # by the history that the other program made
        async with numbers.writer(OvertakenClient(world)):
            pytest.fail("opened")


async def test_a_payload_that_does_not_decode_is_named_and_passed(world: LogWorld) -> None:
    client = await opened(world)
    async with client.writer("orders") as raw:
        await raw.append_many([b'{"number":1}', b"oops", b'{"number":3}'])
    async with ORDERS.reader(client) as reader:
        assert (await anext(reader)).value == Order(1)
        with pytest.raises(PayloadError) as raised:
            await anext(reader)
        assert reader.failed is not None
        assert reader.failed.payload == b"oops"
        assert raised.value.__notes__ == [f"stream orders, record {reader.failed.dlsn}"]
        assert (await anext(reader)).value == Order(3)


class Stamp(Interceptor[Order]):
    def __init__(self, mark: str) -> None:
        self._mark = mark

    def before_append(self, record: OutgoingRecord[Order]) -> OutgoingRecord[Order]:
        value = replace(record.value, note=record.value.note + self._mark)
        marks = (record.headers or {}).get("marks", b"") + self._mark.encode()
        return replace(record, value=value, headers={"marks": marks})

    def after_read(self, record: TypedRecord[Order]) -> TypedRecord[Order]:
        note = record.value.note
        assert note.endswith(self._mark)
        return record.with_value(replace(record.value, note=note[: -len(self._mark)]))


async def test_interceptors_see_values_in_order_and_records_in_reverse(world: LogWorld) -> None:
    client = await opened(world)
    stamped = TypedStream(
        "orders", JsonCodec(Order), interceptors=[Stamp("a"), Interceptor(), Stamp("b")]
    )
    async with stamped.writer(client) as writer:
        await writer.append(Order(1, "x"), key=b"k", event_time=7)
        await writer.append_many([Order(2, "y")], keys=[b"l"])
        for _ in range(2):
            await writer.append_numbered(bytes(15) + b"1", 0, [Order(3, "z")], keys=[b"m"])
    async with ORDERS.reader(client) as plain, stamped.reader(client) as reader:
        assert (await anext(plain)).value.note == "xab"
        first, second = await anext(reader), await anext(reader)
        assert [first.value.note, second.value.note] == ["x", "y"]
        assert (first.key, first.event_time) == (b"k", 7)
        assert (second.key, second.event_time) == (b"l", None)
        assert first.headers == second.headers == {"marks": b"ab"}
        third = await anext(reader)
        assert (third.value, third.key, third.headers) == (Order(3, "z"), b"m", first.headers)
        end = await client.namespace().end("orders")
        assert await reader.next_batch(until=end) is None  # it was stored once
    with pytest.raises(InvalidArgumentError, match="1 values have 2 keys"):
        async with stamped.writer(client) as writer:
            writer.append_many([Order(1)], keys=[b"k", b"l"])


def number_of(kind: str) -> AvroCodec:
    fields: list[object] = [{"name": "number", "type": kind}]
    return AvroCodec({"type": "record", "name": "Order", "fields": fields})


async def test_a_reader_learns_schemas_that_are_added_while_it_reads(world: LogWorld) -> None:
    client = await opened(world)
    old: TypedStream[AvroValue] = TypedStream(
        "orders", number_of("long"), compatibility=Compatibility.FORWARD
    )
    new = TypedStream("orders", number_of("int"), compatibility=Compatibility.FORWARD)
    async with old.writer(client) as writer:
        await writer.append({"number": 1})
    async with old.reader(client) as reader:
        assert (await anext(reader)).value == {"number": 1}
        async with new.writer(client) as other:
            await other.append({"number": 2})
        assert (await anext(reader)).value == {"number": 2}


async def test_a_codec_without_a_schema_stores_none(world: LogWorld) -> None:
    client = await opened(world)
    texts = TypedStream("orders", StrCodec())
    async with texts.writer(client) as writer:
        await writer.append("tea")
    async with texts.reader(client) as reader:
        assert (await anext(reader)).value == "tea"
    assert await client.namespace().schemas.read("orders") == SchemaHistory()

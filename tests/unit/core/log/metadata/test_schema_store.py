"""Schemas are stored with the stream, change by compare-and-set, and go with the stream."""

import pytest

from rhumbline.core.log.metadata.schema_store import SchemaStore
from rhumbline.core.log.metadata.stream_schema import (
    SCHEMA_CHARACTERS_MAX,
    SCHEMA_VERSIONS_MAX,
    Compatibility,
    SchemaHistory,
    SchemaKind,
    StreamSchema,
)
from rhumbline.core.protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    NoNodeError,
    NoSuchStreamError,
)
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY

FIRST = StreamSchema(SchemaKind.AVRO, '"int"')
SECOND = StreamSchema(SchemaKind.AVRO, '"long"')


async def stored(world: LogWorld) -> SchemaStore:
    await world.namespace.create_stream("orders")
    return world.namespace.schemas


async def test_versions_are_kept_in_order(world: LogWorld) -> None:
    schemas = await stored(world)
    assert await schemas.read("orders") == SchemaHistory()
    first = await schemas.add("orders", FIRST, SchemaHistory(Compatibility.FULL))
    assert first is not None
    second = await schemas.add("orders", SECOND, first)
    assert second == SchemaHistory(Compatibility.FULL, (FIRST, SECOND))
    assert await world.open_namespace().schemas.read("orders") == second


async def test_a_schema_is_added_only_to_the_history_that_was_checked(world: LogWorld) -> None:
    schemas = await stored(world)
    first = await schemas.add("orders", FIRST, SchemaHistory())
    assert await schemas.add("orders", SECOND, SchemaHistory()) is None
    assert await schemas.read("orders") == first


async def test_a_lost_response_does_not_add_a_schema_twice(world: LogWorld) -> None:
    schemas = await stored(world)
    world.store.outcomes = [LOST_REPLY]
    assert await schemas.add("orders", FIRST, SchemaHistory()) == SchemaHistory(schemas=(FIRST,))
    assert await schemas.read("orders") == SchemaHistory(schemas=(FIRST,))


async def test_a_schema_counts_as_added_if_others_follow_it(world: LogWorld) -> None:
    """The last response may be lost, and another program may change the history before a retry."""
    schemas = await stored(world)
    first = await schemas.add("orders", FIRST, SchemaHistory())
    assert first is not None
    await schemas.add("orders", SECOND, first)
    assert await schemas.add("orders", FIRST, SchemaHistory()) == first
    await schemas.set_compatibility("orders", Compatibility.NONE)
    assert await schemas.add("orders", FIRST, SchemaHistory()) == first
    assert await schemas.add("orders", SECOND, SchemaHistory()) is None
    assert (await schemas.read("orders")).schemas == (FIRST, SECOND)


async def test_the_compatibility_can_be_changed(world: LogWorld) -> None:
    schemas = await stored(world)
    await schemas.add("orders", FIRST, SchemaHistory())
    changed = await schemas.set_compatibility("orders", Compatibility.NONE)
    assert changed == await schemas.read("orders")
    assert changed == SchemaHistory(Compatibility.NONE, (FIRST,))
    first = SchemaHistory(Compatibility.BACKWARD, (FIRST,))
    assert await schemas.add("orders", SECOND, first) is None  # checked by another rule


async def test_schemas_are_deleted_with_their_stream(world: LogWorld) -> None:
    schemas = await stored(world)
    await schemas.add("orders", FIRST, SchemaHistory())
    await world.namespace.delete_stream("orders")
    with pytest.raises(NoSuchStreamError):
        await schemas.read("orders")
    with pytest.raises(NoNodeError):
        await world.store.get("/rhumbline/namespaces/test/streams/orders/schemas")
    await world.namespace.create_stream("orders")
    assert await schemas.read("orders") == SchemaHistory()


async def test_sizes_are_bounded(world: LogWorld) -> None:
    with pytest.raises(InvalidArgumentError, match="not between 1 and 32768"):
        StreamSchema(SchemaKind.AVRO, "x" * (SCHEMA_CHARACTERS_MAX + 1))
    with pytest.raises(InvalidArgumentError, match="not between"):
        StreamSchema(SchemaKind.AVRO, "")
    large = StreamSchema(SchemaKind.AVRO, "x" * SCHEMA_CHARACTERS_MAX)
    with pytest.raises(InvalidArgumentError, match="65536 characters in 64 schemas"):
        SchemaHistory(schemas=(large, large)).extended(FIRST)
    many = tuple(StreamSchema(SchemaKind.AVRO, str(n)) for n in range(SCHEMA_VERSIONS_MAX))
    with pytest.raises(InvalidArgumentError, match="65 schemas of"):
        SchemaHistory(schemas=many).extended(FIRST)
    schemas = await stored(world)
    full = (
        SchemaHistory()
        .extended(large)
        .extended(StreamSchema(SchemaKind.AVRO, "y" * SCHEMA_CHARACTERS_MAX))
    )
    for known in full.schemas:  # the largest history fits a value of the metadata store
        await schemas.add("orders", known, await schemas.read("orders"))
    assert await schemas.read("orders") == full


async def test_a_damaged_node_is_reported(world: LogWorld) -> None:
    schemas = await stored(world)
    await schemas.add("orders", FIRST, SchemaHistory())
    path = "/rhumbline/namespaces/test/streams/orders/schemas"
    await world.store.put(path, b'{"v":1,"compatibility":"odd","schemas":[]}')
    with pytest.raises(CorruptionError, match="schemas of stream orders"):
        await schemas.read("orders")

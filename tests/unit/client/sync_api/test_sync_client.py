"""Tests of the synchronous client, with a stream in memory."""

from rhumbline.client.sync_api.loop_thread import LoopThread
from rhumbline.client.sync_api.sync_client import SyncReader
from rhumbline.client.sync_api.sync_namespace import SyncNamespace
from rhumbline.core.log.metadata.stream_schema import Compatibility, SchemaKind, StreamSchema
from rhumbline.core.log.namespace import Namespace, create_namespace
from rhumbline.core.log.read.stream_reader import StreamReader
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld


async def _namespace_with_a_stream() -> Namespace:
    world = LogWorld()
    await create_namespace(world.store, world.runtime, "test", world.policy)
    await world.namespace.create_stream("s")
    return world.namespace


async def _reader_of_ten_records() -> StreamReader:
    world = LogWorld()
    await create_namespace(world.store, world.runtime, "test", world.policy)
    writer = await world.writer("s")
    await writer.append_many([b"%d" % n for n in range(10)])
    await writer.append(b"last")
    await writer.close()
    return await world.namespace.open_reader("s", EARLIEST)


def test_switching_between_records_and_batches_skips_nothing() -> None:
    """After some records of a batch, the next batch skipped the others."""
    thread = LoopThread()
    try:
        with SyncReader(thread, thread.call(_reader_of_ten_records())) as reader:
            records = iter(reader)
            assert [next(records).payload, next(records).payload] == [b"0", b"1"]
            position = reader.position
            batch = reader.next_batch()
            assert batch is not None
            assert batch.first_dlsn == position
            assert batch.payloads() == [b"%d" % n for n in range(2, 10)]
            assert next(records).payload == b"last"
    finally:
        thread.close()


def test_schemas_of_a_stream() -> None:
    thread = LoopThread()
    try:
        schemas = SyncNamespace(thread, thread.call(_namespace_with_a_stream())).schemas
        schema = StreamSchema(SchemaKind.AVRO, '"long"')
        added = schemas.add("s", schema, schemas.read("s"))
        assert added is not None
        assert schemas.read("s") == added
        full = schemas.set_compatibility("s", Compatibility.FULL)
        assert not schemas.replace("s", added, added.extended(schema))
        assert schemas.read("s") == full
    finally:
        thread.close()

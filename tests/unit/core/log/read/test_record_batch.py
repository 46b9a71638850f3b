"""Attributes of records and batches, from the writer to the reader."""

import pytest

from rhumbline.core.log.config import WriterConfig
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.compression import Codec
from rhumbline.core.protocol.errors import InvalidArgumentError, RecordTooLargeError
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld


async def test_key_headers_and_event_time_are_read_as_they_were_appended(world: LogWorld) -> None:
    writer = await world.writer("s")
    writer.append(b"plain")
    writer.append(b"keyed", key=b"k")
    writer.append(b"plain again")
    writer.append(b"all", txid=2_000_000, key=b"", headers={"a": b"1", "b": b""}, event_time=-5)
    await writer.flush()
    await writer.append(b"next entry")
    await writer.close()
    records = await world.read_all("s", 5)
    assert [one.payload for one in records] == [
        b"plain", b"keyed", b"plain again", b"all", b"next entry",
    ]  # fmt: skip
    assert [one.key for one in records] == [None, b"k", None, b"", None]
    assert [dict(one.headers) for one in records] == [{}, {}, {}, {"a": b"1", "b": b""}, {}]
    assert [one.event_time for one in records] == [None, None, None, -5, None]


async def test_many_records_keep_their_attributes_over_several_entries(world: LogWorld) -> None:
    policy = StreamPolicy(flush=FlushPolicy(bytes_max=4096), codec=Codec.ZSTD)
    writer = await world.writer("s", policy=policy)
    count = 500
    keys = [b"%d" % number if number % 3 else None for number in range(count)]
    appended = writer.append_many(
        [b"p%d" % number for number in range(count)],
        keys=keys,
        headers=[{"n": b"%d" % number} for number in range(count)],
        event_times=list(range(count)),
    )
    first, last, _, _ = await appended
    assert last.entry_id > first.entry_id
    await writer.close()
    records = await world.read_all("s", count)
    assert [one.key for one in records] == keys
    assert [one.headers["n"] for one in records] == [b"%d" % number for number in range(count)]
    assert [one.event_time for one in records] == list(range(count))


async def test_numbered_records_have_attributes(world: LogWorld) -> None:
    writer = await world.writer("s")
    await writer.append_numbered(b"p" * 16, 0, [b"a", b"b"], keys=[b"x", None], event_times=[1, 2])
    await writer.close()
    records = await world.read_all("s", 2)
    assert [(one.key, one.event_time) for one in records] == [(b"x", 1), (None, 2)]


async def test_a_batch_returns_the_attributes_behind_its_first_index(world: LogWorld) -> None:
    writer = await world.writer("s")
    writer.append(b"a", key=b"1")
    writer.append(b"b", headers={"h": b"v"})
    await writer.append(b"c", event_time=9)
    await writer.close()
    reader = await world.namespace.open_reader("s", EARLIEST)
    batch = await reader.next_batch()
    assert batch is not None
    rest = batch.without_first(1)
    assert list(batch.keys()) == [b"1", None, None]
    assert list(rest.keys()) == [None, None]
    assert [dict(one) for one in rest.headers()] == [{"h": b"v"}, {}]
    assert list(rest.event_times()) == [None, 9]
    table = rest.to_arrow(with_positions=True, with_attributes=True)
    assert table.schema.names[-4:] == ["slot", "key", "headers", "event_time"]
    assert table["headers"].to_pylist() == [[("h", b"v")], None]
    await reader.aclose()


async def test_a_batch_without_attributes_has_null_columns(world: LogWorld) -> None:
    writer = await world.writer("s")
    await writer.append_many([b"a", b"b"])
    await writer.close()
    reader = await world.namespace.open_reader("s", EARLIEST)
    batch = await reader.next_batch()
    assert batch is not None
    assert (batch.keys(), batch.event_times()) == ([None, None], [None, None])
    assert [dict(one) for one in batch.headers()] == [{}, {}]
    table = batch.to_arrow(with_attributes=True)
    assert table.schema.names == ["txid", "payload", "key", "headers", "event_time"]
    assert [column.null_count for column in table.columns] == [0, 0, 2, 2, 2]
    await reader.aclose()


async def test_invalid_attributes_append_nothing(world: LogWorld) -> None:
    writer = await world.writer("s")
    with pytest.raises(InvalidArgumentError):
        writer.append(b"a", key="text")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="got 1 keys for 2 records"):
        writer.append_many([b"a", b"b"], keys=[b"k"])
    with pytest.raises(RecordTooLargeError):
        writer.append_many([b"a"], headers=[{"h": bytes(70_000)}])
    await writer.append(b"b")
    await writer.close()
    assert [one.payload for one in await world.read_all("s", 1)] == [b"b"]


async def test_attributes_count_towards_the_size_of_an_entry(world: LogWorld) -> None:
    policy = StreamPolicy(flush=FlushPolicy(bytes_max=100_000))
    writer = await world.writer("s", policy=policy, config=WriterConfig())
    tickets = [writer.append(b"", key=bytes(60_000)) for _ in range(3)]
    await writer.flush()
    assert [(await ticket).dlsn.entry_id for ticket in tickets] == [0, 1, 2]
    await writer.close()

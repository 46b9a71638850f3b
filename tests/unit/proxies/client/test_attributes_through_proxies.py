"""Keys, headers and event times of records that thin clients and simple clients append."""

import pytest

from rhumbline.core.log.read.record_batch import Record
from rhumbline.core.protocol.errors import InvalidArgumentError, RecordTooLargeError
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.messages import decode_item
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld


def attributes_of(records: list[Record]) -> list[tuple[object, object, object]]:
    return [(one.key, dict(one.headers), one.event_time) for one in records]


async def test_attributes_travel_through_a_proxy(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    writer = world.writer("s", world.transport())
    writer.append(b"plain")
    await writer.append(b"a", key=b"k", headers={"h": b"v"}, event_time=7)
    await writer.append_many([b"b", b"c"], keys=[None, b"l"], headers=[{"x": b""}, None])
    with pytest.raises(InvalidArgumentError, match="got 1 event_times for 2 records"):
        writer.append_many([b"b", b"c"], event_times=[1])
    with pytest.raises(RecordTooLargeError):
        writer.append(b"d", key=bytes(70_000))
    await writer.close()
    await world.stop()
    assert attributes_of(await log.read_all("s", 4)) == [
        (None, {}, None),
        (b"k", {"h": b"v"}, 7),
        (None, {"x": b""}, None),
        (b"l", {}, None),
    ]


async def test_records_with_and_without_txids_keep_their_attributes(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    writer = world.writer("s", world.transport())
    await writer.append(b"a", 5, key=b"k")
    await writer.append(b"b", 6, event_time=1)
    await writer.close()
    await world.stop()
    assert attributes_of(await log.read_all("s", 2)) == [(b"k", {}, None), (None, {}, 1)]


async def test_a_simple_client_sends_attributes_beside_its_payloads(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    item = decode_item(
        pb.AppendItem(
            namespace="test",
            stream="s",
            payloads=[b"a", b"b"],
            attributes=[
                pb.RecordAttributes(key=b"", headers=[pb.Header(name="h", value=b"v")]),
                pb.RecordAttributes(event_time=-1),
            ],
        )
    )
    await world.append("one:1", item)
    await world.stop()
    assert attributes_of(await log.read_all("s", 2)) == [(b"", {"h": b"v"}, None), (None, {}, -1)]


@pytest.mark.parametrize(
    ("attributes", "match"),
    [
        ([pb.RecordAttributes()], "got 1 attributes for 2 payloads"),
        ([pb.RecordAttributes(headers=[pb.Header(name="h")] * 2)] * 2, "two headers of one name"),
        ([pb.RecordAttributes(headers=[pb.Header(name="")])] * 2, "header name ''"),
        ([pb.RecordAttributes(event_time=2**60)] * 2, "event time"),
    ],
)
def test_wrong_attributes_of_a_simple_client_are_refused(
    attributes: list[pb.RecordAttributes], match: str
) -> None:
    item = pb.AppendItem(stream="s", payloads=[b"a", b"b"], attributes=attributes)
    with pytest.raises(InvalidArgumentError, match=match):
        decode_item(item)

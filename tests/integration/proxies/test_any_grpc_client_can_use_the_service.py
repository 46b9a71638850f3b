"""A foreign client made from the generated stubs: health, reflection, every kind of call."""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from rhumbline.chaos.server_processes import status_url
from rhumbline.client.connect import connect_proxies
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import EndOfStreamError, NoSuchStreamError, StreamExistsError
from rhumbline.core.protocol.installation import installed_version
from rhumbline.core.protocol.record_set import decode_entry
from rhumbline.core.protocol.start import AtEventTime, AtTime
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc import rhumbline_pb2_grpc
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, refusal, succeeded
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy

STREAM: Any = {"namespace": "default", "stream": "orders"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path_factory.mktemp("one") / "cluster", ("a", "a", "a")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def proxy(cluster: ProcessCluster) -> Iterator[ClusterProxy]:
    with ClusterProxy(cluster, "write-proxy", "both", "--with-read") as proxy:
        yield proxy


@pytest.fixture
def channel(proxy: ClusterProxy) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(proxy.address) as channel:
        yield channel


def stub_of(channel: grpc.Channel) -> Any:  # noqa: ANN401 - generated without types
    make: Any = rhumbline_pb2_grpc.RhumblineStub
    return make(channel)


def records(response: pb.ReadResponse) -> list[bytes]:
    sets = [record_set for entry in response.entries for record_set in decode_entry(entry)]
    return [payload for s in sets if not s.is_control for payload in s.payloads()]


def test_foreign_client_lists_appends_and_reads(channel: grpc.Channel) -> None:
    health_of: Any = health_pb2_grpc.HealthStub(channel)
    health = health_of.Check(
        health_pb2.HealthCheckRequest(service="rhumbline.v1.Rhumbline"), timeout=10
    )
    assert health.status == health_pb2.HealthCheckResponse.SERVING
    services = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert "rhumbline.v1.Rhumbline" in services

    stub = stub_of(channel)
    stub.CreateStream(pb.CreateStreamRequest(**STREAM, home_region="a"), timeout=10)
    listed = stub.ListStreams(pb.ListStreamsRequest(namespace="default"), timeout=10)
    assert list(listed.streams) == ["orders"]

    # An append that names its producer can be repeated.
    item = pb.AppendItem(
        id=7, **STREAM, payloads=[b"one", b"two"], producer=b"p" * 16, first_sequence=0
    )
    positions = [
        position
        for response in stub.Append(iter([pb.AppendRequest(items=[item, item])]), timeout=20)
        for answer in response.answers
        for position in zip(
            answer.ids, answer.lssns, answer.entry_ids, answer.slots, answer.record_counts,
            strict=True,
        )
    ]  # fmt: skip
    assert len(positions) == 2 and positions[0] == positions[1]
    assert (positions[0][0], positions[0][-1]) == (7, 2)

    # One message, then the client ends its side: entries up to the credit and the end are sent.
    read = stub.Read(iter([pb.ReadRequest(**STREAM, earliest=True, stops_at_end=True)]), timeout=20)
    assert [payload for response in read for payload in records(response)] == [b"one", b"two"]

    owner = stub.GetOwner(pb.GetOwnerRequest(**STREAM), timeout=10)
    assert owner.owner == owner.preferred_owner and owner.home_region == "a"
    assert stub.ReleaseStream(pb.ReleaseStreamRequest(**STREAM), timeout=10).was_owned
    known = stub.DescribeStream(pb.DescribeStreamRequest(**STREAM), timeout=10)
    assert [(s.is_completed, s.record_count) for s in known.segments] == [(True, 2)]
    truncated = stub.TruncateStream(
        pb.TruncateStreamRequest(**STREAM, position=pb.Position(lssn=2)), timeout=10
    )
    assert (truncated.start.lssn, len(truncated.start.stream_id)) == (2, 12)
    back = stub.UntruncateStream(pb.UntruncateStreamRequest(**STREAM), timeout=10)
    assert back.start == pb.Position(lssn=1, stream_id=truncated.start.stream_id)
    stub.DeleteStream(pb.DeleteStreamRequest(**STREAM), timeout=10)


def test_invalid_requests_return_statuses(channel: grpc.Channel) -> None:
    stub = stub_of(channel)
    with pytest.raises(grpc.RpcError) as missing:
        stub.DescribeStream(pb.DescribeStreamRequest(**STREAM), timeout=10)
    assert missing.value.code() is grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as unread:
        list(stub.Read(iter([pb.ReadRequest(**STREAM)]), timeout=10))
    assert unread.value.code() is grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as bad:
        stub.CreateStream(pb.CreateStreamRequest(namespace="default", stream="a/b"), timeout=10)
    assert bad.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    items = [pb.AppendItem(id=1, **STREAM, payloads=[b"x"]), pb.AppendItem(id=2, **STREAM)]
    responses = stub.Append(iter([pb.AppendRequest(items=items)]), timeout=20)
    errors = {a.ids[0]: a.error.code for response in responses for a in response.answers}
    assert errors == {1: "no-such-stream", 2: "invalid-argument"}


async def test_thin_client_administers_streams(proxy: ClusterProxy) -> None:
    async with asyncio.timeout(60), connect_proxies(f"grpc://{proxy.address}") as client:
        namespace = client.namespace()
        await namespace.create_stream("a", StreamPolicy(roll_bytes=1 << 20), home_region="a")
        with pytest.raises(StreamExistsError):
            await namespace.create_stream("a")
        policy = StreamPolicy(roll_bytes=1 << 21, hot_retention_ms=5_000)
        await namespace.set_stream_policy("a", policy)
        known = await namespace.describe("a")
        assert (known.policy, known.follows_namespace) == (policy, False)
        await namespace.set_policy(StreamPolicy(roll_bytes=1 << 22))
        await namespace.set_stream_policy("a", None)
        known = await namespace.describe("a")
        assert (known.policy.roll_bytes, known.follows_namespace) == (1 << 22, True)
        with pytest.raises(NoSuchStreamError):
            await namespace.set_home_region("missing", "b")

        async with client.writer("a") as writer, client.reader("a") as reader:
            await writer.append(b"only")
            assert (await anext(reader)).payload == b"only"
            await writer.end_stream()
            assert [record async for record in reader] == []
        await namespace.end_stream("a")
        assert await namespace.truncate("a", Dlsn(2, 0, 0)) == Dlsn(2, 0, 0)
        assert await namespace.untruncate("a", Dlsn(1, 0, 0)) == Dlsn(1, 0, 0)
        with pytest.raises(NoSuchStreamError):
            await namespace.untruncate("missing")
        writer = await namespace.open_writer("a")
        with pytest.raises(EndOfStreamError):
            await writer.append(b"late")
        await writer.abort()
        await namespace.delete_stream("a")
        with pytest.raises(NoSuchStreamError):
            await namespace.delete_stream("a")


def test_proxy_serves_probes_and_prometheus(proxy: ClusterProxy) -> None:
    for path, wanted in (
        ("/livez", '"alive": true'),
        ("/readyz", '"ready": true'),
        ("/metrics", "rhumbline_proxy_registered 1.0\n"),
        ("/metrics", "rhumbline_proxy_write_streams "),
    ):
        with urllib.request.urlopen(status_url(proxy) + path, timeout=10) as answer:
            assert wanted in answer.read().decode()


async def seek_by_time(address: str) -> None:
    async with asyncio.timeout(60), connect_proxies(f"grpc://{address}") as client:
        await client.namespace().create_stream("times")
        async with client.writer("times") as writer:
            for txid in range(1, 9):  # txids of the application, one entry for each record
                await writer.append(b"%d" % txid, txid, event_time=1_000 * txid)
        async with client.reader("times") as reader:
            found = [await anext(reader) for _ in range(8)]
        fifth = found[4]
        async with client.reader("times", AtTime(fifth.created_ms)) as reader:
            first = await anext(reader)
            assert first.created_ms == fifth.created_ms
            assert first.dlsn <= fifth.dlsn
        late = AtEventTime(5_500, ahead_ms=10**9)
        async with client.reader("times", late) as reader:
            assert (await anext(reader)).payload == b"6"


def test_thin_client_starts_at_a_time(proxy: ClusterProxy) -> None:
    asyncio.run(seek_by_time(proxy.address))


def test_operators_list_release_and_drain_proxies(
    cluster: ProcessCluster, proxy: ClusterProxy
) -> None:
    def listed() -> dict[str, Any]:
        (found,) = json.loads(cluster.run("proxy", "ls", "--output", "json"))
        assert isinstance(found, dict)
        return found

    shown = listed()
    assert (shown["address"], shown["roles"]) == (proxy.address, "write read")
    assert (shown["region"], shown["mode"], shown["accepts_streams"]) == ("a", "accepting", True)
    assert shown["version"] == installed_version()
    cluster.run("stream", "create", "moved")
    succeeded("stream", "append", "moved", "--via", f"grpc://{proxy.address}", stdin=b"x\n")
    cluster.run("proxy", "release", "moved")
    code, text = refusal("proxy", "release", "moved", *cluster.options())
    assert (code, "no proxy owns stream moved" in text) == (4, True)
    cluster.run("stream", "home", "moved", "b")
    cluster.run("proxy", "drain", proxy.address)
    assert listed()["accepts_streams"] is False
    cluster.run("proxy", "undrain", proxy.address)
    assert listed()["accepts_streams"] is True
    code, text = refusal("proxy", "drain", "nowhere:1", *cluster.options())
    assert (code, "no proxy is up at nowhere:1" in text) == (2, True)

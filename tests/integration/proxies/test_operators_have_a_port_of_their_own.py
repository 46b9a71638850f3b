"""Proxies with a port for operators: it alone serves administration, also to clients (SEC-44)."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from rhumbline.chaos.lab.ports import free_port
from rhumbline.client.connect import connect_proxies
from rhumbline.client.system_runtime import system_runtime
from rhumbline.core.protocol.errors import StreamSealedError, WrongPortError
from rhumbline.proxies.client.discovery.config import DiscoveryConfig
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.proxies.listeners.listener import ADMINISTRATIVE
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_calls import GrpcTransport, error_of_call
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, refusal, succeeded
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy

REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"


class OperatedProxy(ClusterProxy):
    """A proxy with a port for operators, at ``operators``."""

    def __init__(self, cluster: ProcessCluster, name: str) -> None:
        self.operators = f"127.0.0.1:{free_port()}"
        port = self.operators.rpartition(":")[2]
        super().__init__(cluster, "write-proxy", name, "--with-read", "--operator-port", port)


class RecordingTransport(GrpcTransport):
    """Calls whose addresses are noted in ``called``, except those for the list of proxies."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []

    async def call_unary(
        self, address: str, method: methods.Method, request: Message, timeout_s: float
    ) -> Message:
        if method is not methods.LIST_PROXIES:
            self.called.append(address)
        return await super().call_unary(address, method, request, timeout_s)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path_factory.mktemp("one") / "cluster", ("a", "a", "a")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def proxies(cluster: ProcessCluster) -> Iterator[tuple[OperatedProxy, OperatedProxy]]:
    with OperatedProxy(cluster, "one") as one, OperatedProxy(cluster, "two") as two:
        yield one, two


def is_healthy(channel: grpc.Channel) -> bool:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=methods.SERVICE)
    return bool(stub.Check(request, timeout=10).status == health_pb2.HealthCheckResponse.SERVING)


def check_refusal(error: grpc.RpcError, text: str) -> None:
    """Check that a call was refused by the rule, with the address that serves it."""
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "(rule SEC-44)" in str(error.details()) and text in str(error.details())


def test_the_port_for_clients_refuses_administration_and_reflection(
    proxies: tuple[OperatedProxy, OperatedProxy],
) -> None:
    one = proxies[0]
    assert one.find(r"operators at (\S+)") == one.operators
    with grpc.insecure_channel(one.address) as channel:
        assert is_healthy(channel)
        for method in sorted(ADMINISTRATIVE):
            call: Any = channel.unary_unary(
                method.path, request_serializer=method.request.SerializeToString
            )
            with pytest.raises(grpc.RpcError) as refused:
                call(method.request(), timeout=10)
            check_refusal(refused.value, f"{method.name} is served at the address for operators")
            assert one.operators in str(refused.value.details())
        question = reflection_pb2.ServerReflectionRequest(list_services="")
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        with pytest.raises(grpc.RpcError) as hidden:
            next(stub.ServerReflectionInfo(iter([question]), timeout=10))
        check_refusal(hidden.value, "server reflection")
        later: Any = channel.stream_stream(f"/{REFLECTION_V1}/ServerReflectionInfo")
        with pytest.raises(grpc.RpcError) as hidden:
            next(later(iter([question.SerializeToString()]), timeout=10))
        check_refusal(hidden.value, "server reflection")


def test_the_port_for_operators_serves_administration_and_no_data(
    proxies: tuple[OperatedProxy, OperatedProxy],
) -> None:
    one = proxies[0]
    with grpc.insecure_channel(one.operators) as channel:
        assert is_healthy(channel)
        assert methods.SERVICE in ProtoReflectionDescriptorDatabase(channel).get_services()
        set_accepting: Any = channel.unary_unary(
            methods.SET_ACCEPTING.path, request_serializer=pb.SetAcceptingRequest.SerializeToString
        )
        set_accepting(pb.SetAcceptingRequest(is_accepting=True), timeout=10)
        append: Any = channel.stream_stream(
            methods.APPEND.path, request_serializer=pb.AppendRequest.SerializeToString
        )
        with pytest.raises(grpc.RpcError) as refused:
            next(append(iter([pb.AppendRequest()]), timeout=10))
        check_refusal(refused.value, f"Append is served at the address for clients, {one.address}")


async def test_clients_find_the_port_with_and_without_a_list_of_proxies(
    cluster: ProcessCluster, proxies: tuple[OperatedProxy, OperatedProxy]
) -> None:
    one, two = proxies
    cluster.run("stream", "create", "sealed")
    alone = DiscoveryConfig(refresh_ms=0)
    for address, discovery in (
        (one.address, None), (one.address, alone), (two.operators, None), (two.operators, alone)
    ):  # fmt: skip
        uri = f"grpc://{address}"
        async with asyncio.timeout(30), connect_proxies(uri, discovery=discovery) as client:
            namespace = client.namespace()
            await namespace.seal("sealed")
            with pytest.raises(StreamSealedError):  # the answer of the port for clients
                async with client.writer("sealed") as writer:
                    await writer.append(b"not any more")
            assert await namespace.unseal("sealed")
            assert "sealed" in await namespace.streams()


async def test_redirects_lead_to_the_port_for_operators_of_the_other_proxy(
    cluster: ProcessCluster, proxies: tuple[OperatedProxy, OperatedProxy]
) -> None:
    cluster.run("stream", "create", "owned")
    succeeded("stream", "append", "owned", "--via", f"grpc://{proxies[0].address}", stdin=b"x\n")
    key: Any = {"namespace": "default", "stream": "owned"}
    calls = RecordingTransport()
    uri = f"grpc://{proxies[1].operators}"
    async with asyncio.timeout(30), ProxyClient(uri, system_runtime(), calls) as client:
        found = await client.call(methods.GET_OWNER, pb.GetOwnerRequest(**key), pb.GetOwnerResponse)
        owner, other = sorted(proxies, key=lambda proxy: proxy.address != found.owner)
        assert owner.address == found.owner
        calls.called.clear()
        client.channels.set_owner(("default", "owned"), other.address)
        home = await client.call(
            methods.DESCRIBE_HOME, pb.DescribeHomeRequest(**key), pb.DescribeHomeResponse
        )
        assert home.owner == owner.address
        assert calls.called == [other.operators, owner.operators]


def test_commands_use_the_port(
    cluster: ProcessCluster, proxies: tuple[OperatedProxy, OperatedProxy]
) -> None:
    one, _ = proxies
    listed = json.loads(cluster.run("proxy", "ls", "--output", "json"))
    assert {row["address"]: row["operator_address"] for row in listed} == {
        proxy.address: proxy.operators for proxy in proxies
    }
    cluster.run("stream", "create", "released")
    via = f"grpc://{one.address}"
    succeeded("stream", "append", "released", "--via", via, stdin=b"x\n")
    released = json.loads(cluster.run("proxy", "release", "released", "--output", "json"))
    assert released["was_owned"] is True
    for verb, accepts in (("drain", False), ("undrain", True)):
        done = json.loads(cluster.run("proxy", verb, one.address, "--output", "json"))
        assert (done["address"], done["accepts_streams"]) == (one.address, accepts)


def test_operators_are_not_served_on_a_network_without_tls(cluster: ProcessCluster) -> None:
    _, text = refusal(
        "write-proxy", *cluster.options(), "--port", "0", "--status-port", "0",
        "--operator-port", str(free_port()), "--operator-host", "0.0.0.0",
    )  # fmt: skip
    assert "the proxy for operators would listen on 0.0.0.0 without TLS" in text
    _, text = refusal(
        "write-proxy", *cluster.options(), "--port", "0", "--status-port", "0",
        "--operator-host", "0.0.0.0",
    )  # fmt: skip
    assert "operator_host" in text and "operator_port" in text


def test_errors_of_refused_calls_are_typed(proxies: tuple[OperatedProxy, OperatedProxy]) -> None:
    one = proxies[0]

    async def refused() -> WrongPortError:
        async with grpc.aio.insecure_channel(one.address) as channel:
            call: Any = channel.unary_unary(
                methods.ROLL_STREAM.path,
                request_serializer=pb.RollStreamRequest.SerializeToString,
            )
            try:
                await call(pb.RollStreamRequest(), timeout=10)
            except grpc.aio.AioRpcError as error:
                found = error_of_call(error)
                assert isinstance(found, WrongPortError)
                return found
        raise AssertionError("it was served")

    assert asyncio.run(refused()).address == one.operators

"""The channels of a client are closed when it has not called their proxies for a while."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_calls import GrpcTransport

_UNUSED_SECONDS = 0.1
Context = grpc.aio.ServicerContext[Any, Any]


async def start_proxy() -> tuple[grpc.aio.Server, str]:
    """Start a server that answers pings and lists no proxies."""

    async def answer(requests: AsyncIterator[Any], context: Context) -> None:
        async for _ in requests:
            await context.write(b"")

    async def list_proxies(request: bytes, context: Context) -> bytes:
        return b""

    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Append": grpc.stream_stream_rpc_method_handler(answer),
        "ListProxies": grpc.unary_unary_rpc_method_handler(list_proxies),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(methods.SERVICE, handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, f"127.0.0.1:{port}"


async def list_at(calls: GrpcTransport, address: str) -> None:
    await calls.call_unary(address, methods.LIST_PROXIES, pb.ListProxiesRequest(), 5)


async def test_a_channel_without_calls_is_closed_and_opened_again() -> None:
    (staying, here), (leaving, there) = await start_proxy(), await start_proxy()
    calls = GrpcTransport(unused_seconds_max=_UNUSED_SECONDS)
    await list_at(calls, there)
    await list_at(calls, here)
    assert calls.channel_count == 2
    for _ in range(3):
        await asyncio.sleep(_UNUSED_SECONDS * 0.7)
        await list_at(calls, here)
    assert calls.channel_count == 1
    await list_at(calls, there)
    assert calls.channel_count == 2
    await calls.aclose()
    await staying.stop(None)
    await leaving.stop(None)


async def test_a_channel_with_a_call_stays_open_as_long_as_the_call() -> None:
    (other, here), (called, there) = await start_proxy(), await start_proxy()
    calls = GrpcTransport(unused_seconds_max=_UNUSED_SECONDS)
    call = calls.begin(there, methods.APPEND)
    for _ in range(3):
        await asyncio.sleep(_UNUSED_SECONDS * 0.7)
        await list_at(calls, here)
    await call.write(pb.AppendRequest())
    assert await asyncio.wait_for(call.read(), 5) is not None
    assert calls.channel_count == 2
    call.cancel()
    for _ in range(3):
        await asyncio.sleep(_UNUSED_SECONDS * 0.7)
        await list_at(calls, here)
    assert calls.channel_count == 1
    await calls.aclose()
    await other.stop(None)
    await called.stop(None)

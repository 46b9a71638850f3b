"""The reduced HTTP/2 client is accepted by a real gRPC server, which serves its call."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("grpc")

import grpc
import grpc.aio

from rhumbline.bench.connections.http2_connection import Http2Connection


async def test_a_grpc_server_accepts_the_connection_and_begins_the_call() -> None:
    begun = asyncio.Event()

    async def serve(requests: AsyncIterator[Any], context: object) -> None:
        begun.set()
        async for _ in requests:
            pass

    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "service", {"Method": grpc.stream_stream_rpc_method_handler(serve)}
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Http2Connection, "127.0.0.1", port)
    connection.begin_call(f"127.0.0.1:{port}", "/service/Method")
    await asyncio.wait_for(begun.wait(), 10)
    assert connection.failure == ""
    await server.stop(None)
    await asyncio.sleep(0.1)
    assert connection.failure != ""
    connection.close()

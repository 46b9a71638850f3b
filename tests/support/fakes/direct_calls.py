"""Unary calls between proxies of one test, without a network."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import Message

from rhumbline.core.protocol.errors import DeadlineExceededError, UnavailableError
from rhumbline.proxies.rpc.methods import Method
from rhumbline.proxies.rpc.rpc_transport import RpcCall

Handler = Callable[[Any], Awaitable[Message]]


class DirectCalls:
    """An ``RpcTransport`` that calls the handlers in ``served``, by (address, method)."""

    def __init__(self, served: dict[tuple[str, Method], Handler] | None = None) -> None:
        self.served = {} if served is None else served
        self.hung: set[str] = set()
        """Addresses that accept calls and do not respond."""

    def begin(self, address: str, method: Method) -> RpcCall:
        raise UnavailableError(f"{address} has no streaming calls")

    async def call_unary(
        self, address: str, method: Method, request: Message, timeout_s: float
    ) -> Message:
        await asyncio.sleep(0.001)
        if address in self.hung:
            await asyncio.sleep(timeout_s)
            raise DeadlineExceededError(f"{address} did not respond")
        handler = self.served.get((address, method))
        if handler is None:
            raise UnavailableError(f"{address} refused the connection")
        return await handler(request)

    async def aclose(self) -> None:
        return

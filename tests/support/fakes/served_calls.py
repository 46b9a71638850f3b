"""Calls of thin clients to the proxies of one test, in its event loop and without a network."""

import asyncio
from collections.abc import AsyncIterator
from random import Random

from google.protobuf.message import Message

from rhumbline.core.protocol.errors import (
    DeadlineExceededError,
    RhumblineError,
    UnavailableError,
)
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.runtime.tasks import Tasks, wait_until_done
from rhumbline.proxies.client.discovery.config import DiscoveryConfig
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.membership import READ, WRITE
from rhumbline.proxies.rpc.grpc_status import decode_details, encode_details
from rhumbline.proxies.rpc.methods import Method
from rhumbline.proxies.rpc.proxy_service import ProxyService
from rhumbline.tests.support.fakes.direct_calls import DirectCalls
from rhumbline.tests.support.fakes.log_world import LogWorld


class _ServedCall:
    """Both sides of a streaming call."""

    def __init__(self, network: "ProxyNetwork", address: str, method: Method) -> None:
        self.address = address
        self._network = network
        self._to_server: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._to_client: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._method = method
        self._outcome: RhumblineError | None = None
        self._is_over = False
        self._task: asyncio.Task[None] | None = None
        service = network.services.get(address)
        if service is None:
            self._over(UnavailableError(f"{address} refused the connection"))
        else:
            self._task = network.tasks.spawn(self._serve(service), f"call to {address}")

    async def _serve(self, service: ProxyService) -> None:
        outcome: RhumblineError | None = None
        try:
            await service.stream_calls[self._method](self._requests(), self._send)
        except RhumblineError as error:
            outcome = decode_details(encode_details(error, 0))
        self._over(outcome)

    async def _requests(self) -> AsyncIterator[Message]:
        while (data := await self._to_server.get()) is not None:
            yield self._method.request.FromString(data)

    async def _send(self, message: Message | bytes) -> None:
        if self.address in self._network.cut:
            return
        data = message if isinstance(message, bytes) else message.SerializeToString()
        self._to_client.put_nowait(data)

    def _over(self, outcome: RhumblineError | None) -> None:
        if not self._is_over:
            self._is_over, self._outcome = True, outcome
            self._to_client.put_nowait(None)

    def break_connection(self) -> None:
        """End the call on both sides, as when the process of the proxy was killed."""
        self._stop(UnavailableError("the connection broke"))

    def _stop(self, reason: RhumblineError) -> None:
        if not self._is_over:
            self._over(reason)
            if self._task is not None and self.address not in self._network.cut:
                self._task.cancel()

    async def ended(self) -> None:
        """Wait until the proxy has finished with the call."""
        if self._task is not None:
            await wait_until_done(self._task)

    async def write(self, message: Message) -> None:
        await asyncio.sleep(0)
        if self.address in self._network.cut:
            return
        self._to_server.put_nowait(message.SerializeToString())

    async def read(self) -> Message | None:
        data = None if self._is_over and self._to_client.empty() else await self._to_client.get()
        if data is not None:
            message: Message = self._method.response.FromString(data)
            return message
        if self._outcome is not None:
            raise self._outcome.with_traceback(None)
        return None

    def cancel(self) -> None:
        self._stop(UnavailableError("the call was cancelled"))


class ProxyNetwork:
    """Proxies over the streams of a world, and the ``RpcTransport`` of all clients."""

    def __init__(self, log: LogWorld) -> None:
        self.log = log
        self.services: dict[str, ProxyService] = {}
        self.cut: set[str] = set()
        """Addresses of proxies to and from which nothing arrives."""
        self.tasks = Tasks()
        self._calls: list[_ServedCall] = []

    async def start(self, *addresses: str) -> None:
        """Start proxies of both roles."""
        for address in addresses:
            service = ProxyService(
                self.log.runtime,
                self.log.store,
                lambda _: self.log.open_namespace(),
                ProxyConfig(),
                roles=(WRITE, READ),
                address=address,
                region="east",
                calls=DirectCalls(),
            )
            await service.join()
            self.services[address] = service
        await asyncio.sleep(0.01)

    async def kill(self, address: str) -> None:
        """Kill a proxy: its connections break, and its sessions are lost later."""
        service = self.services.pop(address)
        for call in self._calls:
            if call.address == address:
                call.break_connection()
        await service.hand_over()
        await service.leave()

    def client(self, *addresses: str) -> ProxyClient:
        """Return a thin client that knows these proxies and no others, by default all."""
        names = ",".join(addresses or self.services)
        runtime = Runtime(self.log.clock, Random(self.log.runtime.random.random()))
        discovery = DiscoveryConfig(refresh_ms=0)
        return ProxyClient(f"grpc://{names}", runtime, self, namespace="test", discovery=discovery)

    def begin(self, address: str, method: Method) -> _ServedCall:
        call = _ServedCall(self, address, method)
        self._calls.append(call)
        return call

    async def call_unary(
        self, address: str, method: Method, request: Message, timeout_s: float
    ) -> Message:
        await asyncio.sleep(0.001)
        service = self.services.get(address)
        if service is None:
            raise UnavailableError(f"{address} refused the connection")
        if address in self.cut:
            await asyncio.sleep(timeout_s)
            raise DeadlineExceededError(f"{address} did not respond")
        async with asyncio.timeout(timeout_s):
            return await service.unary_calls[method](request)

    async def aclose(self) -> None:
        """Leave the calls to their owners; the network belongs to several clients."""

    async def stop(self) -> None:
        """Stop all proxies."""
        for service in self.services.values():
            await service.hand_over()
            await service.leave()
        for call in self._calls:
            await call.ended()
        await self.tasks.aclose()

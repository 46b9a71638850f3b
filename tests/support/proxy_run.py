"""Write proxies and thin producers in the simulated world: production code but for gRPC.

Their messages are those of rhumbline.v1, each behind its length, over the world's connections.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from rhumbline.chaos.simulation.cluster import NAMESPACE, STREAM, SimClient, until
from rhumbline.chaos.simulation.scenario import Plan, SeedRun
from rhumbline.chaos.simulation.workload import Applications, _process_of, _words
from rhumbline.chaos.simulation.world import SimHost, SimWorld
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.writer import StreamWriter
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    RhumblineError,
    TooManyRequestsError,
)
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.proxies import rhumbline_pb2 as pb
from rhumbline.proxies.append_session import AppendSession
from rhumbline.proxies.client_writer import ProxyWriter
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.items import Placed
from rhumbline.proxies.messages import add_item, decode_answer, decode_item, encode_answers
from rhumbline.proxies.presence import WRITE, Presence
from rhumbline.proxies.sending import Outgoing
from rhumbline.proxies.write_proxy import WriteProxy

PROXY_PORT = 4281
PRODUCERS = 3
EVERYBODY = "everybody"
_PING_S = 0.25
_SILENCE_S = 1.5
_LENGTH = 4

OnAnswer = Callable[[Placed | RhumblineError], None]


class _Framed(asyncio.Protocol):
    """Messages behind their length."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._held + data
        while len(data) >= _LENGTH:
            end = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
            if len(data) < end:
                break
            self.take(data[_LENGTH:end])
            data = data[end:]
        self._held = data

    def say(self, message: bytes) -> None:
        if self.transport is not None:
            self.transport.write(len(message).to_bytes(_LENGTH, "big") + message)

    def take(self, message: bytes) -> None:
        raise NotImplementedError


class _ProxyEnd(_Framed):
    """A proxy's end of one append call."""

    def __init__(self, writes: WriteProxy) -> None:
        super().__init__()
        self._session = AppendSession(writes, self._schedule, bytes_max=1 << 20)
        self._loop = asyncio.get_running_loop()

    def take(self, message: bytes) -> None:
        request = pb.AppendRequest.FromString(message)
        if not request.items:
            self._session.ping()
        for item in request.items:
            self._session.submit(item.id, decode_item(item), restarts=item.restarts)

    def _schedule(self) -> None:
        self._loop.call_soon(self._answer)

    def _answer(self) -> None:
        answers = self._session.take_answers()
        if answers or self._session.take_ping():
            self.say(encode_answers(answers).SerializeToString())

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None


class _ClientEnd(_Framed):
    """A client's end of one append call."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = False
        self.waiting: dict[int, OnAnswer] = {}
        self._early: list[bytes] = []
        self._next_id = 1
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(_PING_S, self._on_tick)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        for message in self._early:
            self.say(message)

    def send(
        self, key: tuple[str, str], out: Outgoing, on_answer: OnAnswer, restarts: bool,
        tried: tuple[str, ...],
    ) -> None:  # fmt: skip
        id_, self._next_id = self._next_id, self._next_id + 1
        if not self.waiting:
            self._heard_at = self._loop.time()
        self.waiting[id_] = on_answer
        request = pb.AppendRequest()
        add_item(request, id_, key, out, restarts=restarts, tried=tried)
        self.say(request.SerializeToString())

    def say(self, message: bytes) -> None:
        if self.transport is None:
            self._early.append(message)
        super().say(message)

    def take(self, message: bytes) -> None:
        self._heard_at = self._loop.time()
        for answer in pb.AppendResponse.FromString(message).answers:
            self.waiting.pop(answer.id)(decode_answer(answer))

    def connection_lost(self, exc: Exception | None) -> None:
        self.end("the connection broke")

    def end(self, why: str) -> None:
        """Everything that waits has an unknown outcome."""
        if self.is_over:
            return
        self.is_over = True
        self._timer.cancel()
        if self.transport is not None:
            self.transport.abort()
        waiting, self.waiting = self.waiting, {}
        for on_answer in waiting.values():
            on_answer(AppendOutcomeUnknownError(why))

    def _on_tick(self) -> None:
        silent_s = self._loop.time() - self._heard_at
        if self.waiting and silent_s > _SILENCE_S:
            self.end("it is silent")
            return
        if self.waiting:
            self.say(pb.AppendRequest().SerializeToString())
        self._timer = self._loop.call_later(_PING_S, self._on_tick)


class SimChannels:
    """The connections of one client process: what ``Sender`` calls its transport."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.addresses = addresses
        self.tasks = Tasks()
        self._calls: dict[str, _ClientEnd] = {}
        self._owners: dict[tuple[str, str], str] = {}

    def owner(self, key: tuple[str, str]) -> str | None:
        return self._owners.get(key)

    def set_owner(self, key: tuple[str, str], address: str | None) -> None:
        self._owners.pop(key, None)
        if address is not None:
            self._owners[key] = address

    def send(
        self,
        address: str,
        key: tuple[str, str],
        out: Outgoing,
        on_answer: OnAnswer,
        *,
        restarts: bool,
        tried: tuple[str, ...],
    ) -> None:
        call = self._calls.get(address)
        if call is None or call.is_over:
            call = self._calls[address] = _ClientEnd()
            self.tasks.spawn(self._connect(address, call), f"connect to {address}")
        call.send(key, out, on_answer, restarts, tried)

    async def _connect(self, address: str, call: _ClientEnd) -> None:
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(_SILENCE_S):
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: call, host, int(port))
        except (OSError, TimeoutError) as error:
            call.end(f"{address} is not reached: {error}")


class ThinApplications(Applications):
    """In each region a process of producers that write through proxies while ``active`` says so."""

    addresses: tuple[str, ...] = ()
    policy: StreamPolicy

    async def run(self, host: SimHost) -> None:
        await self._produce_all(host)

    async def run_and_tail(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            tasks = Tasks()
            tasks.spawn(self._tail(host, client), "tail")
            await self._produce_all(host)

    async def _produce_all(self, host: SimHost) -> None:
        near = sorted(self.addresses, key=lambda one: f"-{host.region}-" not in one)
        channels = SimChannels(tuple(near))
        runtime = host.runtime()
        tasks = Tasks()
        for number in range(PRODUCERS):
            tasks.spawn(self._produce(host, runtime, channels, number), f"producer {number}")
        await asyncio.Event().wait()

    async def _produce(
        self, host: SimHost, runtime: Runtime, channels: SimChannels, place: int
    ) -> None:
        random = self.cluster.world.random_of(f"producer {host.name} {host.starts} {place}")
        while True:
            if self.active != EVERYBODY or self.called >= self.wanted:
                await asyncio.sleep(0.1)
                continue
            session = self.history.new_session()
            self._writers[session] = _process_of(host)
            writer = ProxyWriter(
                runtime,
                channels,
                namespace=NAMESPACE,
                stream=STREAM,
                policy=self.policy,
                timeout_ms=60_000,
                end_stream=_never,
            )
            tasks = Tasks()
            number = 0
            try:
                while self.active == EVERYBODY and self.called < self.wanted:
                    number += self._burst(
                        cast(StreamWriter, writer), session, number, random, tasks
                    )
                    await asyncio.sleep(random.random() * self.habits.pause_ms / 1000)
            except TooManyRequestsError:
                await asyncio.sleep(0.2)
            except RhumblineError as error:
                self._note(host, f"session {session} failed: {_words(error)}")
            try:
                await writer.close()
            except RhumblineError as error:
                self._note(host, f"session {session} failed: {_words(error)}")


class ProxyRun(SeedRun):
    """A run with two write proxies in each region; its applications know only those."""

    config = ProxyConfig(session_ttl_ms=1_000, balance_ms=0)

    def __init__(self, world: SimWorld, plan: Plan) -> None:
        super().__init__(world, plan)
        self.proxies: dict[str, WriteProxy] = {}
        """By host: for looking, not for touching."""
        self.proxy_hosts = [
            world.host(f"proxy-{region}-{n}", region)
            for region in plan.topology.regions
            for n in range(2)
        ]
        apps = self.apps = ThinApplications(self.cluster, self.history, plan.habits)
        apps.addresses = tuple(f"{host.name}:{PROXY_PORT}" for host in self.proxy_hosts)
        apps.policy = plan.settings.policy

    async def play_course(self, course: Callable[["ProxyRun"], Awaitable[None]]) -> None:
        """From the founding through the course to the last question."""
        await self.cluster.found()
        for host in self.proxy_hosts:
            host.start(self._proxy)
        for host in self.cluster.app_hosts:
            self.apps.start(host, reads=host.name in self.plan.readers)
        self.apps.wanted = self.plan.appends_max
        self.apps.active = EVERYBODY
        await course(self)
        self.apps.active = "nobody"
        self.world.heal_everything()
        await self._epilogue()

    async def acks(self, count: int, within_s: float) -> None:
        """Waits until so many more appends are acknowledged."""
        goal = self.apps.acked + count
        async with asyncio.timeout(within_s):
            await until(lambda: self.apps.acked >= goal)

    async def _proxy(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            await self._serve(host, client)

    async def _serve(self, host: SimHost, client: SimClient) -> None:
        presence = Presence(
            client.store,
            host.runtime(),
            roles=(WRITE,),
            address=f"{host.name}:{PROXY_PORT}",
            region=host.region,
            session_ttl_ms=self.config.session_ttl_ms,
        )
        writes = WriteProxy(client.store, lambda _: client.namespace, presence, self.config)
        loop = asyncio.get_running_loop()
        await loop.create_server(lambda: _ProxyEnd(writes), host.name, PROXY_PORT)
        await presence.join()
        self.proxies[host.name] = writes
        await asyncio.Event().wait()

    def owners(self) -> list[SimHost]:
        """The proxies that live, or are stopped, and believe to own the stream."""
        return [
            host
            for host in self.proxy_hosts
            if host.is_running and host.name in self.proxies and self._has_stream(host)
        ]

    def _has_stream(self, host: SimHost) -> bool:
        return self.proxies[host.name].serves(NAMESPACE, STREAM)


async def _never() -> None:
    raise AssertionError("nobody ends a stream in these runs")

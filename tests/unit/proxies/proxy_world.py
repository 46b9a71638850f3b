"""Proxies of several regions and thin producers over ledgers in memory, without gRPC."""

import asyncio
from collections.abc import Callable
from functools import partial

from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    NotOwnerError,
    RhumblineError,
    UnavailableError,
)
from rhumbline.core.protocol.record_set import (
    NO_PRODUCER,
    NO_SEQUENCE,
    TXID_FIRST,
    Producer,
    encode_record_set,
)
from rhumbline.proxies.client.producer_sender import OutgoingSet
from rhumbline.proxies.client.proxy_writer import ProxyWriter
from rhumbline.proxies.client.thin_producer import ThinProducer, ThinProducers
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.membership import WRITE, ProxyMembership
from rhumbline.proxies.proxy_stores import ProxyStore, ProxyStores
from rhumbline.proxies.quotas.caller_quota import CallerQuota
from rhumbline.proxies.write.append_item import Appended, AppendItem
from rhumbline.proxies.write.append_session import AppendSession
from rhumbline.proxies.write.write_proxy import WriteProxy
from rhumbline.tests.support.fakes.log_world import LogWorld

Outcome = Appended | RhumblineError


class Proxy:
    """A write proxy process."""

    def __init__(self, world: "ProxyWorld", address: str, region: str, config: ProxyConfig) -> None:
        self.world = world
        self.address = address
        self.membership = ProxyMembership(
            world.log.store,
            world.log.runtime,
            roles=(WRITE,),
            address=address,
            region=region,
            session_ttl_ms=config.session_ttl_ms,
        )
        self.config = config
        self.quota: CallerQuota | None = None
        """The quotas of all clients; None: no limits."""
        self.is_dead = False

    async def start(self) -> None:
        await self.membership.join()
        log = self.world.log
        stores = self.stores = ProxyStores([ProxyStore(log.store, self.membership)])
        self.claims = stores.first.claims
        random = log.runtime.random
        self.writes = WriteProxy(lambda _: log.open_namespace(), stores, self.config, random)

    async def crash(self) -> None:
        """Crash: no notice is sent, and the session ends when its TTL has expired."""
        self.is_dead = True
        self.world.break_connections(self.address)
        await asyncio.sleep(self.config.session_ttl_ms / 1000)
        await self.membership.leave()

    async def stop(self) -> None:
        """Stop gracefully."""
        await self.writes.aclose()
        self.is_dead = True
        self.world.break_connections(self.address)
        await self.membership.leave()


class Connection:
    """One client's append call to one proxy."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.waiting: dict[int, Callable[[Outcome], None]] = {}
        self.next_id = 1
        self.session = AppendSession(
            proxy.writes, self._schedule, bytes_max=1 << 20, quota=proxy.quota
        )

    def send(
        self, item: AppendItem, on_result: Callable[[Outcome], None], *, restarts: bool = False
    ) -> None:
        id_, self.next_id = self.next_id, self.next_id + 1
        self.waiting[id_] = on_result
        self.session.submit(id_, item, restarts=restarts)

    def _schedule(self) -> None:
        asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        if not self.proxy.is_dead:
            for id_, outcome in self.session.take_results():
                self.waiting.pop(id_)(outcome)

    def fail_all(self) -> None:
        waiting, self.waiting = self.waiting, {}
        for on_result in waiting.values():
            on_result(AppendOutcomeUnknownError("the connection broke"))


class DirectTransport:
    """The transport of one client process, without gRPC."""

    def __init__(self, world: "ProxyWorld", addresses: tuple[str, ...]) -> None:
        self.addresses = addresses
        self.connections: dict[str, Connection] = {}
        self._world = world
        self._owners: dict[tuple[str, str], str] = {}

    def candidates(self, key: tuple[str, str]) -> tuple[str, ...]:
        return self.addresses

    def owner(self, key: tuple[str, str]) -> str | None:
        return self._owners.get(key)

    def before_sending(self, address: str, callback: Callable[[], None], delay_ms_max: int) -> None:
        asyncio.get_running_loop().call_soon(callback)

    def set_owner(self, key: tuple[str, str], address: str | None) -> None:
        if address is not None:
            self._owners[key] = address

    def send(
        self,
        address: str,
        key: tuple[str, str],
        outgoing: OutgoingSet,
        on_result: Callable[[Outcome], None],
        *,
        restarts: bool,
        tried: tuple[str, ...],
    ) -> None:
        item = AppendItem(
            *key,
            outgoing.encoded,
            keeps_txids=outgoing.keeps_txids,
            tried=tried,
            expected=outgoing.expected,
        )
        asyncio.get_running_loop().call_soon(self._arrive, address, item, on_result, restarts)

    def _arrive(
        self, address: str, item: AppendItem, on_result: Callable[[Outcome], None], restarts: bool
    ) -> None:
        proxy = self._world.proxies[address]
        if proxy.is_dead:
            on_result(UnavailableError("connection refused"))
            return
        if address not in self.connections:
            self.connections[address] = Connection(proxy)
        self.connections[address].send(item, on_result, restarts=restarts)


class ProxyWorld:
    """Proxies and clients for a test."""

    def __init__(self, log: LogWorld) -> None:
        self.log = log
        self.proxies: dict[str, Proxy] = {}
        self.transports: list[DirectTransport] = []
        self.producers: dict[DirectTransport, ThinProducers] = {}

    async def start(
        self, *addresses: str, region: str = "east", config: ProxyConfig | None = None
    ) -> None:
        for address in addresses:
            proxy = self.proxies[address] = Proxy(self, address, region, config or ProxyConfig())
            await proxy.start()
        await asyncio.sleep(0.01)  # until every proxy has seen all members

    async def stop(self) -> None:
        for proxy in self.proxies.values():
            if proxy.is_dead:
                await proxy.writes.aclose()  # the process is dead; end its tasks
            else:
                await proxy.stop()

    def transport(self, *addresses: str) -> DirectTransport:
        transport = DirectTransport(self, addresses or tuple(self.proxies))
        self.transports.append(transport)
        return transport

    def writer(
        self,
        stream: str,
        transport: DirectTransport | None = None,
        timeout_ms: int = 30_000,
        policy: StreamPolicy | None = None,
    ) -> ProxyWriter:
        """Return a writer; writers with the same transport share a process."""
        transport = transport or self.transport()
        if transport not in self.producers:
            self.producers[transport] = ThinProducers(
                lambda key, policy: ThinProducer(
                    self.log.runtime, transport, key, policy, timeout_ms
                )
            )
        return ProxyWriter(
            self.producers[transport],
            namespace="test",
            stream=stream,
            policy=policy or StreamPolicy(),
            end_stream=partial(self.end_stream, stream),
        )

    async def end_stream(self, stream: str) -> None:
        """End the stream at the proxy that owns it."""
        for proxy in self.proxies.values():
            try:
                await proxy.writes.end_stream("test", stream, tried=())
            except NotOwnerError:
                continue
            return
        raise AssertionError("no proxy ended the stream")

    def break_connections(self, address: str) -> None:
        for transport in self.transports:
            connection = transport.connections.pop(address, None)
            if connection is not None:
                connection.fail_all()

    async def append(self, address: str, item: AppendItem) -> Outcome:
        """Append one set on a connection of its own, and return its outcome."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        Connection(self.proxies[address]).send(item, answer.set_result)
        return await asyncio.wait_for(answer, 60)

    async def append_ok(self, address: str, item: AppendItem) -> Appended:
        """Append one set on a connection of its own; raise its error."""
        outcome = await self.append(address, item)
        if isinstance(outcome, RhumblineError):
            raise outcome
        return outcome

    async def contents(self, stream: str) -> list[tuple[Dlsn, bytes]]:
        """Return every record of the stream, after its proxies have stopped."""
        namespace = self.log.namespace
        async with await namespace.open_writer(stream):
            pass  # completes the segment in progress
        found = []
        end = Dlsn((await namespace.describe(stream)).segments[-1].lssn + 1, 0, 0)
        async with await namespace.open_reader(stream, Dlsn(1, 0, 0)) as reader:
            while (batch := await reader.next_batch(until=end)) is not None:
                found += [(record.dlsn, record.payload) for record in batch.records()]
        return found


def an_item(
    stream: str,
    *payloads: bytes,
    producer: bytes = b"",
    sequence: int = 0,
    tried: tuple[str, ...] = (),
    expected: Dlsn | None = None,
) -> AppendItem:
    """Return an item with a record set, unnumbered without a producer id."""
    numbering = Producer(producer, sequence) if producer else Producer(NO_PRODUCER, NO_SEQUENCE)
    encoded = encode_record_set(
        payloads, first_txid=TXID_FIRST, last_txid=TXID_FIRST, producer=numbering
    )
    return AppendItem("test", stream, encoded, tried=tried, expected=expected)

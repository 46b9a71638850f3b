"""A proxy serves the streams of each metadata store under a session of that store (rule PRX-24)."""

import asyncio

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.log.namespace import Namespace, create_namespace
from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    NotOwnerError,
    RhumblineError,
    UnavailableError,
)
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.membership import WRITE
from rhumbline.proxies.proxy_stores import RegionalProxyStore
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.proxy_service import ProxyService
from rhumbline.proxies.write.append_item import Appended, AppendItem
from rhumbline.proxies.write.claims import Claims
from rhumbline.tests.support.fakes.direct_calls import DirectCalls
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.proxies.proxy_world import an_item


class Region:
    """Namespace "test" in the global store and "local" in the store of east, and a proxy there."""

    def __init__(self, log: LogWorld) -> None:
        self.log = log
        assert isinstance(log.store.inner, MemoryStore)
        self.connection = log.store.inner
        """The connection to the global store."""
        self.east = MemoryStore()

    async def start(self, *, without_global: bool = False) -> "Region":
        log = self.log
        await create_namespace(self.east, log.runtime, "local", log.policy)
        for name in ("test", "local"):
            await self.namespace(name).create_stream("s")
        if without_global:
            self.connection.disconnect()
        self.service = self.new_proxy("one:1")
        await self.service.join()
        await asyncio.sleep(0.01)
        return self

    def new_proxy(self, address: str) -> ProxyService:
        return ProxyService(
            self.log.runtime,
            self.log.store,
            self.namespace,
            ProxyConfig(session_ttl_ms=1_000),
            roles=(WRITE,),
            address=address,
            region="east",
            regional=RegionalProxyStore("east", self.east, self.find_region),
            calls=DirectCalls(),
        )

    async def find_region(self, namespace: str) -> str:
        return {"local": "east", "far": "west"}.get(namespace, "")

    def namespace(self, name: str) -> Namespace:
        store: MetadataStore = self.east if name == "local" else self.log.store
        return Namespace(self.log.runtime, store, self.log.ledgers.client(), name)

    async def append(self, namespace: str, payload: bytes) -> Appended | RhumblineError:
        done: asyncio.Future[Appended | RhumblineError] = asyncio.Future()
        record_set = an_item("s", payload).record_set
        assert self.service.writes is not None
        self.service.writes.append(AppendItem(namespace, "s", record_set), done.set_result)
        return await done

    async def stop(self) -> None:
        await self.service.hand_over()
        await self.service.leave()


async def test_a_stream_is_claimed_in_the_store_of_its_namespace(log: LogWorld) -> None:
    region = await Region(log).start()
    for namespace in ("test", "local"):
        assert isinstance(await region.append(namespace, b"a"), Appended)
    for store, namespace in ((log.store, "test"), (region.east, "local")):
        claim = await Claims(store).owner(namespace, "s")
        assert claim is not None and claim.address == "one:1"
    assert await Claims(log.store).owner("local", "s") is None
    owner = region.service.unary_calls[methods.GET_OWNER]
    found = await owner(pb.GetOwnerRequest(namespace="local", stream="s"))
    assert (found.owner, found.preferred_owner) == ("one:1", "one:1")  # type: ignore[attr-defined]
    home = region.service.unary_calls[methods.SET_HOME_REGION]
    await home(pb.SetHomeRegionRequest(namespace="local", stream="s", region="east"))
    assert await Claims(region.east).home("local", "s") == "east"
    await region.stop()
    assert await Claims(region.east).owner("local", "s") is None


async def test_losing_one_session_gives_up_the_streams_of_that_store_only(log: LogWorld) -> None:
    region = await Region(log).start()
    for namespace in ("test", "local"):
        await region.append(namespace, b"a")
    writes, service = region.service.writes, region.service
    assert writes is not None
    region.connection.disconnect()
    while service.statistics()["sessions_lost"] == 0:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.1)
    assert (writes.serves("test", "s"), writes.serves("local", "s")) == (False, True)
    assert service.unready_reason() is None, "it serves the streams of its region"
    assert isinstance(await region.append("local", b"b"), Appended)
    assert (await region.namespace("local").describe("s")).epoch == 1
    region.connection.reconnect()
    while not isinstance(await region.append("test", b"b"), Appended):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    await region.stop()


async def test_a_proxy_starts_without_the_global_store_and_registers_there_later(
    log: LogWorld,
) -> None:
    region = await Region(log).start(without_global=True)
    assert region.service.unready_reason() is None
    assert isinstance(await region.append("local", b"a"), Appended)
    region.connection.reconnect()
    while not isinstance(await region.append("test", b"a"), Appended):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    await region.stop()


async def test_a_proxy_without_any_store_does_not_start(log: LogWorld) -> None:
    region = await Region(log).start()
    region.connection.disconnect()
    region.east.disconnect()
    two = region.new_proxy("two:1")
    with pytest.raises(UnavailableError, match="could not register in any metadata store"):
        await two.join()
    await two.hand_over()
    region.east.reconnect()
    region.connection.reconnect()
    await region.stop()


async def test_a_namespace_of_another_region_is_left_to_its_proxies(log: LogWorld) -> None:
    region = await Region(log).start()
    found = await region.append("far", b"a")
    assert isinstance(found, NotOwnerError)
    assert (found.owner, "region west" in str(found)) == ("", True)

    async def unavailable(_: str) -> str:
        raise MetadataUnavailableError("the test says so")

    region.service._stores._find_region = unavailable
    assert isinstance(await region.append("far", b"a"), MetadataUnavailableError)
    await region.stop()

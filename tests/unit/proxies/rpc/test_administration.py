"""Administrative calls: the preferred owner that clients call first, and what deletions leave."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rhumbline.proxies.balance.assignment_store import change_table, read_table
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.proxies.quotas.proxy_quotas import ProxyQuotas
from rhumbline.proxies.routing import stream_key
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.administration import Administration
from rhumbline.tests.support.fakes.direct_calls import DirectCalls
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld

ADDRESSES = ("one:1", "two:1", "three:1")
KEY = stream_key("test", "s")


@asynccontextmanager
async def administered(log: LogWorld) -> AsyncIterator[tuple[ProxyWorld, Administration]]:
    """Three write proxies, and the administrative calls of the first one."""
    world = ProxyWorld(log)
    await world.start(*ADDRESSES)
    await asyncio.sleep(0.1)  # until each has seen the others
    first = world.proxies["one:1"]
    yield (
        world,
        Administration(
            lambda _: log.open_namespace(),
            first.stores,
            first.writes,
            None,
            ProxyQuotas(first.stores, 1 << 20),
        ),
    )
    await world.stop()


async def test_first_call_of_a_writer_goes_to_the_proxy_to_which_its_stream_is_pinned(
    log: LogWorld,
) -> None:
    """The client computed the order without assignments, and was redirected once."""
    await log.namespace.create_stream("s")
    async with administered(log) as (world, administration):
        calls = DirectCalls({("one:1", methods.DESCRIBE_STREAM): administration.describe_stream})
        for address in ADDRESSES:
            world.proxies["one:1"].stores.first.assign({"east": {KEY: address}})
            async with (
                ProxyClient("grpc://one:1", log.runtime, calls, namespace="test") as client,
                client.writer("s"),
            ):
                assert client.channels.owner(("test", "s")) == address


async def test_a_known_owner_is_not_replaced_by_the_preferred_one(log: LogWorld) -> None:
    await log.namespace.create_stream("s")
    async with administered(log) as (_, administration):
        calls = DirectCalls({("one:1", methods.DESCRIBE_STREAM): administration.describe_stream})
        async with ProxyClient("grpc://one:1", log.runtime, calls, namespace="test") as client:
            client.channels.set_owner(("test", "s"), "elsewhere:1")
            await client.namespace().describe("s")
            assert client.channels.owner(("test", "s")) == "elsewhere:1"


async def test_deletion_removes_the_pin(log: LogWorld) -> None:
    await log.namespace.create_stream("s")
    async with administered(log) as (_, administration):
        await change_table(log.store, "east", lambda table: table.with_pin(KEY, "two:1"))
        await administration.delete_stream(pb.DeleteStreamRequest(namespace="test", stream="s"))
        assert (await read_table(log.store, "east")).table.pinned == {}

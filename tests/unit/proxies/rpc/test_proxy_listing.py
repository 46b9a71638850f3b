"""The list of proxies names the address for the region of the client."""

import asyncio

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.protocol.errors import ProtocolError
from rhumbline.proxies.membership import READ, WRITE, ProxyMembership
from rhumbline.proxies.registration import ProxyMember
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.proxy_listing import (
    ListedProxy,
    ProxyLoad,
    decode_proxies,
    encode_proxies,
)
from rhumbline.tests.support.fakes.log_world import LogWorld


async def test_each_client_gets_the_address_for_its_region(world: LogWorld) -> None:
    store = MemoryStore()
    operators = {"two:2": "two:9"}

    async def joined(
        address: str, region: str, roles: tuple[str, ...], **fields: str
    ) -> ProxyMembership:
        membership = ProxyMembership(
            store,
            world.runtime,
            roles=roles,
            address=address,
            region=region,
            session_ttl_ms=60_000,
            addresses=tuple(fields.items()),
            version="7.8",
            operator_address=operators.get(address, ""),
        )
        await membership.join()
        return membership

    one = await joined("one:1", "east", (WRITE, READ), west="link:1")
    two = await joined("two:2", "west", (READ,))
    await asyncio.sleep(0.1)  # until each has seen the other
    await two.set_accepting(False)
    await asyncio.sleep(0.1)

    def listed(viewer: str) -> list[ListedProxy]:
        loads = {"one:1": ProxyLoad(250, 3)}
        response = encode_proxies([one], viewer, lambda member: loads.get(member.address))
        assert response.region == "east"
        return list(decode_proxies(response))

    first = ProxyMember("", "one:1", "east", True, version="7.8")
    second = ProxyMember("", "two:2", "west", False, version="7.8", operator_address="two:9")
    assert listed("east") == [
        ListedProxy(first, "one:1", frozenset((WRITE, READ)), ProxyLoad(250, 3)),
        ListedProxy(second, "two:2", frozenset((READ,))),
    ]
    assert listed("") == listed("east"), "the region of the called proxy"
    assert [proxy.connect_address for proxy in listed("west")] == ["link:1", "two:2"]
    await one.leave()
    await two.leave()


def test_proxy_without_an_address_is_refused() -> None:
    response = pb.ListProxiesResponse()
    response.proxies.add(address="one:1")
    with pytest.raises(ProtocolError):
        decode_proxies(response)

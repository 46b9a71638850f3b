"""A proxy gives clients the loads that all proxies have published, from a cache."""

import asyncio

from rhumbline.backends.memory import MemoryStore
from rhumbline.proxies.balance.assignment_store import LOADS
from rhumbline.proxies.balance.load_report import LoadReport
from rhumbline.proxies.membership import WRITE, ProxyMembership
from rhumbline.proxies.proxy_stores import ProxyStore, ProxyStores
from rhumbline.proxies.rpc.proxy_listing import ProxyLoad
from rhumbline.proxies.rpc.published_loads import PublishedLoads
from rhumbline.tests.support.fakes.log_world import LogWorld


def report(member_id: str, cpu_percent: int) -> bytes:
    return LoadReport(member_id, "one:1", "east", 9.0, 3, 9.0, 9.0, cpu_percent, 0, ()).encode(1)


async def test_loads_of_registered_proxies_are_read_once_for_some_time(world: LogWorld) -> None:
    store = MemoryStore()
    membership = ProxyMembership(
        store, world.runtime, roles=(WRITE,), address="one:1", region="east", session_ttl_ms=60_000
    )
    await membership.join()
    loads = PublishedLoads(ProxyStores([ProxyStore(store, membership)]))
    member = membership.own_member
    assert (await loads.read())(member) is None, "nothing is published"
    await store.create(f"{LOADS}/east/gone", report("gone", 99))
    path = f"{LOADS}/east/{member.id}"
    await store.create(path, report(member.id, 25))
    await asyncio.sleep(6)
    assert (await loads.read())(member) == ProxyLoad(250, 3)
    await store.put(path, report(member.id, 50))
    assert (await loads.read())(member) == ProxyLoad(250, 3), "from the cache"
    await asyncio.sleep(6)
    assert (await loads.read())(member) == ProxyLoad(500, 3)
    await membership.leave()

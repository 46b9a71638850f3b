"""Members of groups through proxies: crashes of clients and proxies are noticed in time."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from rhumbline.client.topics import Topics
from rhumbline.core.log.topics.consumer_group import GroupMember
from rhumbline.core.log.topics.group_membership import GroupConfig
from rhumbline.core.log.topics.topic_writer import open_topic_writer
from rhumbline.core.protocol.errors import (
    IndeterminateError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchStreamError,
    RhumblineError,
    SessionLostError,
)
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.proxies.client.groups.group_store import ProxyGroupStore
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.served_calls import ProxyNetwork

TTL_MS = 3_000
CONFIG = GroupConfig(session_ttl_ms=TTL_MS, retry_ms=50, recheck_ms=60_000)
GROUP = "/rhumbline/namespaces/test/topics/t/groups/g"


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> float:
    """Wait for ``condition``, and return how long that took."""
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    while not condition():
        assert loop.time() - began_at < seconds, "the condition was not met"
        await asyncio.sleep(0.02)
    return loop.time() - began_at


class Program:
    """A process with a thin client and one member of the group."""

    def __init__(self, network: ProxyNetwork, *addresses: str) -> None:
        self.client: ProxyClient = network.client(*addresses)
        self.member: GroupMember
        self.seen: Counter[bytes] = Counter()
        self.tasks = Tasks()

    async def start(self) -> "Program":
        await self.client.__aenter__()
        started = asyncio.Event()
        self.tasks.spawn(self._work(started), "member")
        await started.wait()
        return self

    async def _work(self, started: asyncio.Event) -> None:
        async with Topics(self.client).join("t", "g", config=CONFIG) as self.member:
            started.set()
            while True:
                try:
                    async for delivery in self.member:
                        self.seen.update(delivery.batch.payloads())
                        await self.member.commit(delivery)
                except RhumblineError:
                    await asyncio.sleep(0.1)

    async def stop(self) -> None:
        await self.tasks.aclose()
        await self.client.aclose()


async def a_network(world: LogWorld, partitions: int = 4) -> ProxyNetwork:
    network = ProxyNetwork(world)
    await network.start("one:1", "two:1")
    async with network.client() as client:
        await Topics(client).create("t", partitions)
    return network


def shares(*programs: Program) -> list[int]:
    return sorted(len(program.member.partitions) for program in programs)


async def test_killed_proxy_moves_the_members_to_another_proxy(world: LogWorld) -> None:
    network = await a_network(world)
    first = await Program(network, "one:1", "two:1").start()
    second = await Program(network, "one:1", "two:1").start()
    await until(lambda: shares(first, second) == [2, 2])
    await network.kill("one:1")
    await asyncio.sleep(0.01)
    await until(lambda: shares(first, second) == [2, 2], 2 * TTL_MS / 1000)
    async with await open_topic_writer(world.namespace, await Topics(first.client).get("t")) as w:
        for number in range(20):
            w.append(b"%d" % number)
    await until(lambda: len(first.seen + second.seen) == 20)
    await first.stop()
    await second.stop()
    await network.stop()


async def test_silent_client_loses_its_partitions_within_its_time_out(world: LogWorld) -> None:
    network = await a_network(world)
    first = await Program(network, "one:1").start()
    second = await Program(network, "two:1").start()
    await until(lambda: shares(first, second) == [2, 2])
    network.cut.add("one:1")  # nothing reaches that proxy, and nothing is noticed on either side
    lost = asyncio.ensure_future(until(lambda: first.member.partitions == ()))
    taken = asyncio.ensure_future(until(lambda: len(second.member.partitions) == 4))
    lost_s, taken_s = await lost, await taken
    assert lost_s <= TTL_MS / 1000 * 2 / 3 + 0.1, "the member stops before others begin"
    assert lost_s < taken_s <= TTL_MS / 1000 + 0.5
    network.cut.clear()
    await until(lambda: shares(first, second) == [2, 2])
    await first.stop()
    await second.stop()
    await network.stop()


async def test_closed_client_leaves_at_once(world: LogWorld) -> None:
    network = await a_network(world)
    first = await Program(network, "one:1").start()
    second = await Program(network, "two:1").start()
    await until(lambda: shares(first, second) == [2, 2])
    await first.stop()
    assert await until(lambda: len(second.member.partitions) == 4) < 0.5
    await second.stop()
    await network.stop()


async def test_nodes_of_the_group_and_no_others(world: LogWorld) -> None:
    network = await a_network(world)
    async with network.client() as client:
        store = ProxyGroupStore(client.channels, "test", "t", "g")
        changes = 0

        def count() -> None:
            nonlocal changes
            changes += 1

        watch = store.watch(GROUP, count, prefix=True)
        session = await store.session(TTL_MS)
        member = f"{GROUP}/members/anne"
        path, version = await store.create(member, b"1", ephemeral=session)
        assert path == member
        assert await store.get(member) == (b"1", version)
        with pytest.raises(NodeExistsError):
            await store.create(member, b"2", ephemeral=session)
        later = await store.put(member, b"2", expect=version)
        assert await store.get_all([member, f"{GROUP}/members/bob"]) == [(b"2", later), None]
        assert await store.children(f"{GROUP}/members") == ["anne"]
        assert await store.children(f"{GROUP}/members", after="anne") == []
        assert not store.is_newer(later, version)
        await asyncio.sleep(0.1)
        assert changes
        for bad in ("/rhumbline/namespaces/test", f"{GROUP}/../other", f"{GROUP}//x"):
            with pytest.raises(InvalidArgumentError):
                await store.get(bad)
        with pytest.raises(InvalidArgumentError, match="4096"):
            await store.put(member, bytes(5000))
        with pytest.raises(InvalidArgumentError):
            await store.txn([])
        with pytest.raises(InvalidArgumentError):
            await store.create(member, sequential=True)
        await session.close()
        assert session.is_lost
        with pytest.raises(NoNodeError):
            await store.get(member)
        with pytest.raises(SessionLostError):
            await store.create(member, ephemeral=session)
        watch.close()
        await store.close()
    await network.stop()


async def test_lost_calls_leave_writes_unknown_and_reads_unavailable(world: LogWorld) -> None:
    network = await a_network(world)
    async with network.client() as client:
        store = ProxyGroupStore(client.channels, "test", "t", "g")
        session = await store.session(TTL_MS)
        member = f"{GROUP}/members/anne"
        await store.create(member, ephemeral=session)
        lost = asyncio.Event()
        session.on_lost(lost.set)
        network.cut.update(network.services)
        with pytest.raises(IndeterminateError):
            await store.put(member, b"2")
        assert lost.is_set()
        with pytest.raises(MetadataUnavailableError):
            await store.get(member)
        network.cut.clear()
        await asyncio.sleep(TTL_MS / 1000)
        with pytest.raises(NoNodeError):
            await store.get(member)
        await store.close()
    await network.stop()


async def test_a_topic_that_does_not_exist_has_no_group(world: LogWorld) -> None:
    network = await a_network(world)
    async with network.client() as client:
        store = ProxyGroupStore(client.channels, "test", "none", "g")
        with pytest.raises(NoSuchStreamError):
            await store.session(TTL_MS)
        store = ProxyGroupStore(client.channels, "test", "t", "g")
        with pytest.raises(InvalidArgumentError, match="session_ttl_ms 1 is not between"):
            await store.session(1)
    await network.stop()

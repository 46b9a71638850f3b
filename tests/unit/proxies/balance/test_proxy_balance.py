"""Proxies publish their load, one of them assigns streams, and the owners hand them over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rhumbline.backends.memory import MemoryStore
from rhumbline.proxies.balance.assignment_store import change_table, read_reports, read_table
from rhumbline.proxies.balance.assignments import AssignmentTable
from rhumbline.proxies.balance.proxy_balance import ProxyBalance
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.routing import stream_key
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld

CONFIG = ProxyConfig(balance_ms=1_000, balance_stay_ms=5_000)
ADDRESSES = ("one:1", "two:1", "three:1")
STREAMS = tuple(f"s{n}" for n in range(12))


class BalancedWorld(ProxyWorld):
    """Three proxies that balance their load, and streams with a producer each."""

    def __init__(self, log: LogWorld, config: ProxyConfig) -> None:
        super().__init__(log)
        self.config = config
        self.balances: dict[str, ProxyBalance] = {}
        self.acked: dict[str, list[bytes]] = {}
        self.longest_pause_s: dict[str, float] = {}

    def begin(self, address: str) -> None:
        proxy = self.proxies[address]
        balance = ProxyBalance(proxy.stores, proxy.writes, self.config, lambda: 0.0)
        self.balances[address] = balance
        balance.start()

    async def produce(self, stream: str, rate: float, seconds: float) -> None:
        """Append records at a rate; note the acknowledged ones and the longest pause."""
        loop = asyncio.get_running_loop()
        writer = self.writer(stream, self.transport())
        acked = self.acked.setdefault(stream, [])
        longest = 0.0
        for n in range(int(rate * seconds)):
            began = loop.time()
            await writer.append(b"%d" % n)
            acked.append(b"%d" % n)
            longest = max(longest, loop.time() - began)
            await asyncio.sleep(max(0.0, 1 / rate - (loop.time() - began)))
        self.longest_pause_s[stream] = longest
        await writer.close()

    def owners(self) -> dict[str, str]:
        return {
            counts.name: address
            for address, proxy in self.proxies.items()
            for counts in proxy.writes.served_streams()
        }


@asynccontextmanager
async def balanced(log: LogWorld, config: ProxyConfig = CONFIG) -> AsyncIterator[BalancedWorld]:
    world = BalancedWorld(log, config)
    for stream in STREAMS:
        await log.namespace.create_stream(stream)
    await world.start(*ADDRESSES, config=config)
    for address in ADDRESSES:
        world.begin(address)
    yield world
    for balance in world.balances.values():
        await balance.aclose()
    await world.stop()


def default_owner(world: BalancedWorld, stream: str) -> str:
    member = world.proxies["one:1"].stores.first.routing.preferred(
        stream_key("test", stream), "east"
    )
    assert member is not None
    return member.address


async def test_skewed_load_is_evened_and_no_record_is_lost_or_stored_twice(log: LogWorld) -> None:
    async with balanced(log) as world:
        default = {stream: default_owner(world, stream) for stream in STREAMS}
        hot = [stream for stream in STREAMS if default[stream] == default[STREAMS[0]]]
        assert len(hot) > 2
        with recorded_log() as lines:
            await asyncio.gather(
                *(world.produce(stream, 30 if stream in hot else 1, 12) for stream in STREAMS)
            )
        owners = world.owners()
        shares = {
            address: sum(owners[stream] == address for stream in hot) for address in ADDRESSES
        }
        assert max(shares.values()) - min(shares.values()) <= 1, shares
        moved = [stream for stream in STREAMS if owners[stream] != default[stream]]
        assert lines.events().count("streams assigned") >= 1
        assert lines.events().count("balancer elected") == 1
        statistics = [balance.statistics() for balance in world.balances.values()]
        assert sum(one["elected"] for one in statistics) == 1
        assert sum(one["moves"] for one in statistics) == len(moved), "none has moved twice"
        longest = max(world.longest_pause_s[stream] for stream in moved)
        print(f"{len(moved)} streams moved, the longest pause was {1000 * longest:.0f} ms")
        assert longest < 0.2
    for stream, acked in world.acked.items():
        assert [payload for _, payload in await world.contents(stream)] == acked


async def test_a_region_has_a_balancer_while_the_elected_proxy_drains(log: LogWorld) -> None:
    async with balanced(log) as world:
        await asyncio.sleep(3.0)
        (elected,) = [a for a, b in world.balances.items() if b.statistics()["elected"]]
        await world.proxies[elected].membership.set_accepting(False)
        await asyncio.sleep(3.0)
        assert sum(one.statistics()["elected"] for one in world.balances.values()) == 1


async def test_a_pinned_stream_moves_at_once_and_stays(log: LogWorld) -> None:
    async with balanced(log) as world:
        stream, others = STREAMS[0], [a for a in ADDRESSES if a != default_owner(world, STREAMS[0])]
        producing = asyncio.create_task(world.produce(stream, 50, 12))
        await asyncio.sleep(1.0)
        key = stream_key("test", stream)
        await change_table(log.store, "east", lambda table: table.with_pin(key, others[0]))
        await asyncio.sleep(0.2)
        assert world.owners()[stream] == others[0]
        await world.proxies[others[0]].membership.set_accepting(False)
        await asyncio.sleep(4.0)
        assert world.owners()[stream] != others[0], "a pin does not keep a proxy from draining"
        await world.proxies[others[0]].membership.set_accepting(True)
        await asyncio.sleep(4.0)
        assert world.owners()[stream] == others[0]
        await change_table(log.store, "east", lambda table: table.without_pin(key))
        await producing
        assert world.owners()[stream] == others[0], "it stays where it is"
        assert world.longest_pause_s[stream] < 0.2
    assert [payload for _, payload in await world.contents(stream)] == world.acked[stream]


async def test_the_pin_of_a_stream_that_was_deleted_without_a_proxy_is_removed(
    log: LogWorld,
) -> None:
    async with balanced(log):
        keys = [stream_key("test", stream) for stream in STREAMS[:2]]
        pinned = AssignmentTable({}, dict.fromkeys(keys, "one:1"))
        await change_table(log.store, "east", lambda _: pinned)
        await log.namespace.delete_stream(STREAMS[0])
        await asyncio.sleep(14.0)
        stored = await read_table(log.store, "east")
        assert stored.table.pinned == {keys[1]: "one:1"}


async def test_the_next_proxy_is_elected_when_the_balancer_is_lost(log: LogWorld) -> None:
    async with balanced(log) as world:
        await asyncio.sleep(3.0)
        (first,) = (a for a, one in world.balances.items() if one.statistics()["elected"])
        await world.balances.pop(first).aclose()
        await world.proxies[first].crash()
        await asyncio.sleep(3.0)
        (second,) = (a for a, one in world.balances.items() if one.statistics()["elected"])
        assert second != first
        reports = await read_reports(log.store, "east")
        assert sorted(stored.report.address for stored in reports) == sorted(world.balances)


async def test_a_steady_load_is_not_published_in_each_round(log: LogWorld) -> None:
    async with balanced(log):
        versions: dict[str, dict[str, None]] = {}
        for _ in range(24):
            await asyncio.sleep(1.0)
            for stored in await read_reports(log.store, "east"):
                versions.setdefault(stored.report.address, {})[stored.version] = None
        assert sorted(versions) == sorted(ADDRESSES)
        assert all(5 <= len(found) <= 7 for found in versions.values())


async def test_a_lost_metadata_store_is_logged_and_balancing_goes_on_afterwards(
    log: LogWorld,
) -> None:
    async with balanced(log) as world:
        await asyncio.sleep(2.0)
        key = stream_key("test", STREAMS[0])
        with recorded_log() as lines:
            assert isinstance(log.store.inner, MemoryStore)
            log.store.inner.disconnect()
            for balance in world.balances.values():
                for follower in balance._followers:
                    follower._wakeup.wake()
            await asyncio.sleep(3.0)
            log.store.inner.reconnect()
            assert {"assignments not read", "load balancing failed"} <= {*lines.events()}
        await asyncio.sleep(5.0)
        await change_table(log.store, "east", lambda table: table.with_pin(key, "one:1"))
        await asyncio.sleep(1.0)
        assert all(
            (found := proxy.stores.first.routing.preferred(key, "east")) is not None
            and found.address == "one:1"
            for proxy in world.proxies.values()
        )

"""Homes move to the region that writes most of a stream, within the limit, and are logged."""

import asyncio

from rhumbline.proxies.balance.assignment_store import change_table
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.homes.home_keeper import HomeKeeper
from rhumbline.proxies.routing import stream_key
from rhumbline.proxies.write.append_item import AppendItem
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld, an_item

STREAMS = ("s0", "s1", "s2")


def an_item_of(region: str, stream: str) -> AppendItem:
    item = an_item(stream, b"x", b"y")
    item.client_region = region
    return item


async def write(world: ProxyWorld, region: str, seconds: int) -> None:
    """Append two records per second to each stream, as clients of a region do."""
    for _ in range(seconds):
        for stream in STREAMS:
            owner = next(p for p in world.proxies.values() if p.writes.serves("test", stream))
            await world.append_ok(owner.address, an_item_of(region, stream))
        await asyncio.sleep(1)


async def started(log: LogWorld, moves_per_hour: int) -> tuple[ProxyWorld, HomeKeeper]:
    """Return a world in which a proxy of east owns the streams, and the keeper of that proxy."""
    config = ProxyConfig(
        balance_ms=0, home_window_ms=10_000, home_moves_per_hour=moves_per_hour,
        session_ttl_ms=60_000,
    )  # fmt: skip
    world = ProxyWorld(log)
    await world.start("east:1", region="east", config=config)
    await world.start("west:1", region="west", config=config)
    east = world.proxies["east:1"]
    for stream in STREAMS:
        await log.namespace.create_stream(stream)
        await east.claims.set_home("test", stream, "east")
        await world.append_ok("east:1", an_item_of("east", stream))
    return world, HomeKeeper(east.writes, config)


async def test_at_most_the_limit_of_homes_moves_and_each_move_is_logged(log: LogWorld) -> None:
    world, keeper = await started(log, moves_per_hour=2)
    with recorded_log("rhumbline.proxies.homes.home_keeper") as lines:
        keeper.start()
        await write(world, "west", 8)
        assert keeper.moved_count == 0, "the window is not over"
        await write(world, "west", 30)
    claims = world.proxies["east:1"].claims
    homes = [await claims.home("test", stream) for stream in STREAMS]
    assert sorted(homes) == ["east", "west", "west"]
    assert keeper.moved_count == 2
    assert lines.events() == ["home moved"] * 2
    fields = lines.fields("home moved")[0]
    assert "west writes" in fields.pop("reason")
    assert fields == {"namespace": "test", "stream": "s0", "home": "east", "region": "west"}
    await keeper.aclose()
    await world.stop()


async def test_homes_only_move_if_the_settings_allow_it(log: LogWorld) -> None:
    world, keeper = await started(log, moves_per_hour=0)
    keeper.start()
    await write(world, "west", 20)
    found = world.proxies["east:1"].writes.find_served("test", "s0")
    assert found is not None
    origins = await keeper.origins(found)
    assert origins.home == "east"
    assert origins.advice.region == "west", origins
    assert origins.rates["west"] > 1.5
    assert keeper.moved_count == 0
    await keeper.aclose()
    await world.stop()


async def test_a_pinned_stream_keeps_its_home(log: LogWorld) -> None:
    world, keeper = await started(log, moves_per_hour=5)
    key = stream_key("test", "s1")
    await change_table(log.store, "east", lambda table: table.with_pin(key, "east:1"))
    keeper.start()
    await write(world, "west", 30)
    claims = world.proxies["east:1"].claims
    assert [await claims.home("test", stream) for stream in STREAMS] == ["west", "east", "west"]
    await keeper.aclose()
    await world.stop()

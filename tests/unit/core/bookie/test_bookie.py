"""A bookie reports what it does, and an operator may make it read-only."""

import asyncio

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.life_cycle import BookieState
from rhumbline.core.protocol.errors import ClosedError, ConfigurationError
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


async def test_statistics_of_a_new_bookie_and_after_some_requests() -> None:
    async with one_bookie() as (_, bookie, wire):
        await wire.read(1, 0)  # the connection is made
        new = bookie.statistics()
        log_bytes = new.pop("log_bytes")
        assert log_bytes == bookie.storage.log.current.end
        assert new == {
            "bookie": bookie.bookie_id,
            "entries": 0,
            "bytes": 0,
            "syncs": 0,
            "ledgers": 0,
            "connections": 1,
            "parked_polls": 0,
            "pending_bytes": 0,
            "tail_cache_bytes": 0,
            "free_bytes": 1 << 40,
            "read_only": False,
            "registered": True,
            "sessions_lost": 0,
            "limbo": False,
            "limbo_reason": None,
            "restored_entries": 0,
            "missing_entries": 0,
            "damages": 0,
            "sealed_logs": 0,
            "sorted_files": 0,
            "sorted_bytes": 0,
            "deleted_ledgers": 0,
            "ledgers_held_back": 0,
            "repaired_entries": 0,
            "maintenance_failures": 0,
            "half_frame_bytes": 0,
            "closed": {},
            "failure": None,
        }
        for number in range(3):
            assert await wire.add(entry(1, number)) == Code.OK
        other = await Wire.connect(bookie)
        await other.read(1, 0)
        figures = bookie.statistics()
        size = len(entry(1, 0)) + 8
        assert (figures["entries"], figures["ledgers"], figures["connections"]) == (3, 1, 2)
        assert figures["bytes"] == figures["tail_cache_bytes"] >= 3 * size
        assert figures["log_bytes"] == log_bytes + figures["bytes"] + 44 * figures["syncs"]
        assert figures["syncs"] >= 3
        assert figures["pending_bytes"] == 0
        await other.aclose()


async def test_operator_makes_a_bookie_read_only_and_writable_again() -> None:
    async with one_bookie() as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        bookie.set_read_only(True)
        assert (bookie.state, bookie.is_read_only) == (BookieState.READ_ONLY, True)
        assert await wire.add(entry(1, 1)) == Code.READ_ONLY
        assert await wire.add(entry(1, 1), v2.FLAG_RECOVERY_ADD) == Code.OK
        assert bookie.statistics()["read_only"]
        bookie.set_read_only(False)
        assert not bookie.is_read_only
        assert await wire.add(entry(1, 2)) == Code.OK
        assert "writable" in bookie.story().lower()


async def test_port_is_known_while_the_bookie_listens_and_is_used_once() -> None:
    world = World()
    await world.start()
    disk = MemoryDisk()
    bookie_id = await world.format(disk)
    bookie = await Bookie.open(world.runtime, disk, BookieConfig(), world.ledgers, world.directory)
    assert (bookie.bookie_id, bookie.region, bookie.state) == (
        bookie_id,
        "east",
        BookieState.STARTING,
    )
    with pytest.raises(ClosedError):
        _ = bookie.port
    assert not bookie.statistics()["registered"]
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
        await bookie.serve("127.0.0.1", port)
    taken.close()
    await bookie.aclose()
    await bookie.aclose()
    assert bookie.state is BookieState.CLOSED
    await world.aclose()


async def test_registration_names_the_addresses_for_each_viewer() -> None:
    config = BookieConfig(
        advertised_host="bookie.example",
        advertised_addresses=(("west", "10.0.0.1:4000"), ("north", "10.0.0.2:4001")),
    )
    async with one_bookie(config) as (world, bookie, _):
        registration = await world.directory.registration(bookie.bookie_id)
        assert (registration.host, registration.port) == ("bookie.example", bookie.port)
        assert registration.free_bytes == 1 << 40
        properties = dict(registration.properties)
        assert (properties["region"], properties["rack"]) == ("east", "r1")
        values = list(properties.values())
        assert "10.0.0.1:4000" in values
        assert "10.0.0.2:4001" in values

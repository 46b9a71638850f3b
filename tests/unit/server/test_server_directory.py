"""Servers are listed while they run, again after their session was lost, and not afterwards."""

import asyncio

from rhumbline.backends.memory import MemorySession, MemoryStore
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.server.server_directory import ServerRecord, list_servers, registered_server
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log

REPAIR = ServerRecord("repair", "", "h:8284", "eu")
PROXY = ServerRecord("write-proxy", "h:4281", "h:8282", "us")


class SwitchedStore(MemoryStore):
    """A metadata store that gives no sessions while ``is_away``, and keeps those that it gave."""

    is_away = False

    def __init__(self) -> None:
        super().__init__()
        self.given: list[MemorySession] = []

    async def session(self, ttl_ms: int) -> MemorySession:
        if self.is_away:
            raise MetadataUnavailableError("the store is away")
        self.given.append(await super().session(ttl_ms))
        return self.given[-1]


async def test_servers_are_listed_while_they_run(world: LogWorld) -> None:
    store = SwitchedStore()
    assert await list_servers(store) == []
    async with (
        registered_server(store, world.runtime, PROXY),
        registered_server(store, world.runtime, REPAIR),
    ):
        await asyncio.sleep(1)
        assert await list_servers(store) == [REPAIR, PROXY]
        await store.create("/rhumbline/servers/later-version", b"unreadable")
        assert await list_servers(store) == [REPAIR, PROXY]
    assert await list_servers(store) == []


async def test_a_server_starts_without_the_store_and_registers_later(world: LogWorld) -> None:
    store = SwitchedStore()
    store.is_away = True
    with recorded_log("rhumbline.server.server_directory") as log:
        async with registered_server(store, world.runtime, REPAIR):
            await asyncio.sleep(15)
            store.is_away = False
            await asyncio.sleep(15)
            assert await list_servers(store) == [REPAIR]
            store.expire_session(store.given[-1])
            assert await list_servers(store) == []
            await asyncio.sleep(15)
            assert await list_servers(store) == [REPAIR]
    first, *_ = log.fields("server registration failed")
    assert first == {"error": "MetadataUnavailableError: the store is away"}

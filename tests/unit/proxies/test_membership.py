"""Each change of a proxy's registration has its log line."""

import asyncio

from rhumbline.backends.memory import MemorySession, MemoryStore
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.proxies.membership import WRITE, ProxyMembership
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log

PROXY = {"proxy": "one:1"}


class RefusingStore(MemoryStore):
    """A metadata store that gives no sessions while ``is_away``."""

    is_away = False

    async def session(self, ttl_ms: int) -> MemorySession:
        if self.is_away:
            raise MetadataUnavailableError("the store is away")
        return await super().session(ttl_ms)


async def test_registrations_losses_and_drains_are_logged(world: LogWorld) -> None:
    store = RefusingStore()
    membership = ProxyMembership(
        store, world.runtime, roles=(WRITE,), address="one:1", region="a", session_ttl_ms=5_000
    )
    with recorded_log("rhumbline.proxies.membership") as log:
        await membership.join()
        for is_accepting in (False, False, True, True):
            await membership.set_accepting(is_accepting)
        assert membership.session is not None
        store.is_away = True
        store.expire_session(membership.session)
        await asyncio.sleep(15)
        store.is_away = False
        await asyncio.sleep(15)
        assert membership.session is not None
        await membership.leave()
    assert log.events() == [
        "proxy registered",
        "proxy drain began",
        "proxy drain ended",
        "proxy registration lost",
        "proxy registration failed",
        "proxy registration failed",
        "proxy registered",
    ]
    assert log.fields("proxy registered") == [{**PROXY, "roles": ("write",)}] * 2
    assert log.fields("proxy drain began") == log.fields("proxy drain ended") == [PROXY]
    assert log.fields("proxy registration lost") == [PROXY]
    first, second = log.fields("proxy registration failed")
    assert first == {**PROXY, "error": "MetadataUnavailableError: the store is away"}
    assert second["dropped"] > 0, "at most one line in ten seconds"

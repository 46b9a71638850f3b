"""Tests of the memory store beyond the contract: disconnection, expiry, determinism."""

import asyncio

import pytest

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.core.protocol.errors import (
    ClosedError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NoNodeError,
    SessionLostError,
)


async def test_a_disconnected_session_expires_after_its_ttl_with_its_nodes() -> None:
    tree = MemoryTree()
    here, there = MemoryStore(tree), MemoryStore(tree)
    lost = asyncio.Event()
    session = await here.session(30)
    session.on_lost(lost.set)
    await here.create("/claim", b"me", ephemeral=session)
    here.disconnect()
    with pytest.raises(MetadataUnavailableError):
        await here.get("/claim")
    assert (await there.get("/claim")).data == b"me"
    await asyncio.wait_for(lost.wait(), 5)
    with pytest.raises(NoNodeError):
        await there.get("/claim")
    here.reconnect()
    with pytest.raises(SessionLostError):
        await here.create("/claim", ephemeral=session)


async def test_no_node_of_a_session_that_has_ended_is_stored() -> None:
    tree = MemoryTree()
    store = MemoryStore(tree)
    session = await store.session(30)
    tree.end_session(session.owner)  # at the servers; the session does not know it yet
    with pytest.raises(SessionLostError):
        await store.create("/claim", b"me", ephemeral=session)
    with pytest.raises(NoNodeError):
        await store.get("/claim")


async def test_a_reconnect_in_time_keeps_the_session_and_fires_every_watch_once() -> None:
    tree = MemoryTree()
    here, there = MemoryStore(tree), MemoryStore(tree)
    calls: list[str] = []
    here.watch("/quiet", lambda: calls.append("quiet"))
    here.watch("/busy", lambda: calls.append("busy"), prefix=True)
    session = await here.session(10_000)
    await here.create("/claim", ephemeral=session)
    here.disconnect()
    await there.create("/busy/1")
    await asyncio.sleep(0)
    assert calls == []
    here.reconnect()
    await asyncio.sleep(0)
    assert calls == ["quiet", "busy"]
    assert not session.is_lost
    assert await there.children("/") == ["busy", "claim"]


def test_the_same_calls_give_the_same_versions() -> None:
    async def run() -> list[object]:
        store = MemoryStore()
        made = [await store.create(f"/a/{i}") for i in range(3)]
        return [*made, await store.put("/a/1", b"x"), await store.get("/a/1")]

    assert asyncio.run(run()) == asyncio.run(run())


async def test_a_session_of_another_handle_is_refused_and_a_closed_store_stays_closed() -> None:
    tree = MemoryTree()
    here, there = MemoryStore(tree), MemoryStore(tree)
    session = await here.session(1000)
    with pytest.raises(InvalidArgumentError):
        await there.create("/x", ephemeral=session)
    await here.create("/x", ephemeral=session)
    await here.close()
    await here.close()
    assert await there.children("/") == []
    with pytest.raises(ClosedError):
        await here.get("/")

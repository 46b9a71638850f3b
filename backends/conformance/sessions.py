"""Checks of sessions and their ephemeral nodes."""

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from ...core.protocol.errors import (
    BadVersionError,
    InvalidArgumentError,
    NodeExistsError,
    SessionLostError,
)
from ...core.runtime.metadata_store import Check, Create, Delete, Value
from .assertions import ChangeSignal, Skipped, eventually, exists, raises

if TYPE_CHECKING:
    from .kit import World


async def an_ephemeral_node_is_a_node_until_its_session_closes(world: "World") -> None:
    """Others see it, and see it go when ``close`` has returned."""
    other = await world.another()
    session = await world.session()
    path, version = await world.store.create(world.path("a/e"), b"x", ephemeral=session)
    assert await other.get(path) == Value(b"x", version)
    await raises(NodeExistsError, other.create(path))
    version = await other.put(path, b"y", expect=version)
    assert await world.store.get(path) == Value(b"y", version)
    assert not session.is_lost
    await session.close()
    await session.close()
    assert not await exists(other, path)
    assert await exists(other, world.path("a"))


async def a_session_lives_as_long_as_its_process(world: "World") -> None:
    """For several TTLs without any call."""
    session = await world.session()
    lost = ChangeSignal()
    session.on_lost(lost.ring)
    path, _ = await world.store.create(world.path("e"), ephemeral=session)
    await asyncio.sleep(world.target.ttl_ms * 2.5 / 1000)
    assert not session.is_lost and not lost.count
    assert await exists(await world.another(), path)
    await world.store.create(world.path("f"), ephemeral=session)


async def a_closed_session_is_lost(world: "World") -> None:
    """SessionLostError for what is asked of it; nothing is written."""
    session = await world.session()
    await session.close()
    assert session.is_lost
    await raises(SessionLostError, world.store.create(world.path("e"), ephemeral=session))
    assert not await exists(world.store, world.path("e"))
    late = ChangeSignal()
    session.on_lost(late.ring)
    await late.heard("on_lost of a lost session")


async def closing_the_store_closes_its_sessions(world: "World") -> None:
    """Their nodes are gone at once, and watchers are told."""
    store = await world.another()
    path, _ = await store.create(world.path("e"), ephemeral=await world.session(store))
    bell = ChangeSignal()
    world.store.watch(path, bell.ring)
    await bell.quiet()
    await store.close()
    await bell.heard("the end of an ephemeral node")
    assert not await exists(world.store, path)


async def sessions_are_independent(world: "World") -> None:
    """Two sessions of one handle have their own nodes."""
    first, second = await world.session(), await world.session()
    await world.store.create(world.path("1"), ephemeral=first)
    await world.store.create(world.path("2"), ephemeral=second)
    await first.close()
    assert await world.store.children(world.root) == ["2"]
    assert not second.is_lost


async def a_session_serves_only_its_own_handle(world: "World") -> None:
    """InvalidArgumentError elsewhere."""
    session = await world.session()
    other = await world.another()
    await raises(InvalidArgumentError, other.create(world.path("e"), ephemeral=session))


async def an_ephemeral_node_has_no_children(world: "World") -> None:
    """InvalidArgumentError, by ``create`` and ``txn``, at any depth."""
    session = await world.session()
    path, _ = await world.store.create(world.path("e"), ephemeral=session)
    await raises(InvalidArgumentError, world.store.create(f"{path}/child"))
    await raises(InvalidArgumentError, world.store.create(f"{path}/deep/child"))
    await raises(InvalidArgumentError, world.store.txn([Create(f"{path}/child")]))
    await raises(InvalidArgumentError, world.store.txn([Check(f"{path}/child", None)]))
    assert await world.store.children(path) == []


async def a_session_leaves_the_nodes_of_others_alone(world: "World") -> None:
    """Also one that was made where its own node had been."""
    session = await world.session()
    path, version = await world.store.create(world.path("e"), b"mine", ephemeral=session)
    other = await world.another()
    await other.delete(path)
    _, theirs = await other.create(path, b"theirs")
    await raises(BadVersionError, world.store.put(path, b"", expect=version))
    await session.close()
    assert await other.get(path) == Value(b"theirs", theirs)


async def an_ephemeral_node_may_be_deleted_in_a_transaction(world: "World") -> None:
    """As any other node."""
    session = await world.session()
    path, version = await world.store.create(world.path("e"), ephemeral=session)
    await world.store.txn([Delete(path, version), Create(world.path("done"))])
    await session.close()
    assert await world.store.children(world.root) == ["done"]


async def ephemeral_nodes_can_be_sequential(world: "World") -> None:
    """As Apache BookKeeper makes its ledger ids."""
    session = await world.session()
    first, _ = await world.store.create(world.path("q/n-"), ephemeral=session, sequential=True)
    second, _ = await world.store.create(world.path("q/n-"), ephemeral=session, sequential=True)
    assert second > first
    await session.close()
    assert await world.store.children(world.path("q")) == []


async def a_killed_process_keeps_its_nodes_for_its_ttl(world: "World") -> None:
    """And not much longer; the watcher is told, and may claim the node at once."""
    holder = await _Holder.start(world, world.path("claim"))
    loop = asyncio.get_running_loop()
    try:
        bell = ChangeSignal()
        world.store.watch(world.path("claim"), bell.ring)
        await bell.quiet()
        holder.process.kill()
        killed = loop.time()
        await holder.process.wait()
        await asyncio.sleep(max(0.0, world.target.ttl_ms / 2000 - (loop.time() - killed)))
        assert await exists(world.store, world.path("claim")), "gone before its TTL"
        while await exists(world.store, world.path("claim")):
            await bell.heard("the expiry")
        await world.store.create(world.path("claim"), b"taken over")
    finally:
        await holder.aclose()


async def a_stopped_process_learns_that_its_session_is_gone(world: "World") -> None:
    """It may go on believing in it only until it hears from the store again."""
    holder = await _Holder.start(world, world.path("claim"))
    try:
        holder.process.send_signal(signal.SIGSTOP)

        async def is_gone() -> bool:
            return not await exists(world.store, world.path("claim"))

        await eventually(is_gone, "the node of a stopped process goes")
        holder.process.send_signal(signal.SIGCONT)
        assert await holder.line() == "lost"
    finally:
        await holder.aclose()


class _Holder:
    """Another process that holds an ephemeral node."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, world: "World", path: str) -> "_Holder":
        if world.target.uri is None:
            raise Skipped("this store cannot be opened by another process")
        holder = cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                f"{__package__}.session_holder",
                world.target.uri,
                path,
                str(world.target.ttl_ms),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        )
        assert await holder.line() == "held"
        return holder

    async def line(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(20):
            return (await self.process.stdout.readline()).decode().strip()

    async def aclose(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.process.wait()

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


async def an_ephemeral_node_exists_until_its_session_closes(world: "World") -> None:
    """Other handles can read and write the node until its session is closed, which removes it."""
    other = await world.open_handle()
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


async def a_session_outlives_several_ttls_while_its_process_runs(world: "World") -> None:
    """The session and its nodes outlive several TTLs without any call."""
    session = await world.session()
    lost = ChangeSignal()
    session.on_lost(lost.notify)
    path, _ = await world.store.create(world.path("e"), ephemeral=session)
    await asyncio.sleep(world.target.ttl_ms * 2.5 / 1000)
    assert not session.is_lost and not lost.count
    assert await exists(await world.open_handle(), path)
    await world.store.create(world.path("f"), ephemeral=session)


async def a_closed_session_is_lost(world: "World") -> None:
    """Calls with a closed session raise SessionLostError; a late ``on_lost`` is still called."""
    session = await world.session()
    await session.close()
    assert session.is_lost
    await raises(SessionLostError, world.store.create(world.path("e"), ephemeral=session))
    assert not await exists(world.store, world.path("e"))
    late_signal = ChangeSignal()
    session.on_lost(late_signal.notify)
    await late_signal.wait_notified("on_lost of a lost session")


async def closing_the_store_closes_its_sessions(world: "World") -> None:
    """Closing a store removes the nodes of its sessions immediately and fires their watches."""
    store = await world.open_handle()
    path, _ = await store.create(world.path("e"), ephemeral=await world.session(store))
    changes = ChangeSignal()
    world.store.watch(path, changes.notify)
    await changes.drain()
    await store.close()
    await changes.wait_notified("the end of an ephemeral node")
    assert not await exists(world.store, path)


async def a_session_ends_although_its_closing_is_cancelled(world: "World") -> None:
    """The nodes are removed after the TTL at the latest, wherever ``close`` is cancelled."""
    for turns in (1, 2, 4, 8):
        session = await world.session()
        path, _ = await world.store.create(world.path("e"), ephemeral=session)
        closing = asyncio.get_running_loop().create_task(session.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        assert session.is_lost

        async def is_removed(path: str = path) -> bool:
            return not await exists(world.store, path)

        await eventually(is_removed, "the node of a session whose closing was cancelled is removed")


async def sessions_of_one_handle_are_independent(world: "World") -> None:
    """Closing one session leaves the nodes of another session of the same handle."""
    first, second = await world.session(), await world.session()
    await world.store.create(world.path("1"), ephemeral=first)
    await world.store.create(world.path("2"), ephemeral=second)
    await first.close()
    assert await world.store.children(world.root) == ["2"]
    assert not second.is_lost


async def a_session_is_refused_by_other_handles(world: "World") -> None:
    """Another handle that is given the session raises InvalidArgumentError."""
    session = await world.session()
    other = await world.open_handle()
    await raises(InvalidArgumentError, other.create(world.path("e"), ephemeral=session))


async def an_ephemeral_node_cannot_have_children(world: "World") -> None:
    """``create`` and ``txn`` of a child at any depth raise InvalidArgumentError."""
    session = await world.session()
    path, _ = await world.store.create(world.path("e"), ephemeral=session)
    await raises(InvalidArgumentError, world.store.create(f"{path}/child"))
    await raises(InvalidArgumentError, world.store.create(f"{path}/deep/child"))
    await raises(InvalidArgumentError, world.store.txn([Create(f"{path}/child")]))
    await raises(InvalidArgumentError, world.store.txn([Check(f"{path}/child", None)]))
    assert await world.store.children(path) == []


async def closing_a_session_removes_only_its_own_nodes(world: "World") -> None:
    """A node that another handle created in place of a deleted ephemeral node is kept."""
    session = await world.session()
    path, version = await world.store.create(world.path("e"), b"mine", ephemeral=session)
    other = await world.open_handle()
    await other.delete(path)
    _, other_version = await other.create(path, b"theirs")
    await raises(BadVersionError, world.store.put(path, b"", expect=version))
    await session.close()
    assert await other.get(path) == Value(b"theirs", other_version)


async def an_ephemeral_node_may_be_deleted_in_a_transaction(world: "World") -> None:
    """An ephemeral node can be deleted by ``txn`` like any other node."""
    session = await world.session()
    path, version = await world.store.create(world.path("e"), ephemeral=session)
    await world.store.txn([Delete(path, version), Create(world.path("done"))])
    await session.close()
    assert await world.store.children(world.root) == ["done"]


async def ephemeral_nodes_can_be_sequential(world: "World") -> None:
    """A node may be both ephemeral and sequential, as Apache BookKeeper's ledger ids are."""
    session = await world.session()
    first, _ = await world.store.create(world.path("q/n-"), ephemeral=session, sequential=True)
    second, _ = await world.store.create(world.path("q/n-"), ephemeral=session, sequential=True)
    assert second > first
    await session.close()
    assert await world.store.children(world.path("q")) == []


async def ephemeral_nodes_of_a_killed_process_last_for_their_ttl(world: "World") -> None:
    """The nodes exist for at least half the TTL; then watches fire and the path is free again."""
    holder = await _Holder.start(world, world.path("claim"))
    loop = asyncio.get_running_loop()
    try:
        changes = ChangeSignal()
        world.store.watch(world.path("claim"), changes.notify)
        await changes.drain()
        holder.process.kill()
        killed = loop.time()
        await holder.process.wait()
        await asyncio.sleep(max(0.0, world.target.ttl_ms / 2000 - (loop.time() - killed)))
        assert await exists(world.store, world.path("claim")), "the node was removed before its TTL"
        while await exists(world.store, world.path("claim")):
            await changes.wait_notified("the expiry")
        await world.store.create(world.path("claim"), b"taken over")
    finally:
        await holder.aclose()


async def a_stopped_process_learns_that_its_session_expired(world: "World") -> None:
    """``on_lost`` is called as soon as the process is in contact with the store again."""
    holder = await _Holder.start(world, world.path("claim"))
    try:
        holder.process.send_signal(signal.SIGSTOP)

        async def is_removed() -> bool:
            return not await exists(world.store, world.path("claim"))

        await eventually(is_removed, "the node of a stopped process is removed")
        holder.process.send_signal(signal.SIGCONT)
        assert await holder.line() == "lost"
    finally:
        await holder.aclose()


class _Holder:
    """Another process that holds an ephemeral node (``session_holder``)."""

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

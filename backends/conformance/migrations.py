"""Checks of what a migration needs: the fence, scans and loads.

They close the fence of the whole store, so nothing else may use it meanwhile.
"""

import asyncio
import os
from typing import TYPE_CHECKING

from ...core.protocol.errors import StoreFencedError
from ...core.runtime.metadata_store import Create
from ..migration import Migration, MigrationEnd, check_equal, scan
from ..migration_fence import FenceState
from ..open_store import open_without_following
from .assertions import ChangeSignal, raises

if TYPE_CHECKING:
    from .kit import World

_SEQUENCE = 2_000


async def every_write_and_current_read_obeys_the_fence(world: "World") -> None:
    """This holds for handles opened before and after the fence was closed."""
    n, q, m, none = (world.path(name) for name in ("n", "q", "m", "none"))
    old, mover = await world.open_directly(), await world.open_directly()
    await old.create(n, b"before")
    await old.create(f"{q}/a-", sequential=True)
    changes = ChangeSignal()
    old.watch_fence(changes.notify)
    await changes.drain()
    fence = await mover.fence_state()
    closed = FenceState(fence.epoch, fence.tree, "memory:elsewhere", "me")
    assert await mover.swap_fence(fence, closed)
    try:
        assert not await mover.swap_fence(fence, closed)
        await changes.wait_notified("the fence was closed")
        fresh = await world.open_directly()
        for handle in (old, fresh, mover):
            for attempt in (
                handle.get(n), handle.get(none), handle.get("/"), handle.children(q),
                handle.put(n, b""), handle.put(none, b""), handle.create(m),
                handle.create(f"{q}/a-", sequential=True), handle.delete(n),
                handle.txn([Create(m)]), handle.session(2_000),
            ):  # fmt: skip
                await raises(StoreFencedError, attempt)
            assert (await handle.get(n, stale_ok=True)).data == b"before"
            assert await handle.fence_state() == closed
        other = FenceState(fence.epoch, fence.tree, "memory:elsewhere", "another attempt")
        await raises(StoreFencedError, mover.load([Create(m)], {}, other))
        await mover.load([Create(m, b"loaded")], {q: _SEQUENCE, world.root: 7}, closed)
        found = await scan(mover)
        assert found[m].data == b"loaded"
        assert found[q].sequence >= _SEQUENCE
        before = (await old.get(n, stale_ok=True)).version
    finally:
        opened = FenceState(os.urandom(8).hex(), fence.tree)
        assert await mover.swap_fence(closed, opened)
    for handle in (old, fresh):
        value = await handle.get(n)
        assert value.data == b"before"
        assert value.version != before, "a new epoch gives every node a new version"
        await handle.put(n, b"before", expect=value.version)
        path, _ = await handle.create(f"{q}/a-", sequential=True)
        assert int(path[-10:]) >= _SEQUENCE
    check_equal(await scan(old), await scan(fresh))


async def a_migration_away_and_back_keeps_everything(world: "World") -> None:
    """Nodes and sequence numbers return; ephemeral nodes do not, and watches fire."""
    store = await world.open_directly()
    away_uri = f"memory:{os.urandom(8).hex()}"
    away = await open_without_following(away_uri)
    home_uri = world.target.uri or "memory:unused"
    odd, numbered = world.path("-odd.name!/~/Ωμέγα"), world.path("numbered")
    await store.create(odd, b"\x00\xff" * 40_000)
    path, _ = await store.create(f"{numbered}/x-", sequential=True)
    session = await world.session(store)
    await store.create(world.path("claim"), ephemeral=session)
    changes = ChangeSignal()
    store.watch_fence(changes.notify)
    await changes.drain()
    try:
        home, target = MigrationEnd(store, home_uri), MigrationEnd(away, away_uri)
        await Migration(home, target).run()
        await changes.wait_notified("the store was replaced")
        assert (await away.get(odd)).data == b"\x00\xff" * 40_000
        await away.create(world.path("added"), b"away")
        await Migration(target, home).run()
    finally:
        await away.close()
    assert (await store.get(odd)).data == b"\x00\xff" * 40_000
    assert (await store.get(world.path("added"))).data == b"away"
    assert "claim" not in await store.children(world.root)
    again, _ = await store.create(f"{numbered}/x-", sequential=True)
    assert again > path
    async with asyncio.timeout(10):
        assert (await world.store.get(world.path("added"))).data == b"away"

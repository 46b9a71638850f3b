"""Checks of watches: a hint may be late or repeated, but is never missing."""

import asyncio
from typing import TYPE_CHECKING

from ...core.runtime.metadata_store import Create, Delete, Put
from .assertions import ChangeSignal

if TYPE_CHECKING:
    from .kit import World


async def a_watch_fires_for_every_kind_of_change(world: "World") -> None:
    """A watch fires after creation, change, deletion and another creation, by any handle."""
    path = world.path("deep/down/a")
    other = await world.open_handle()
    for writer in (other, world.store):
        changes = ChangeSignal()
        watch = world.store.watch(path, changes.notify)
        await changes.drain()
        await writer.create(path)
        await changes.wait_notified("creation")
        await changes.drain()
        await writer.put(path, b"x")
        await changes.wait_notified("change")
        await changes.drain()
        await writer.txn([Delete(path)])
        await changes.wait_notified("deletion")
        await changes.drain()
        await writer.txn([Create(path)])
        await changes.wait_notified("creation again")
        watch.close()
        await writer.delete(path)


async def a_prefix_watch_fires_for_the_whole_subtree(world: "World") -> None:
    """A prefix watch fires after changes of the node itself and of any node below it."""
    other = await world.open_handle()
    await other.create(world.path("a"))
    changes = ChangeSignal()
    world.store.watch(world.path("a"), changes.notify, prefix=True)
    for what, change in [
        ("creation of a child", other.create(world.path("a/b"))),
        ("creation of a grandchild", other.create(world.path("a/b/c"))),
        ("change of the grandchild", other.put(world.path("a/b/c"), b"x")),
        ("deletion of the grandchild", other.delete(world.path("a/b/c"))),
        ("change of the node itself", other.put(world.path("a"), b"x")),
    ]:
        await changes.drain()
        await change
        await changes.wait_notified(what)


async def a_watch_ignores_changes_of_other_nodes(world: "World") -> None:
    """A watch ignores changes of siblings, children, and nodes whose names share a prefix."""
    other = await world.open_handle()
    await other.txn([Create(world.path("a")), Create(world.path("ab")), Create(world.path("b"))])
    node, prefix = ChangeSignal(), ChangeSignal()
    world.store.watch(world.path("a"), node.notify)
    world.store.watch(world.path("b"), prefix.notify, prefix=True)
    await node.drain()
    await prefix.drain()
    before = node.count, prefix.count
    for number in range(5):
        await other.put(world.path("ab"), b"%d" % number)
        await other.create(world.path(f"a/{number}"))
        await other.create(world.path(f"b-{number}/x"))
    await node.drain()
    assert (node.count, prefix.count) == before


async def a_closed_watch_does_not_fire(world: "World") -> None:
    """No call happens after ``close`` returned, even if one was due; ``close`` may be repeated."""
    path, _ = await world.store.create(world.path("a"))
    changes, kept = ChangeSignal(), ChangeSignal()
    watch = world.store.watch(path, changes.notify)
    world.store.watch(path, kept.notify)
    await changes.drain()
    await kept.drain()
    await world.store.put(path, b"x")
    watch.close()
    watch.close()
    before = changes.count
    await kept.wait_notified("the other watch")
    await world.store.put(path, b"y")
    await kept.wait_notified("the other watch again")
    await changes.drain()
    assert changes.count == before


async def a_change_after_watch_and_get_is_never_missed(world: "World") -> None:
    """A reader that reads whenever its watch fires sees the last value of a busy node."""
    path, _ = await world.store.create(world.path("a"), b"0")
    other = await world.open_handle()
    for round_ in range(5):
        changes = ChangeSignal()
        watch = world.store.watch(path, changes.notify)
        last = b"%d-19" % round_

        async def write(round_: int = round_) -> None:
            for number in range(20):
                await other.put(path, b"%d-%d" % (round_, number))

        writing = asyncio.create_task(write())
        while (await world.store.get(path)).data != last:
            await changes.wait_notified(f"a change up to {last!r}")
        await writing
        watch.close()


async def a_reader_woken_by_a_write_sees_earlier_writes(world: "World") -> None:
    """A reader woken by the second of two writes also reads the first one."""
    other = await world.open_handle()
    a, b = world.path("a"), world.path("b")
    await other.txn([Create(a, b"0"), Create(b, b"0")])
    changes = ChangeSignal()
    world.store.watch(b, changes.notify)
    for number in range(1, 15):
        await other.put(a, b"%d" % number)
        await other.txn([Put(b, b"%d" % number)])
        while int((await world.store.get(b)).data) < number:
            await changes.wait_notified("the second write")
        assert int((await world.store.get(a)).data) == number


async def a_callback_may_close_and_set_watches(world: "World") -> None:
    """A callback may close its own watch and set another one, which fires too."""
    path, _ = await world.store.create(world.path("a"))
    second = ChangeSignal()

    def turn() -> None:
        first.close()
        world.store.watch(path, second.notify)

    first = world.store.watch(path, turn)
    other = await world.open_handle()
    writing = True

    async def write() -> None:
        number = 0
        while writing:
            await other.put(path, b"%d" % (number := number + 1))
            await asyncio.sleep(0.02)

    task = asyncio.create_task(write())
    await second.wait_notified("the watch that a callback set")
    writing = False
    await task


async def each_of_many_watches_fires(world: "World") -> None:
    """If 200 watched nodes change, all 200 watches fire."""
    paths = [world.path(f"n/{number}") for number in range(200)]
    signals = [ChangeSignal() for _ in paths]
    for path, changes in zip(paths, signals, strict=True):
        world.store.watch(path, changes.notify)
    await signals[-1].drain()
    other = await world.open_handle()
    before = [changes.count for changes in signals]
    for start in range(0, len(paths), 50):
        await other.txn([Create(path) for path in paths[start : start + 50]])
    for changes, count in zip(signals, before, strict=True):
        while changes.count == count:
            await changes.wait_notified("creation of one of 200 watched nodes")

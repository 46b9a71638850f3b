"""Checks of watches: hints that may come late or twice, but come."""

import asyncio
from typing import TYPE_CHECKING

from ...core.runtime.metadata_store import Create, Delete, Put
from .assertions import ChangeSignal

if TYPE_CHECKING:
    from .kit import World


async def a_watch_fires_for_all_that_happens_to_its_node(world: "World") -> None:
    """Creation, change, deletion and creation again; by another handle and by the own one."""
    path = world.path("deep/down/a")
    other = await world.another()
    for writer in (other, world.store):
        bell = ChangeSignal()
        watch = world.store.watch(path, bell.ring)
        await bell.quiet()
        await writer.create(path)
        await bell.heard("creation")
        await bell.quiet()
        await writer.put(path, b"x")
        await bell.heard("change")
        await bell.quiet()
        await writer.txn([Delete(path)])
        await bell.heard("deletion")
        await bell.quiet()
        await writer.txn([Create(path)])
        await bell.heard("creation again")
        watch.close()
        await writer.delete(path)


async def a_prefix_watch_fires_for_the_whole_subtree(world: "World") -> None:
    """For the node itself and any node below it."""
    other = await world.another()
    await other.create(world.path("a"))
    bell = ChangeSignal()
    world.store.watch(world.path("a"), bell.ring, prefix=True)
    for what, change in [
        ("a child", other.create(world.path("a/b"))),
        ("a grandchild", other.create(world.path("a/b/c"))),
        ("its change", other.put(world.path("a/b/c"), b"x")),
        ("its deletion", other.delete(world.path("a/b/c"))),
        ("the node itself", other.put(world.path("a"), b"x")),
    ]:
        await bell.quiet()
        await change
        await bell.heard(what)


async def a_watch_is_not_woken_by_others_for_ever(world: "World") -> None:
    """Changes of siblings, of children, and below names that only begin alike, are not its own."""
    other = await world.another()
    await other.txn([Create(world.path("a")), Create(world.path("ab")), Create(world.path("b"))])
    node, prefix = ChangeSignal(), ChangeSignal()
    world.store.watch(world.path("a"), node.ring)
    world.store.watch(world.path("b"), prefix.ring, prefix=True)
    await node.quiet()
    await prefix.quiet()
    before = node.count, prefix.count
    for number in range(5):
        await other.put(world.path("ab"), b"%d" % number)
        await other.create(world.path(f"a/{number}"))
        await other.create(world.path(f"b-{number}/x"))
    await node.quiet()
    assert (node.count, prefix.count) == before


async def a_closed_watch_is_silent(world: "World") -> None:
    """From the moment that ``close`` returns, also if a call was due."""
    path, _ = await world.store.create(world.path("a"))
    bell, kept = ChangeSignal(), ChangeSignal()
    watch = world.store.watch(path, bell.ring)
    world.store.watch(path, kept.ring)
    await bell.quiet()
    await kept.quiet()
    await world.store.put(path, b"x")
    watch.close()
    watch.close()
    before = bell.count
    await kept.heard("the other watch")
    await world.store.put(path, b"y")
    await kept.heard("the other watch again")
    await bell.quiet()
    assert bell.count == before


async def what_changes_after_watch_and_get_is_never_missed(world: "World") -> None:
    """A reader that sleeps on its watch sees the last value of a busy node."""
    path, _ = await world.store.create(world.path("a"), b"0")
    other = await world.another()
    for round_ in range(5):
        bell = ChangeSignal()
        watch = world.store.watch(path, bell.ring)
        last = b"%d-19" % round_

        async def write(round_: int = round_) -> None:
            for number in range(20):
                await other.put(path, b"%d-%d" % (round_, number))

        writing = asyncio.create_task(write())
        while (await world.store.get(path)).data != last:
            await bell.heard(f"the way to {last!r}")
        await writing
        watch.close()


async def a_woken_reader_sees_what_was_written_before(world: "World") -> None:
    """Who is woken by the second of two writes reads the first one as well."""
    other = await world.another()
    a, b = world.path("a"), world.path("b")
    await other.txn([Create(a, b"0"), Create(b, b"0")])
    bell = ChangeSignal()
    world.store.watch(b, bell.ring)
    for number in range(1, 15):
        await other.put(a, b"%d" % number)
        await other.txn([Put(b, b"%d" % number)])
        while int((await world.store.get(b)).data) < number:
            await bell.heard("the second write")
        assert int((await world.store.get(a)).data) == number


async def a_callback_may_use_the_store(world: "World") -> None:
    """It may close its own watch and set others."""
    path, _ = await world.store.create(world.path("a"))
    second = ChangeSignal()

    def turn() -> None:
        first.close()
        world.store.watch(path, second.ring)

    first = world.store.watch(path, turn)
    other = await world.another()
    writing = True

    async def write() -> None:
        number = 0
        while writing:
            await other.put(path, b"%d" % (number := number + 1))
            await asyncio.sleep(0.02)

    task = asyncio.create_task(write())
    await second.heard("the watch that a callback set")
    writing = False
    await task


async def many_watches_cost_one_change_each_their_own(world: "World") -> None:
    """Two hundred nodes watched: all fire when all change."""
    paths = [world.path(f"n/{number}") for number in range(200)]
    bells = [ChangeSignal() for _ in paths]
    for path, bell in zip(paths, bells, strict=True):
        world.store.watch(path, bell.ring)
    await bells[-1].quiet()
    other = await world.another()
    before = [bell.count for bell in bells]
    for start in range(0, len(paths), 50):
        await other.txn([Create(path) for path in paths[start : start + 50]])
    for bell, count in zip(bells, before, strict=True):
        while bell.count == count:
            await bell.heard("one of many")

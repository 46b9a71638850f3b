"""Checks of concurrent calls through several handles."""

import asyncio
from typing import TYPE_CHECKING

from ...core.protocol.errors import (
    BadVersionError,
    IndeterminateError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from ...core.runtime.metadata_store import Check, Create, MetadataStore, Put
from ...core.runtime.tasks import run_all
from .assertions import exists, raises

if TYPE_CHECKING:
    from .kit import World

HANDLES = 3


async def no_increment_is_lost(world: "World") -> None:
    """A counter incremented by concurrent compare-and-sets equals the number of successes."""
    path, _ = await world.store.create(world.path("counter"), b"0")

    async def increment(store: MetadataStore, times: int) -> int:
        done = 0
        while done < times:
            value = await store.get(path)
            try:
                await store.put(path, b"%d" % (int(value.data) + 1), expect=value.version)
            except BadVersionError:
                continue
            done += 1
        return done

    handles = await _handles(world)
    done = await run_all([increment(store, 10) for store in handles * 2], "increments")
    assert int((await world.store.get(path)).data) == sum(done)


async def refused_writes_affect_no_concurrent_ones(world: "World") -> None:
    """A refused write fails alone, even if others are stored in the same transaction."""
    session = await world.session()
    store, leaf = world.store, world.path("leaf")
    await store.create(leaf, ephemeral=session)
    undone, missing = Create(world.path("undone")), world.path("missing")

    async def write(number: int) -> None:
        await store.create(world.path(f"done-{number}"))

    works = []
    for number in range(0, 20, 4):
        works += [
            write(number),
            raises(InvalidArgumentError, store.create(f"{leaf}/child")),
            write(number + 1),
            raises(NodeExistsError, store.create(leaf)),
            write(number + 2),
            raises(NodeExistsError, store.txn([undone, Check(leaf, None)])),
            write(number + 3),
            raises(NoNodeError, store.delete(missing)),
        ]
    await run_all(works, "writes")
    names = await store.children(world.root)
    assert names == sorted(["leaf", *(f"done-{number}" for number in range(20))])


async def exactly_one_of_concurrent_creates_succeeds(world: "World") -> None:
    """One concurrent create succeeds and writes its data; the others raise NodeExistsError."""
    handles = await _handles(world)
    for attempt in range(5):
        path = world.path(f"claim-{attempt}/leaf")

        async def claim(store: MetadataStore, token: bytes, path: str = path) -> bytes | None:
            try:
                await store.create(path, token)
            except NodeExistsError:
                return None
            return token

        claims = [claim(store, b"%d" % n) for n, store in enumerate(handles * 3)]
        winners = [token for token in await run_all(claims, "claims") if token is not None]
        assert len(winners) == 1, winners
        assert (await world.store.get(path)).data == winners[0]


async def concurrent_sequential_names_are_unique(world: "World") -> None:
    """No name is used twice, even if its node was deleted; each caller's names increase."""
    handles = await _handles(world)

    async def take(store: MetadataStore, count: int) -> list[str]:
        taken = []
        for _ in range(count):
            path, _ = await store.create(world.path("ids/ID-"), sequential=True)
            taken.append(path)
            await store.delete(path)
        return taken

    taken = await run_all([take(store, 10) for store in handles * 2], "ids")
    for own in taken:
        assert own == sorted(own)
    names = [path for own in taken for path in own]
    assert len(names) == len(set(names))


async def a_transaction_is_never_seen_partially(world: "World") -> None:
    """A reader never sees only some of the writes of a transaction."""
    a, b = world.path("a"), world.path("b")
    await world.store.txn([Create(a, b"0"), Create(b, b"0")])
    writer, reader, _ = await _handles(world)
    agreed = 0

    async def write() -> None:
        for number in range(1, 30):
            await writer.txn([Put(a, b"%d" % number), Put(b, b"%d" % number)])

    writing = asyncio.create_task(write())
    while not writing.done() or not agreed:
        await asyncio.sleep(0)
        left, right = await reader.get(a), await reader.get(b)
        assert int(left.data) <= int(right.data), "a later read returned an earlier value"
        try:
            await reader.txn([Check(a, left.version), Check(b, right.version)])
        except BadVersionError:
            continue
        assert left.data == right.data
        agreed += 1
    await writing


async def a_read_sees_every_acknowledged_write(world: "World") -> None:
    """Reads are linearizable, also through other handles than the writer's."""
    path, _ = await world.store.create(world.path("a"), b"0")
    handles = await _handles(world)
    for number in range(1, 21):
        await handles[number % HANDLES].put(path, b"%d" % number)
        for store in handles:
            assert int((await store.get(path)).data) == number


async def a_parent_with_a_child_is_never_deleted(world: "World") -> None:
    """A child exists after its ``create``, whatever concurrent ``delete`` its parent receives."""
    handles = await _handles(world)
    parent = world.path("p")

    async def make(store: MetadataStore, name: str) -> None:
        for _ in range(8):
            await store.create(f"{parent}/{name}")
            assert await exists(store, f"{parent}/{name}")
            await store.delete(f"{parent}/{name}")

    async def remove(store: MetadataStore) -> None:
        for _ in range(25):
            try:
                await store.delete(parent)
            except (NoNodeError, NotEmptyError):
                await asyncio.sleep(0)

    await run_all([make(handles[0], "x"), make(handles[1], "y"), remove(handles[2])], "parents")


async def a_stale_version_never_matches_a_new_node(world: "World") -> None:
    """A compare-and-set never succeeds on a node that was deleted and created again meanwhile."""
    path = world.path("a")
    writer, racer, _ = await _handles(world)

    async def churn() -> None:
        for number in range(30):
            _, version = await writer.create(path, b"life %d" % number)
            await asyncio.sleep(0)
            await writer.delete(path)
            assert version is not None

    churning = asyncio.create_task(churn())
    while not churning.done():
        try:
            value = await racer.get(path)
            await asyncio.sleep(0)
            version = await racer.put(path, value.data + b", touched", expect=value.version)
            seen = await racer.get(path)
        except (NoNodeError, BadVersionError):
            await asyncio.sleep(0)
            continue
        if seen.version == version:
            assert seen.data == value.data + b", touched"
    await churning


async def a_cancelled_call_does_not_affect_other_calls(world: "World") -> None:
    """A cancelled call has an unknown outcome; the handle stays usable."""
    for number in range(10):
        doomed = asyncio.create_task(world.store.create(world.path(f"c{number}")))
        for _ in range(number):
            await asyncio.sleep(0)
        doomed.cancel()
        try:
            await doomed
        except (asyncio.CancelledError, IndeterminateError, MetadataUnavailableError):
            continue
    await world.store.create(world.path("after"), b"fine")
    assert (await world.store.get(world.path("after"))).data == b"fine"


async def _handles(world: "World") -> list[MetadataStore]:
    return [await world.open_handle() for _ in range(HANDLES)]

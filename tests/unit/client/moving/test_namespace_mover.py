"""A namespace moves between two metadata stores, also if the mover is killed at any request."""

import asyncio
import os
from contextlib import suppress
from dataclasses import replace

import pytest

from rhumbline.backends.migration import MigrationError
from rhumbline.client.moving.namespace_mover import MoveOutcome
from rhumbline.core.log.metadata.stream_metadata import MOVE
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    InvalidArgumentError,
    NamespaceMovingError,
    NoSuchNamespaceError,
    RecoveryIncompleteError,
    RhumblineError,
)
from rhumbline.core.protocol.ledger_metadata import MOVING_KEY
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.move_world import (
    BOOKIES,
    EAST,
    NAME,
    MoverKilled,
    MoveWorld,
)

pytestmark = pytest.mark.run_by(runner=run_jumping)

POLICY = StreamPolicy(quorum=Quorum(3, 3, 2, 1), purge_grace_ms=0)
BOTH = pytest.mark.parametrize("target", [None, EAST], ids=["to-global", "to-east"])


def source_of(target: Region | None) -> Region | None:
    return EAST if target is None else None


async def fill(namespace: Namespace, stream: str, *batches: list[bytes]) -> None:
    """Append each batch in a session of its own, so that each has a segment."""
    for batch in batches:
        async with await namespace.open_writer(stream) as writer:
            for payload in batch:
                await writer.append(payload)


async def read(namespace: Namespace, stream: str, count: int) -> list[bytes]:
    async with await namespace.open_reader(stream, EARLIEST) as reader:
        return [bytes((await asyncio.wait_for(anext(reader), 30)).payload) for _ in range(count)]


async def filled(target: Region | None) -> MoveWorld:
    """Return a world with two streams, whose last writer has died."""
    world = await MoveWorld().start(source_of(target), POLICY)
    namespace = world.namespace(EAST)
    for stream in ("a", "b"):
        await namespace.create_stream(stream)
    await fill(namespace, "a", [b"1", b"2"], [b"3"])
    writer = await namespace.open_writer("a")
    await writer.append(b"4")
    await writer.abort()
    await fill(namespace, "b", [b"x"])
    await namespace.subscriptions.create("a", "app", Dlsn(1, 1, 0))
    return world


async def check_moved(world: MoveWorld, target: Region | None) -> None:
    """Verify that everything is in the target and nothing else in the source."""
    for region in (EAST, None):
        found = await world.namespaces(region).find(NAME)
        assert found.store_region == target
        namespace = world.namespace(region)
        assert await namespace.streams() == ["a", "b"]
        assert await read(namespace, "a", 4) == [b"1", b"2", b"3", b"4"]
        assert await read(namespace, "b", 1) == [b"x"]
        assert (await namespace.subscriptions.read("a", "app")).position == Dlsn(1, 1, 0)
    source = world.stores[source_of(target)]
    with pytest.raises(NoSuchNamespaceError):
        await Namespace(world.runtime, source.store, source.ledgers, NAME).policy()
    assert await below(source.store, f"/rhumbline/namespaces/{NAME}") == []
    assert await check_ledgers(world, target) > 0


async def check_ledgers(world: MoveWorld, region: Region | None) -> int:
    """Verify that the ledgers of the streams are in the store of ``region`` only, unmarked."""
    live = await world.live_ledgers()
    for ledger_id in live:
        metadata, _ = await world.stores[region].ledger_store.read(ledger_id)
        assert MOVING_KEY not in metadata.custom
        assert ledger_id not in await world.stores[source_of(region)].ledger_store.ids()
    for view in (EAST, None):
        assert not {*live} & {*await world.collect(world.bookie_metadata(view))}
    return len(live)


async def below(store: MetadataStore, path: str) -> list[str]:
    try:
        return await store.children(path)
    except RhumblineError:
        return []


async def write_after(world: MoveWorld) -> None:
    """Verify that the streams are written, truncated and collected as usual."""
    namespace = world.namespace(EAST)
    await fill(namespace, "a", [b"5"], [b"6"])
    assert await read(namespace, "a", 6) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    before = await world.live_ledgers()
    for _ in range(2):
        await namespace.truncate("a", Dlsn(4, 0, 0))
        await namespace.maintain("a")
    purged = {*before} - {*await world.live_ledgers()}
    assert len(purged) == 3
    assert purged <= {*await world.collect(world.bookie_metadata(EAST))}
    await check_ledgers(world, (await world.namespaces(EAST).find(NAME)).store_region)
    await namespace.create_stream("c")
    await namespace.delete_stream("c")


@BOTH
async def test_a_namespace_is_moved_with_everything_in_it(target: Region | None) -> None:
    world = await filled(target)
    outcome = await world.mover(target).run()
    assert (outcome.streams, outcome.ledgers) == (2, 4)
    await check_moved(world, target)
    await write_after(world)


@BOTH
async def test_a_namespace_moves_back_and_forth(target: Region | None) -> None:
    world = await filled(target)
    for end in (target, source_of(target), target, source_of(target)):
        await world.mover(end).run()
        await check_moved(world, end)
    await write_after(world)


@BOTH
async def test_a_repeated_move_changes_nothing(target: Region | None) -> None:
    world = await filled(target)
    await world.mover(target).run()
    await world.mover(target).run()
    await check_moved(world, target)
    with pytest.raises(MigrationError, match="is committed"):
        await world.mover(target).abort()


KINDS = ("before", "after", "late")


async def killed_world(target: Region | None, at: int, kind: str) -> MoveWorld | None:
    """Return a world in which a mover was killed; None if it was done before that request."""
    world = await filled(target)
    world.kill_at, world.kills_after, world.is_late = at, kind == "after", kind == "late"
    with suppress(MoverKilled, MigrationError):
        await world.mover(target).run()
        return None
    assert world.is_killed
    return world


def points(kind: str) -> range:
    """Return the requests at which movers are killed: others for each kind.

    RHUMBLINE_MOVE_STEP=3 covers all of them.
    """
    step = int(os.environ.get("RHUMBLINE_MOVE_STEP", "20"))
    return range(KINDS.index(kind), 100_000, step)


@pytest.mark.parametrize("kind", KINDS)
@BOTH
async def test_a_killed_move_is_continued(target: Region | None, kind: str) -> None:
    for at in points(kind):
        world = await killed_world(target, at, kind)
        if world is None:
            print(f"{at} requests")
            return
        live = await world.live_ledgers()
        for view in (EAST, None):
            assert not {*live} & {*await world.collect(world.bookie_metadata(view))}
        await world.mover(target).run()
        await world.deliver()
        await check_moved(world, target)
        if at % 5 == 0:
            await write_after(world)


@pytest.mark.parametrize("kind", KINDS)
@BOTH
async def test_a_killed_move_is_rolled_back_unless_it_is_committed(
    target: Region | None, kind: str
) -> None:
    is_committed = False
    for at in points(kind):
        world = await killed_world(target, at, kind)
        if world is None:
            assert is_committed
            return
        try:
            await world.mover(target).abort()
        except MigrationError as error:
            assert "is committed" in str(error)
            is_committed = True
            continue
        assert not is_committed, "after the commit there is no way back"
        await world.deliver()
        await world.namespace(EAST).take_over("a")  # if the mover had not come so far
        await check_moved(world, source_of(target))
        if at % 5 == 0:
            await write_after(world)
            await world.mover(target).run()
            assert (await world.namespaces(None).find(NAME)).store_region == target


@BOTH
async def test_nothing_changes_while_a_namespace_moves(target: Region | None) -> None:
    world = await filled(target)
    namespace = world.namespace(EAST)
    writer = await namespace.open_writer("b")
    world.kill_at = 60
    with pytest.raises((MoverKilled, MigrationError)):
        await world.mover(target).run()
    streams, subscription = namespace, await namespace.subscriptions.read("a", "app")
    head = await world.stores[source_of(target)].store.get(
        f"/rhumbline/namespaces/{NAME}/streams/a/head"
    )
    assert MOVE.encode() in head.data
    for work in (
        lambda: streams.create_stream("c"),
        lambda: streams.delete_stream("a"),
        lambda: streams.truncate("a", Dlsn(2, 0, 0)),
        lambda: streams.set_policy(POLICY),
        lambda: streams.set_stream_policy("a", POLICY),
        lambda: streams.open_writer("a"),
        lambda: streams.seal("a"),
        lambda: streams.unseal("a"),
        lambda: streams.maintain("a"),
        lambda: streams.subscriptions.create("a", "other", Dlsn(1, 0, 0)),
        lambda: streams.subscriptions.commit(subscription, "a", Dlsn(2, 0, 0)),
        lambda: streams.subscriptions.delete("a", "app"),
        lambda: world.namespaces(EAST).delete(NAME),
    ):
        with pytest.raises(NamespaceMovingError):
            await work()
    assert await read(namespace, "a", 4) == [b"1", b"2", b"3", b"4"]
    with pytest.raises(RhumblineError) as raised:
        await writer.append(b"lost")
        await writer.close()
    assert raised.value.code in ("stream-lost", "ledger-fenced", "append-outcome-unknown")
    await writer.abort()
    world.kill_at = None
    await world.mover(target).run()
    await namespace.create_stream("c")


async def test_what_cannot_be_in_the_target_is_refused_before_anything_changes() -> None:
    world = await filled(EAST)
    namespace = world.namespace(EAST)
    before = (await namespace.describe("a")).epoch
    await namespace.set_stream_policy("b", replace(POLICY, regions=("west",)))
    mover = world.mover(EAST, allowed=BOOKIES - {BookieId("bookie-1")})
    found = await mover.survey()
    assert (found.streams, found.segments) == (2, 4)
    assert found.obstacles[0] == "stream a: ledger 0 has copies outside: bookie-1"
    assert found.obstacles[-2] == "stream b: the policy allows the regions west"
    with pytest.raises(InvalidArgumentError, match="cannot be moved to the store of east"):
        await mover.run()
    assert (await namespace.describe("a")).epoch == before
    await namespace.set_stream_policy("b", replace(POLICY, quorum=Quorum(3, 3, 2, 2)))
    with pytest.raises(InvalidArgumentError, match="wants copies in 2 regions"):
        await world.mover(EAST).run()
    await namespace.set_stream_policy("b", None)
    await world.mover(EAST).run()


@BOTH
async def test_a_move_that_takes_too_long_is_undone(target: Region | None) -> None:
    world = await filled(target)
    world.delay_s = lambda: 0.1
    with pytest.raises(MigrationError, match="took longer than 3000 ms"):
        await world.mover(target, pause_ms_max=3_000).run()
    world.delay_s = lambda: 0.0
    await world.namespace(EAST).take_over("a")
    await check_moved(world, source_of(target))
    await write_after(world)


@BOTH
async def test_a_ledger_that_cannot_be_recovered_undoes_the_move(target: Region | None) -> None:
    world = await filled(target)
    world.cluster.is_recovery_refused = True
    with pytest.raises(RecoveryIncompleteError):
        await world.mover(target).run()
    world.cluster.is_recovery_refused = False
    await world.namespace(EAST).take_over("a")
    await check_moved(world, source_of(target))
    await world.mover(target).run()
    await check_moved(world, target)


@BOTH
async def test_a_stream_that_is_being_deleted_is_named(target: Region | None) -> None:
    world = await filled(target)
    stores = world.stores[source_of(target)]
    streams = StreamStore(stores.store, NAME)
    record, version = await streams.record("b")
    head, head_version = await streams.head("b")
    deleted = replace(record, is_deleting=True).encode()
    await stores.store.put(streams.paths("b").stream, deleted, expect=version)
    await stores.store.put(streams.paths("b").head, head.deleted().encode(), expect=head_version)
    with pytest.raises(InvalidArgumentError, match="stream b is being deleted"):
        await world.mover(target).run()
    await world.namespace(EAST).delete_stream("b")
    await world.mover(target).run()
    assert await world.namespace(EAST).streams() == ["a"]


@BOTH
async def test_an_attempt_that_was_overtaken_changes_nothing(target: Region | None) -> None:
    world = await filled(target)
    world.delay_s = lambda: 0.01
    first = asyncio.create_task(world.mover(target).run())
    await asyncio.sleep(0.5)
    assert not first.done()
    await world.mover(target).run()
    [outcome] = await asyncio.gather(first, return_exceptions=True)
    # It raises, or finds that the other attempt has committed the move.
    assert isinstance(outcome, MoveOutcome) or "taken over" in str(outcome)
    await check_moved(world, target)
    await write_after(world)

"""Tests against bugs that metadata migrations have had in other systems, and of refusals."""

import asyncio
from random import Random

import pytest

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.backends.migration import MigrationError, MigrationOutcome, scan
from rhumbline.backends.migration_fence import FenceState
from rhumbline.core.metadata.cluster_layout import Paths, initialise_cluster
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.errors import (
    BadVersionError,
    ForeignDataError,
    MetadataUnavailableError,
    SessionLostError,
    StoreFencedError,
    WrongClusterError,
)
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.migration_world import (
    KillAfter,
    MigrationWorld,
    MoverKilled,
    Writers,
)

pytestmark = pytest.mark.run_by(runner=run_jumping)


async def test_a_retry_after_a_failure_is_not_stuck() -> None:
    """The bug: a failed attempt left a state from which later attempts could not continue."""
    world = MigrationWorld("a", "b")
    store = await world.open("a")
    await Writers.prepare(store)
    for moment in (3, 9, 12, 15):
        with pytest.raises(MoverKilled):
            await world.migration("a", "b", moment=KillAfter(moment)).run()
    slow = world.migration("a", "b", pause_ms_max=1)
    with pytest.raises(MigrationError, match="a is in use again"):
        await slow.run()
    assert isinstance(await world.migration("a", "b").run(), MigrationOutcome)
    assert (await store.get("/counters/0")).data == b"0"
    assert store.uri == "b"
    await world.aclose()


async def test_a_time_out_aborts() -> None:
    """The bug: the migration continued after a reported time-out, or writes stayed blocked."""
    world = MigrationWorld("a", "b")
    store = await world.open("a")
    await Writers.prepare(store)
    before = await store.get("/counters/0")
    with pytest.raises(MigrationError, match="took longer than 1 ms"):
        await world.migration("a", "b", pause_ms_max=1).run()
    await asyncio.sleep(60)
    assert world.trees["a"].fence.successor is None
    assert world.trees["b"].fence.is_partial
    await store.put("/counters/0", b"1", expect=before.version)
    assert store.uri == "a"
    await world.aclose()


async def test_a_late_joiner_finds_the_store_in_use() -> None:
    """A process that starts during or after the migration, with either URI, uses that store."""
    world = MigrationWorld("a", "b")
    await Writers.prepare(await world.open("a"))
    with pytest.raises(MoverKilled):
        await world.migration("a", "b", moment=KillAfter(14)).run()
    assert world.trees["b"].fence.is_partial
    early = [await world.open("a"), await world.open("b")]
    assert [handle.uri for handle in early] == ["a", "a"]
    await early[1].put("/counters/0", b"written before")
    await world.migration("a", "b").run()
    late = [await world.open("a"), await world.open("b")]
    for handle in early + late:
        assert (await handle.get("/counters/0")).data == b"written before"
        await handle.put("/counters/1", b"written after")
        assert handle.uri == "b"
    await world.aclose()


async def test_a_late_joiner_waits_while_neither_store_can_be_written() -> None:
    world = MigrationWorld("a", "b")
    await Writers.prepare(await world.open("a"))
    await kill_during_switch(world)
    with pytest.raises(MetadataUnavailableError, match="is being migrated"):
        await world.open("b")
    joining = asyncio.create_task(world.open("a"))
    await asyncio.sleep(0.5)
    assert not joining.done()
    await world.migration("a", "b").run()
    assert (await joining).uri == "b"
    await world.aclose()


async def test_the_mark_of_a_migration_is_not_copied_into_the_target() -> None:
    """The bug: the target considered itself replaced, or a migration back was impossible."""
    world = MigrationWorld("a", "b")
    await Writers.prepare(await world.open("a"))
    for source, target in (("a", "b"), ("b", "a"), ("a", "b")):
        await world.migration(source, target).run()
        fence = world.trees[target].fence
        assert fence == FenceState(fence.epoch, fence.tree)
        assert world.trees[source].fence.successor == target
    await world.aclose()


async def test_versions_from_before_a_migration_never_match() -> None:
    """They do not match even if the node was changed and changed back in the other store."""
    world = MigrationWorld("a", "b")
    store = await world.open("a")
    await Writers.prepare(store)
    old = (await store.get("/counters/0")).version
    await world.migration("a", "b").run()
    await store.put("/counters/0", b"other")
    await store.put("/counters/0", b"0")
    await world.migration("b", "a").run()
    with pytest.raises(BadVersionError):
        await store.put("/counters/0", b"x", expect=old)
    await world.aclose()


async def test_ledger_ids_continue_after_the_highest() -> None:
    """Ids of deleted ledgers count too, and a counter that a restore set back is repaired."""
    world = MigrationWorld("a", "b")
    store = await world.open("a")
    ids = LedgerStore(store)
    await initialise_cluster(store, Random(1))
    given = [await ids.next_id() for _ in range(30)]
    outcome = await world.migration("a", "b").run()
    assert outcome.next_ledger_id == 30
    assert await ids.next_id() == max(given) + 1
    await store.create(Paths().ledger(123_456), b"restored")
    assert (await world.migration("b", "a").run()).next_ledger_id == 123_457
    assert await ids.next_id() == 123_457
    await world.aclose()


async def test_sessions_are_lost_and_watches_move() -> None:
    world = MigrationWorld("a", "b")
    store = await world.open("a")
    await Writers.prepare(store)
    session = await store.session(1_000)
    await store.create("/claim", b"mine", ephemeral=session)
    lost, notified = asyncio.Event(), asyncio.Event()
    session.on_lost(lost.set)
    store.watch("/counters", notified.set, prefix=True)
    await world.migration("a", "b").run()
    await asyncio.wait_for(lost.wait(), 5)
    await asyncio.wait_for(notified.wait(), 5)
    with pytest.raises(SessionLostError):
        await store.create("/other", ephemeral=session)
    await store.create("/claim", b"anew", ephemeral=await store.session(1_000))
    notified.clear()
    await store.put("/counters/1", b"news")
    await asyncio.wait_for(notified.wait(), 5)
    await session.close()
    await world.aclose()


async def test_a_target_with_other_data_is_refused_and_left_unchanged() -> None:
    world = MigrationWorld("a", "b")
    await Writers.prepare(await world.open("a"))
    other = await world.open("b")
    await other.create("/theirs", b"precious")
    for moment in (*range(8), 1_000):
        with pytest.raises((ForeignDataError, MoverKilled)):
            await world.migration("a", "b", moment=KillAfter(moment)).run()
    with pytest.raises(ForeignDataError, match="b is not empty"):
        await world.migration("a", "b").run()
    assert (await other.get("/theirs")).data == b"precious"
    await other.put("/theirs", b"written")
    await world.aclose()


async def test_an_incomplete_copy_is_never_a_source() -> None:
    """A migration back from an incomplete copy would replace the metadata by a part of it."""
    world = MigrationWorld("a", "b")
    store = await world.open("a")
    await Writers.prepare(store)
    await kill_during_switch(world)
    with pytest.raises(MigrationError, match="incomplete copy"):
        await world.migration("b", "a").run()
    await world.migration("a", "b").abort()
    assert (await store.get("/counters/0")).data == b"0"
    await world.aclose()


async def test_a_replaced_store_is_not_a_source_for_another() -> None:
    world = MigrationWorld("a", "b", "c")
    await Writers.prepare(await world.open("a"))
    await world.migration("a", "b").run()
    with pytest.raises(MigrationError, match="a was replaced by b"):
        await world.migration("a", "c").run()
    assert (await world.migration("a", "b").run()).was_already_done
    with pytest.raises(MigrationError, match="same store"):
        await world.migration("b", "b").run()
    with pytest.raises(MigrationError, match="migrate in the other direction instead"):
        await world.migration("a", "b").abort()
    await world.aclose()


async def test_no_handle_follows_to_a_store_that_was_erased() -> None:
    """Bookies that used an empty store would delete every ledger as garbage."""
    world = MigrationWorld("a", "b")
    await Writers.prepare(await world.open("a"))
    await world.migration("a", "b").run()
    world.trees["b"] = MemoryTree("erased")
    with pytest.raises(WrongClusterError, match="holds other metadata"):
        await world.open("a")
    await world.aclose()


async def test_a_fenced_store_serves_only_stale_reads() -> None:
    world = MigrationWorld("a", "b")
    await Writers.prepare(await world.open("a"))
    await world.migration("a", "b").run()
    old = MemoryStore(world.trees["a"], "a")
    assert (await old.get("/counters/0", stale_ok=True)).data == b"0"
    for attempt in (
        old.get("/counters/0"), old.children("/"), old.put("/counters/0", b""),
        old.create("/n"), old.delete("/n"), old.txn([]), old.session(1_000),
    ):  # fmt: skip
        with pytest.raises(StoreFencedError):
            await attempt
    assert len(await scan(old)) > 1
    await world.aclose()


async def kill_during_switch(world: MigrationWorld) -> None:
    """Kill an attempt between closing the source and opening the target."""
    for moment in range(100):
        with pytest.raises(MoverKilled):
            await world.migration("a", "b", moment=KillAfter(moment)).run()
        if world.trees["a"].fence.successor == "b":
            assert world.trees["b"].fence.is_partial
            return

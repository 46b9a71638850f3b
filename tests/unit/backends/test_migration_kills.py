"""Tests of migrations killed before and after each of their calls, then completed or aborted.

Writers run all the time through handles that follow the migrations. The stores are in memory, and
time is virtual.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rhumbline.backends.migration import MigrationOutcome
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.migration_world import (
    KEYS,
    KillAfter,
    MigrationWorld,
    MoverKilled,
    Writers,
)

MOMENTS_MAX = 200


async def under_writes(
    world: MigrationWorld, work: Callable[[MetadataStore, Writers], Awaitable[None]]
) -> None:
    """Run ``work`` while writers write through handles opened at "a"; then check the writes."""
    store = await world.open("a")
    await Writers.prepare(store)
    await LedgerStore(store).next_id()
    writers = Writers()
    tasks = [asyncio.create_task(writers.run(await world.open("a"), key)) for key in range(KEYS)]
    try:
        await work(store, writers)
        await asyncio.sleep(0.5)
        done = sum(writers.known)
        await asyncio.sleep(0.1)
        assert sum(writers.known) > done, "writes continue"
    finally:
        writers.is_stopped = True
        for task in tasks:
            await task
    await writers.check(store)
    await world.aclose()


def kill_at(moment: int, then: Callable[[MigrationWorld], Awaitable[object]]) -> bool:
    """Kill a migration at ``moment`` and run ``then``; return True if it completed before that."""

    async def run() -> bool:
        world = MigrationWorld("a", "b")
        ended = []

        async def work(store: MetadataStore, _: Writers) -> None:
            first = await LedgerStore(store).next_id()
            try:
                await world.migration("a", "b", moment=KillAfter(moment)).run()
                ended.append(True)
            except MoverKilled:
                await asyncio.sleep(0.1)
                await then(world)
            assert await LedgerStore(store).next_id() > first

        await under_writes(world, work)
        return bool(ended)

    return run_jumping(run())


async def complete_again(world: MigrationWorld) -> None:
    assert isinstance(await world.migration("a", "b").run(), MigrationOutcome)
    assert world.trees["a"].fence.successor == "b"
    assert world.trees["b"].fence.successor is None


async def undo(world: MigrationWorld) -> None:
    """Abort the migration if it is not committed, else migrate back."""
    if world.trees["b"].fence.successor is None and world.trees["a"].fence.successor == "b":
        await world.migration("b", "a").run()
    else:
        await world.migration("a", "b").abort()
    assert world.trees["a"].fence.successor is None


async def migrate_elsewhere(world: MigrationWorld) -> None:
    """Undo the migration, migrate to a third store, and from there to the incomplete copy."""
    await undo(world)
    world.trees["c"] = type(world.trees["a"])("c")
    await world.migration("a", "c").run()
    await world.migration("c", "b").run()
    assert world.trees["b"].fence.successor is None


@pytest.mark.parametrize(
    "then",
    [
        complete_again,
        pytest.param(undo, marks=pytest.mark.long),
        pytest.param(migrate_elsewhere, marks=pytest.mark.long),
    ],
)
def test_a_migration_killed_at_any_step_can_be_completed_or_undone(
    then: Callable[[MigrationWorld], Awaitable[object]],
) -> None:
    for moment in range(MOMENTS_MAX):
        if kill_at(moment, then):
            print(f"{moment} moments")
            assert moment > 20
            return
    raise AssertionError("the migration has no end")


@pytest.mark.long
def test_a_second_attempt_may_be_killed_at_any_step_too() -> None:
    """The second attempt takes over from one that was killed after closing the source."""

    async def run(first: int, second: int) -> bool:
        world = MigrationWorld("a", "b")
        ended = []

        async def work(_: MetadataStore, __: Writers) -> None:
            with pytest.raises(MoverKilled):
                await world.migration("a", "b", moment=KillAfter(first)).run()
            assert world.trees["a"].fence.successor == "b"
            try:
                await world.migration("a", "b", moment=KillAfter(second)).run()
                ended.append(True)
            except MoverKilled:
                await complete_again(world)

        await under_writes(world, work)
        return bool(ended)

    fenced = next(moment for moment in range(MOMENTS_MAX) if _fences(moment))
    for second in range(MOMENTS_MAX):
        if run_jumping(run(fenced, second)):
            assert second > 10
            return
    raise AssertionError("the migration has no end")


def test_a_migration_that_was_killed_often_needs_no_more_steps() -> None:
    """Killed attempts leave nothing that accumulates, neither nodes nor steps."""

    async def run(kills: int) -> tuple[int, int]:
        world = MigrationWorld("a", "b")
        await Writers.prepare(await world.open("a"))
        for number in range(kills):
            with pytest.raises(MoverKilled):
                await world.migration("a", "b", moment=KillAfter(number % 12)).run()
            await world.migration("a", "b").abort()
        steps = KillAfter(10**9)
        outcome = await world.migration("a", "b", moment=steps).run()
        await world.aclose()
        return steps.moments, outcome.nodes

    assert run_jumping(run(60)) == run_jumping(run(12))


def _fences(moment: int) -> bool:
    async def run() -> bool:
        world = MigrationWorld("a", "b")
        found = []

        async def work(_: MetadataStore, __: Writers) -> None:
            with pytest.raises(MoverKilled):
                await world.migration("a", "b", moment=KillAfter(moment)).run()
            found.append(world.trees["a"].fence.successor == "b")
            await undo(world)

        await under_writes(world, work)
        return found[0]

    return run_jumping(run())


def test_concurrent_attempts_result_in_one_migration() -> None:
    """Whatever the order of their steps, one of them wins and no write is lost."""

    async def run(lead_ms: int) -> None:
        world = MigrationWorld("a", "b")

        async def work(_: MetadataStore, __: Writers) -> None:
            attempts = [asyncio.create_task(world.migration("a", "b").run())]
            await asyncio.sleep(lead_ms / 1000)
            attempts.append(asyncio.create_task(world.migration("a", "b").run()))
            results = [await _ended(attempt) for attempt in attempts]
            if not any(isinstance(result, MigrationOutcome) for result in results):
                await complete_again(world)

        await under_writes(world, work)

    for lead_ms in range(0, 40, 2):
        run_jumping(run(lead_ms))


async def _ended(attempt: "asyncio.Task[MigrationOutcome]") -> MigrationOutcome | Exception:
    try:
        return await attempt
    except Exception as error:
        return error

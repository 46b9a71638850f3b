"""Repair tasks, locks and the auditor's role in the metadata store, also when replies are lost."""

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.regions.repair.config import RepairConfig
from rhumbline.regions.repair.task_store import RepairTask, TaskStore
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LOST_REQUEST, LossyStore

pytestmark = pytest.mark.run_by(runner=run_jumping)


async def test_task_is_added_once_and_records_why_it_is_stuck() -> None:
    tasks = TaskStore(MemoryStore())
    assert await tasks.add(12, "a@00000001 is lost", 1000)
    assert not await tasks.add(12, "again", 2000)
    await tasks.mark_stuck(12, "no legal place", is_hopeless=False)
    assert await tasks.get(12) == RepairTask(12, "a@00000001 is lost", 1000, "no legal place")
    await tasks.mark_stuck(13, "it has no task", is_hopeless=True)
    assert await tasks.get(13) is None
    await tasks.remove(12)
    await tasks.remove(12)
    assert await tasks.all() == []


async def test_tasks_are_listed_by_ledger_in_pages() -> None:
    tasks = TaskStore(MemoryStore())
    for ledger_id in (5, 2**40, 0, 17):
        await tasks.add(ledger_id, "x", 0)
    assert await tasks.ids(limit=2) == [0, 5]
    assert await tasks.ids(after=5, limit=9) == [17, 2**40]
    assert [task.ledger_id for task in await tasks.all()] == [0, 5, 17, 2**40]


async def test_ledgers_without_a_task_are_found_with_few_calls() -> None:
    store = LossyStore(MemoryStore())
    tasks = TaskStore(store)
    for ledger_id in (0, *range(5, 3_000, 5)):
        await tasks.add(ledger_id, "x", 0)
    assert await tasks.without_task([0, 1, 2]) == [1, 2]
    assert await tasks.without_task([7]) == [7]
    assert await tasks.without_task([5_000]) == [5_000]
    called = store.reads
    found = await tasks.without_task(list(range(1, 3_001)))
    assert found == [n for n in range(1, 3_001) if n % 5 or n == 3_000]
    assert store.reads - called == 2


@pytest.mark.parametrize("outcome", [LOST_REPLY, LOST_REQUEST])
async def test_lost_requests_and_replies_are_resolved(outcome: str) -> None:
    store = LossyStore(MemoryStore())
    tasks = TaskStore(store)
    store.outcomes = [outcome]
    assert await tasks.add(1, "x", 0)
    store.outcomes = [outcome]
    await tasks.mark_stuck(1, "y", is_hopeless=False)
    task = await tasks.get(1)
    assert task is not None
    assert task.stuck == "y"
    store.outcomes = [outcome]
    await tasks.remove(1)
    assert await tasks.get(1) is None


@pytest.mark.parametrize("outcome", [None, LOST_REPLY, LOST_REQUEST])
@pytest.mark.parametrize("gone", ["nothing", "task", "lock"])
async def test_finished_task_and_its_lock_are_removed_together(
    outcome: str | None, gone: str
) -> None:
    store = LossyStore(MemoryStore())
    tasks = TaskStore(store)
    session = await store.session(10_000)
    for ledger_id in (1, 2):
        await tasks.add(ledger_id, "x", 0)
        assert await tasks.try_lock(session, ledger_id, "one")
    if gone == "task":
        await tasks.remove(1)
    elif gone == "lock":
        await tasks.unlock(1)
    store.outcomes = [] if outcome is None else [outcome]
    await tasks.finish(1)
    assert await tasks.ids() == [2]
    other = await store.session(10_000)
    assert await tasks.try_lock(other, 1, "other")
    assert not await tasks.try_lock(other, 2, "other")
    await tasks.finish(1)
    await tasks.finish(1)
    assert await tasks.ids() == [2]


async def test_session_holds_lock_and_auditor_role_until_it_ends() -> None:
    store = MemoryStore()
    tasks = TaskStore(store)
    one, other = await store.session(10_000), await store.session(10_000)
    assert await tasks.try_lock(one, 3, "one")
    assert not await tasks.try_lock(other, 3, "other")
    assert await tasks.try_elect(one, "one")
    assert await tasks.try_elect(one, "one"), "the same session may repeat it"
    assert not await tasks.try_elect(other, "other")
    assert await tasks.auditor() == "one"
    await tasks.unlock(3)
    assert await tasks.try_lock(other, 3, "other")
    await one.close()
    assert await tasks.auditor() is None
    assert await tasks.try_elect(other, "other")


def test_settings_report_all_faults() -> None:
    with pytest.raises(
        ConfigurationError, match=r"worker_count=0 is not at least 1; retry_ms_min=10 is above"
    ):
        RepairConfig(worker_count=0, retry_ms_min=10, retry_ms_max=5)

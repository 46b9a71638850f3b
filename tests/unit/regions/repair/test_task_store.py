"""Tasks, locks and the auditor's office in the metadata store, also when replies are lost."""

from collections.abc import Awaitable, Callable

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.regions.repair.config import RepairConfig
from rhumbline.regions.repair.rate_limiter import Pace
from rhumbline.regions.repair.task_store import RepairTask, TaskStore
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LOST_REQUEST, UnsureStore


def in_time(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def body() -> None:
            await test()

        run_jumping(body())

    return run


@in_time
async def test_a_task_is_wanted_once_and_remembers_why_it_is_stuck() -> None:
    tasks = TaskStore(MemoryStore())
    assert await tasks.want(12, "a@00000001 is lost", 1000)
    assert not await tasks.want(12, "again", 2000)
    await tasks.stick(12, "no legal place", is_hopeless=False)
    assert await tasks.get(12) == RepairTask(12, "a@00000001 is lost", 1000, "no legal place")
    await tasks.stick(13, "nobody asked for it", is_hopeless=True)
    assert await tasks.get(13) is None
    await tasks.done(12)
    await tasks.done(12)
    assert await tasks.all() == []


@in_time
async def test_tasks_are_listed_by_ledger_in_pages() -> None:
    tasks = TaskStore(MemoryStore())
    for ledger_id in (5, 2**40, 0, 17):
        await tasks.want(ledger_id, "x", 0)
    assert await tasks.ids(limit=2) == [0, 5]
    assert await tasks.ids(after=5, limit=9) == [17, 2**40]
    assert [task.ledger_id for task in await tasks.all()] == [0, 5, 17, 2**40]


@pytest.mark.parametrize("fate", [LOST_REPLY, LOST_REQUEST])
def test_lost_replies_are_found_out(fate: str) -> None:
    @in_time
    async def body() -> None:
        store = UnsureStore(MemoryStore())
        tasks = TaskStore(store)
        store.fates = [fate]
        assert await tasks.want(1, "x", 0)
        store.fates = [fate]
        await tasks.stick(1, "y", is_hopeless=False)
        task = await tasks.get(1)
        assert task is not None
        assert task.stuck == "y"
        store.fates = [fate]
        await tasks.done(1)
        assert await tasks.get(1) is None

    body()


@in_time
async def test_one_session_has_the_lock_and_the_office_until_it_ends() -> None:
    store = MemoryStore()
    tasks = TaskStore(store)
    one, other = await store.session(10_000), await store.session(10_000)
    assert await tasks.try_lock(one, 3, "one")
    assert not await tasks.try_lock(other, 3, "other")
    assert await tasks.try_elect(one, "one")
    assert await tasks.try_elect(one, "one"), "it knows itself again"
    assert not await tasks.try_elect(other, "other")
    assert await tasks.auditor() == "one"
    await tasks.unlock(3)
    assert await tasks.try_lock(other, 3, "other")
    await one.close()
    assert await tasks.auditor() is None
    assert await tasks.try_elect(other, "other")


@in_time
async def test_copying_keeps_its_pace() -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    pace = Pace(1000)
    for _ in range(5):
        await pace.take(500)
    assert loop.time() == pytest.approx(2.0), "what was taken before is paid by who comes next"


def test_the_settings_tell_all_their_faults() -> None:
    with pytest.raises(ConfigurationError, match=r"worker_count is below 1; retry_ms_min is above"):
        RepairConfig(worker_count=0, retry_ms_min=10, retry_ms_max=5)

"""The workers of a process share each pass over the repair tasks."""

import asyncio

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.regions.repair.task_feed import TaskFeed
from rhumbline.regions.repair.task_store import TaskStore


async def stored(*ledger_ids: int) -> TaskStore:
    tasks = TaskStore(MemoryStore())
    for ledger_id in ledger_ids:
        await tasks.add(ledger_id, "x", 0)
    return tasks


async def rest_of(feed: TaskFeed) -> list[int]:
    """Return what is left of the pass."""
    found = []
    while (ledger_id := await feed.next()) is not None:
        found.append(ledger_id)
    return found


async def test_each_task_of_a_pass_goes_to_one_worker() -> None:
    feed = TaskFeed(await stored(*range(2_500)))
    feed.begin(())
    shares = await asyncio.gather(*(rest_of(feed) for _ in range(8)))
    assert sorted(ledger_id for share in shares for ledger_id in share) == list(range(2_500))


async def test_next_pass_begins_after_the_end_of_the_one_before() -> None:
    tasks = await stored(5, 6)
    feed = TaskFeed(tasks)
    assert await feed.next() is None, "no pass has begun"
    feed.begin(())
    assert await feed.next() == 5
    await tasks.add(1, "x", 0)
    feed.begin(())
    assert await rest_of(feed) == [6], "the same pass"
    assert await feed.next() is None
    feed.begin(())
    assert await rest_of(feed) == [1, 5, 6]


async def test_ledgers_whose_tasks_are_gone_are_reported_once() -> None:
    feed = TaskFeed(await stored(5, 6))
    feed.begin([4, 5, 7])
    assert await rest_of(feed) == [5, 6]
    assert feed.take_missing() == [4, 7]
    assert feed.take_missing() == []


async def test_pass_continues_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = await stored(*range(1_200))
    feed = TaskFeed(tasks)
    feed.begin(())
    found = [await feed.next() for _ in range(1_000)]
    with monkeypatch.context() as broken:

        async def unavailable(after: int | None) -> list[int]:
            raise MetadataUnavailableError(f"no page after {after}")

        broken.setattr(tasks, "ids", unavailable)
        with pytest.raises(MetadataUnavailableError):
            await feed.next()
    assert [*found, *await rest_of(feed)] == list(range(1_200))

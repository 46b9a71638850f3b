"""Tests of writes that wait for a common transaction, without a store."""

import asyncio
from collections.abc import Awaitable, Sequence

import pytest

from rhumbline.backends.fdb import group_commit
from rhumbline.backends.fdb.group_commit import GroupCommit, Result, Written
from rhumbline.backends.fdb.requests import CommitRequest, WriteRequest
from rhumbline.core.protocol.errors import (
    ClosedError,
    IndeterminateError,
    MetadataUnavailableError,
    NoNodeError,
    RhumblineError,
)
from rhumbline.core.runtime.metadata_store import Put, Version
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

SPENT_S = 1.0
DEADLINE_S = 100.0

in_virtual_time = pytest.mark.run_by(runner=run_jumping)


class Transactions:
    """Carries out batches, each in a second, and records them."""

    def __init__(self, error: Exception | None = None) -> None:
        self.batches: list[list[str]] = []
        self.error = error
        self.repeats: set[str] = set()
        self.tasks = Tasks()
        self.group = GroupCommit(self.carry_out, self.tasks)

    async def carry_out(self, requests: Sequence[WriteRequest], deadline: float) -> list[Result]:
        paths = ["+".join(sorted(request.touches)) for request in requests]
        self.batches.append(paths)
        await asyncio.sleep(SPENT_S)
        if self.error is not None:
            raise self.error
        return [self.result(path) for path in paths]

    def result(self, path: str) -> Result:
        if path in self.repeats:
            self.repeats.remove(path)
            return None
        return NoNodeError(path) if "missing" in path else Written(Version("v"), path)

    def put(
        self, *paths: str, data: bytes = b"", deadline_s: float = DEADLINE_S
    ) -> Awaitable[Written]:
        request = CommitRequest([Put(path, data) for path in paths])
        deadline = asyncio.get_running_loop().time() + deadline_s
        return asyncio.ensure_future(self.group.submit(request, deadline))


@in_virtual_time
async def test_writes_that_arrive_together_or_meanwhile_share_a_transaction() -> None:
    world = Transactions()
    first = [world.put(f"/{number}") for number in range(3)]
    await asyncio.sleep(0.1)
    second = [world.put(f"/{number}") for number in range(3, 5)]
    await asyncio.sleep(0.1)
    third = [world.put(f"/{number}") for number in range(5, 9)]
    await asyncio.gather(*first, *second, *third)
    assert [len(batch) for batch in world.batches] == [3, 2, 4]


@in_virtual_time
async def test_writes_of_one_node_never_run_in_two_transactions() -> None:
    world = Transactions()
    first = world.put("/a", "/b")
    await asyncio.sleep(0.1)
    others = [world.put("/b"), world.put("/b", "/c"), world.put("/c"), world.put("/d")]
    await asyncio.gather(first, *others)
    assert world.batches == [["/a+/b"], ["/d"], ["/b", "/b+/c", "/c"]]


@in_virtual_time
async def test_a_refused_write_leaves_the_others_alone() -> None:
    world = Transactions()
    calls = [world.put("/a"), world.put("/missing"), world.put("/b")]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [Written, NoNodeError, Written]


@in_virtual_time
async def test_a_write_that_must_be_repeated_is_first_in_the_next_transaction() -> None:
    world = Transactions()
    world.repeats = {"/b"}
    calls = [world.put("/a"), world.put("/b")]
    await asyncio.sleep(0.1)
    calls.append(world.put("/c"))
    calls.append(world.put("/d"))
    await asyncio.gather(*calls)
    assert world.batches == [["/a", "/b"], ["/c", "/d"], ["/b"]]


@in_virtual_time
async def test_a_transaction_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "BATCH_REQUESTS_MAX", 3)
    monkeypatch.setattr(group_commit, "BATCH_BYTES_MAX", 1_000)
    world = Transactions()
    await asyncio.gather(*[world.put(f"/{number}") for number in range(7)])
    await asyncio.gather(*[world.put(f"/{number}", data=b"x" * 600) for number in range(2)])
    await world.put("/large", data=b"x" * 5_000)
    assert [len(batch) for batch in world.batches] == [3, 3, 1, 1, 1, 1]


@in_virtual_time
async def test_a_write_that_was_not_sent_at_its_deadline_had_no_effect() -> None:
    world = Transactions()
    running = world.put("/a")
    await asyncio.sleep(0.1)
    with pytest.raises(MetadataUnavailableError):
        await world.put("/a", deadline_s=0.2)
    await running
    assert world.batches == [["/a"]]


@in_virtual_time
async def test_too_many_waiting_writes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "WAITING_MAX", 5)
    world = Transactions()
    calls = [world.put("/a") for _ in range(6)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results[-2:]] == [Written, MetadataUnavailableError]


@in_virtual_time
async def test_an_error_of_the_transaction_is_the_result_of_each_write() -> None:
    world = Transactions(IndeterminateError("perhaps"))
    results = await asyncio.gather(*[world.put("/a"), world.put("/b")], return_exceptions=True)
    assert [str(result) for result in results] == ["perhaps", "perhaps"]
    assert results[0] is not results[1]


@in_virtual_time
async def test_a_cancelled_caller_is_not_sent() -> None:
    world = Transactions()
    running, waiting = world.put("/a"), world.put("/a")
    await asyncio.sleep(0.1)
    late = asyncio.ensure_future(world.put("/a"))
    await asyncio.sleep(0.1)
    late.cancel()
    await asyncio.gather(running, waiting)
    assert sum(len(batch) for batch in world.batches) == 2


@in_virtual_time
async def test_closing_leaves_no_caller_waiting() -> None:
    world = Transactions()
    sent = world.put("/a")
    await asyncio.sleep(0.1)
    waiting = world.put("/a")
    await asyncio.sleep(0.1)
    await world.tasks.aclose()
    late = world.put("/b")
    results = await asyncio.gather(sent, waiting, late, return_exceptions=True)
    assert [type(result) for result in results] == [IndeterminateError, ClosedError, ClosedError]
    assert all(isinstance(result, RhumblineError) for result in results)

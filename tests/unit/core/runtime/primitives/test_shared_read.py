"""Concurrent callers share a run of a read, and none of them gets a result from before its call."""

import asyncio

import pytest

from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.core.runtime.primitives.shared_read import SharedRead


class Source:
    """A value that takes a while to read."""

    def __init__(self) -> None:
        self.value = 0
        self.began = self.ended = 0
        self.is_away = False

    async def read(self) -> int:
        self.began += 1
        found = self.value
        await asyncio.sleep(0.01)
        self.ended += 1
        if self.is_away:
            raise MetadataUnavailableError("the store is away")
        return found


async def test_callers_of_one_iteration_share_a_run_that_begins_after_their_calls() -> None:
    source = Source()
    shared = SharedRead(source.read)
    first = [asyncio.create_task(shared.get()) for _ in range(50)]
    await asyncio.sleep(0.001)
    source.value = 1  # the run of the first callers does not see it
    others = [asyncio.create_task(shared.get()) for _ in range(50)]
    assert await asyncio.gather(*first) == [0] * 50
    assert await asyncio.gather(*others) == [1] * 50
    assert source.began == 2
    assert await shared.get() == 1
    assert source.began == 3, "a caller got the result of a run that had begun before"


async def test_an_error_is_that_of_its_run_only() -> None:
    source = Source()
    shared = SharedRead(source.read)
    source.is_away = True
    callers = [asyncio.create_task(shared.get()) for _ in range(10)]
    results = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(result) for result in results] == [MetadataUnavailableError] * 10
    assert source.began == 1
    source.is_away = False
    assert await shared.get() == 0


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_a_cancelled_caller_takes_no_other_with_it(cancelled: int) -> None:
    source = Source()
    shared = SharedRead(source.read)
    callers = [asyncio.create_task(shared.get()) for _ in range(3)]
    await asyncio.sleep(0.001)
    callers.pop(cancelled).cancel()
    assert await asyncio.gather(*callers) == [0, 0]


async def test_a_run_ends_with_its_last_caller() -> None:
    source = Source()
    shared = SharedRead(source.read)
    callers = [asyncio.create_task(shared.get()) for _ in range(3)]
    await asyncio.sleep(0.001)
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)
    await asyncio.sleep(0.02)
    assert (source.began, source.ended) == (1, 0)
    assert await shared.get() == 0

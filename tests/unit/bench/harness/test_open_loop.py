"""Requests of an open loop are sent when they are due: not before, and not an interval later."""

import asyncio
import time

import pytest

from rhumbline.bench.harness.open_loop import OpenLoop
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)

TICK_S = 0.001


@pytest.mark.parametrize("rate", [3, 100, 1_000, 250_000])
async def test_each_request_is_due_within_a_tick_of_its_return(
    rate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = asyncio.get_running_loop().time
    monkeypatch.setattr(time, "perf_counter", clock)
    loop, expected = OpenLoop(rate), 0
    while clock() < 1:
        numbers = await loop.due()
        assert numbers.start == expected
        expected = numbers.stop
        assert loop.due_at(numbers[-1]) <= clock()
        assert loop.due_at(numbers[0]) >= clock() - 2 * TICK_S
        assert loop.due_at(expected) > clock() - 1e-9


async def test_requests_that_were_missed_are_due_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = asyncio.get_running_loop().time
    monkeypatch.setattr(time, "perf_counter", clock)
    loop = OpenLoop(100)
    await asyncio.sleep(0.5)
    numbers = await loop.due()
    assert numbers == range(51)
    assert [loop.due_at(number) for number in (0, 50)] == [0.0, 0.5]

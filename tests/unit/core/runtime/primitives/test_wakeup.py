"""A wake-up is never lost, and serves one wait."""

import asyncio

import pytest

from rhumbline.core.runtime.primitives.wakeup import Wakeup
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)


async def test_call_wakes_the_waiter_at_once() -> None:
    loop, wakeup = asyncio.get_running_loop(), Wakeup()
    loop.call_later(2, wakeup.wake)
    assert await wakeup.wait(10)
    assert loop.time() == 2


async def test_wait_ends_without_a_call_after_its_time() -> None:
    loop, wakeup = asyncio.get_running_loop(), Wakeup()
    assert not await wakeup.wait(10)
    assert loop.time() == 10


async def test_calls_before_the_wait_are_remembered_once() -> None:
    wakeup = Wakeup()
    wakeup.wake()
    wakeup.wake()
    assert await wakeup.wait()
    assert not await wakeup.wait(1)


async def test_call_is_not_lost_when_the_time_is_over() -> None:
    wakeup = Wakeup()
    asyncio.get_running_loop().call_later(1, wakeup.wake)
    assert await wakeup.wait(1) or await wakeup.wait(1)

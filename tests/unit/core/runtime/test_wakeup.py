"""A wake-up is never lost, and serves one wait."""

import asyncio

from rhumbline.core.runtime.wakeup import Wakeup
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


def test_call_wakes_the_waiter_at_once() -> None:
    async def main() -> None:
        loop, wakeup = asyncio.get_running_loop(), Wakeup()
        loop.call_later(2, wakeup.wake)
        assert await wakeup.wait(10)
        assert loop.time() == 2

    run_jumping(main())


def test_wait_ends_without_a_call_after_its_time() -> None:
    async def main() -> None:
        loop, wakeup = asyncio.get_running_loop(), Wakeup()
        assert not await wakeup.wait(10)
        assert loop.time() == 10

    run_jumping(main())


def test_calls_before_the_wait_are_remembered_once() -> None:
    async def main() -> None:
        wakeup = Wakeup()
        wakeup.wake()
        wakeup.wake()
        assert await wakeup.wait()
        assert not await wakeup.wait(1)

    run_jumping(main())


def test_call_is_not_lost_when_the_time_is_over() -> None:
    async def main() -> None:
        wakeup = Wakeup()
        asyncio.get_running_loop().call_later(1, wakeup.wake)
        assert await wakeup.wait(1) or await wakeup.wait(1)

    run_jumping(main())

"""A rate limiter delays callers by exactly the time that its rate and burst require."""

import asyncio

import pytest

from rhumbline.core.runtime.rate_limiter import RateLimiter
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)


async def finish_times(limiter: RateLimiter, *sizes: int) -> list[float]:
    """Takes one size after the other; returns when each call ended, in seconds from the start."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    found = []
    for size in sizes:
        await limiter.take(size)
        found.append(loop.time() - begin)
    return found


async def test_limiter_without_a_rate_never_waits() -> None:
    assert await finish_times(RateLimiter(None), 10**12, 10**12) == [0, 0]
    assert await finish_times(RateLimiter(None, burst_s=1), 10**12, 10**12) == [0, 0]


async def test_without_a_burst_each_call_waits_until_all_earlier_ones_are_paid_for() -> None:
    times = await finish_times(RateLimiter(1000), 500, 500, 2000, 1)
    assert times == pytest.approx([0, 0.5, 1.0, 3.0])


async def test_burst_passes_at_once_and_the_rate_holds_afterwards() -> None:
    times = await finish_times(RateLimiter(1000, burst_s=1), 600, 400, 500, 500)
    assert times == pytest.approx([0, 0, 0.5, 1.0])


async def test_call_above_the_burst_waits_for_its_own_bytes() -> None:
    assert await finish_times(RateLimiter(1000, burst_s=1), 3000) == pytest.approx([2.0])
    assert await finish_times(RateLimiter(1000, burst_s=0), 3000) == pytest.approx([3.0])


@pytest.mark.parametrize(("burst_s", "ends"), [(None, [0, 0, 1.0]), (1, [0, 0, 1.0])])
async def test_idle_time_saves_up_no_more_than_the_burst(
    burst_s: int | None, ends: list[float]
) -> None:
    limiter = RateLimiter(1000, burst_s=burst_s)
    await limiter.take(1000)
    await asyncio.sleep(100)
    assert await finish_times(limiter, 0, 1000, 1000) == pytest.approx(ends)


async def test_tasks_that_share_a_limiter_share_its_rate() -> None:
    limiter = RateLimiter(1000)
    times = await asyncio.gather(*(finish_times(limiter, 500) for _ in range(4)))
    assert [end for (end,) in times] == pytest.approx([0, 0.5, 1.0, 1.5])

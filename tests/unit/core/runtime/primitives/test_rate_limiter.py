"""A rate limiter lets its burst pass at once, and its rate in the long run."""

import asyncio
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.runtime.primitives.rate_limiter import RateLimiter
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)


async def finish_times(limiter: RateLimiter, *sizes: int) -> list[float]:
    """Acquires each size; returns when each call ended, in seconds from the start."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    found = []
    for size in sizes:
        await limiter.acquire(size)
        found.append(loop.time() - begin)
    return found


async def test_limiter_without_a_rate_never_waits() -> None:
    assert await finish_times(RateLimiter(None), 10**12, 10**12) == [0, 0]
    assert await finish_times(RateLimiter(None, burst=1), 10**12, 10**12) == [0, 0]


async def test_without_a_burst_each_call_waits_until_all_earlier_ones_are_paid_for() -> None:
    times = await finish_times(RateLimiter(1000), 500, 500, 2000, 1)
    assert times == pytest.approx([0, 0.5, 1.0, 3.0])


async def test_burst_passes_at_once_and_the_rate_holds_afterwards() -> None:
    times = await finish_times(RateLimiter(1000, burst=1000), 600, 400, 500, 500)
    assert times == pytest.approx([0, 0, 0.5, 1.0])


async def test_amount_above_the_burst_passes_when_the_bucket_is_full() -> None:
    times = await finish_times(RateLimiter(1000, burst=1000), 3000, 1, 5000)
    assert times == pytest.approx([0, 2.001, 3.001])


@pytest.mark.parametrize(("burst", "ends"), [(0, [0, 0, 1.0]), (1000, [0, 0, 1.0])])
async def test_idle_time_saves_up_no_more_than_the_burst(burst: int, ends: list[float]) -> None:
    limiter = RateLimiter(1000, burst=burst)
    await limiter.acquire(1000)
    await asyncio.sleep(100)
    assert await finish_times(limiter, 0, 1000, 1000) == pytest.approx(ends)


async def test_tasks_that_share_a_limiter_share_its_rate() -> None:
    limiter = RateLimiter(1000)
    times = await asyncio.gather(*(finish_times(limiter, 500) for _ in range(4)))
    assert [end for (end,) in times] == pytest.approx([0, 0.5, 1.0, 1.5])


def test_asking_for_the_wait_takes_nothing() -> None:
    limiter = RateLimiter(100, burst=100)
    limiter.take(100, 5.0)
    assert [limiter.wait_s(50, 5.0) for _ in range(3)] == pytest.approx([0.5] * 3)
    assert limiter.wait_s(50, 5.5) == 0


def test_rate_of_zero_passes_only_what_was_earned() -> None:
    limiter = RateLimiter(0, burst=2)
    limiter.take(2, 0.0)
    assert limiter.wait_s(1, 1000.0) == inf
    for _ in range(50):
        limiter.earn(0.1)
    assert limiter.wait_s(1, 1000.0) == 0
    limiter.take(1, 1000.0)
    limiter.take(1, 1000.0)
    assert limiter.wait_s(1, 1000.0) == inf


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0, 0.3)), max_size=60))
def test_rate_holds_in_the_long_run(steps: list[tuple[int, float]]) -> None:
    limiter, now, passed = RateLimiter(100, burst=100), 1.0, 0
    for amount, pause in steps:
        now += pause
        if limiter.wait_s(amount, now) == 0:
            limiter.take(amount, now)
            passed += amount
    assert passed <= 100 * (now - 1.0) + 100 + 1e-6


@given(st.integers(1, 300), st.integers(1, 300), st.floats(0, 3))
def test_waiting_for_the_returned_time_is_enough(first: int, second: int, pause: float) -> None:
    limiter = RateLimiter(100, burst=100)
    limiter.take(first, 0.0)
    wait_s = limiter.wait_s(second, pause)
    assert limiter.wait_s(second, pause + wait_s + 0.001) == 0

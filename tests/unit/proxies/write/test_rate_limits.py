"""A rate limit passes one second of its rate at once, and its rate in the long run."""

from hypothesis import given
from hypothesis import strategies as st

from rhumbline.proxies.write.rate_limits import RateLimit, RecordLimits


def test_rate_zero_means_no_limit() -> None:
    limit = RateLimit(0)
    limit.take(10**12, 0.0)
    assert limit.wait_ms(10**12, 0.0) == 0


def test_burst_passes_and_then_the_wait_is_returned() -> None:
    limit = RateLimit(100)
    assert limit.wait_ms(100, 5.0) == 0
    limit.take(100, 5.0)
    assert limit.wait_ms(50, 5.0) == 500
    assert limit.wait_ms(50, 5.5) == 0


def test_amount_above_the_bucket_passes_when_the_bucket_is_full() -> None:
    limit = RateLimit(100)
    assert limit.wait_ms(1000, 1.0) == 0
    limit.take(1000, 1.0)
    assert limit.wait_ms(1, 1.0) == 9010
    assert limit.wait_ms(1000, 11.0) == 0


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0, 0.3)), max_size=60))
def test_rate_holds_in_the_long_run(steps: list[tuple[int, float]]) -> None:
    limit, now, passed = RateLimit(100), 1.0, 0
    for amount, pause in steps:
        now += pause
        if limit.wait_ms(amount, now) == 0:
            limit.take(amount, now)
            passed += amount
    assert passed <= 100 * (now - 1.0) + 100 + 1e-6


@given(st.integers(1, 300), st.integers(1, 300), st.floats(0, 3))
def test_waiting_for_the_returned_time_is_enough(first: int, second: int, pause: float) -> None:
    limit = RateLimit(100)
    limit.take(first, 0.0)
    wait = limit.wait_ms(second, pause)
    assert limit.wait_ms(second, pause + wait / 1000 + 0.001) == 0


def test_records_and_bytes_are_limited_together_and_a_refusal_costs_nothing() -> None:
    limits = RecordLimits(100, 1_000)
    assert limits.is_on
    assert limits.wait_ms(10, 1_000, 0.0) == 0
    assert [limits.wait_ms(10, 500, 0.0) for _ in range(3)] == [500] * 3
    assert limits.wait_ms(10, 500, 0.5) == 0
    assert not RecordLimits(0, 0).is_on

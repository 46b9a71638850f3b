"""The limits of a stream or a proxy, in records and bytes."""

from rhumbline.proxies.write.rate_limits import RecordLimits


def test_records_and_bytes_are_limited_together_and_a_refusal_costs_nothing() -> None:
    limits = RecordLimits(100, 1_000)
    assert limits.is_on
    assert limits.wait_ms(10, 1_000, 0.0) == 0
    assert [limits.wait_ms(10, 500, 0.0) for _ in range(3)] == [500] * 3
    assert limits.wait_ms(10, 500, 0.5) == 0


def test_zero_means_no_limit() -> None:
    limits = RecordLimits(0, 0)
    assert not limits.is_on
    assert [limits.wait_ms(10**9, 10**12, 0.0) for _ in range(3)] == [0] * 3


def test_refusal_states_at_least_a_millisecond() -> None:
    limits = RecordLimits(0, 10**9)
    assert limits.wait_ms(1, 10**9, 0.0) == 0
    assert limits.wait_ms(1, 10, 0.0) == 1

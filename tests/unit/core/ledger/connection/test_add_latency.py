"""Tests of the latency samples of a link."""

import pytest

from rhumbline.core.ledger.connection.add_latency import AddLatency


def time_adds(latency: AddLatency, took_ms: list[float], now: float = 0.0) -> float:
    for took in took_ms:
        assert now >= latency.due
        latency.begin(b"key", now)
        now += took / 1000
        latency.end(now)
        now = latency.due
    return now


def test_median_needs_three_samples_and_ignores_one_outlier() -> None:
    latency = AddLatency()
    now = time_adds(latency, [2, 2])
    assert latency.recent_ms(now) is None
    now = time_adds(latency, [500], now)
    assert latency.recent_ms(now) == pytest.approx(2)


def test_only_one_add_at_a_time_is_timed() -> None:
    latency = AddLatency()
    latency.begin(b"1", 0.0)
    assert latency.due > 5.0
    latency.end(0.002)
    assert latency.key == b""
    assert latency.due == pytest.approx(0.102)


def test_an_add_that_waits_counts_with_its_age() -> None:
    latency = AddLatency()
    now = time_adds(latency, [2, 2])
    latency.begin(b"key", now)
    assert latency.recent_ms(now + 0.001) is None
    assert latency.recent_ms(now + 1.0) == pytest.approx(2)
    latency.drop()
    assert latency.due == 0.0
    assert latency.recent_ms(now + 1.0) is None


def test_old_samples_are_ignored() -> None:
    latency = AddLatency()
    now = time_adds(latency, [2, 2, 2])
    assert latency.recent_ms(now + 9) is not None
    assert latency.recent_ms(now + 11) is None


def test_shortest_round_trip_is_taken_once() -> None:
    latency = AddLatency()
    latency.on_round_trip(3.0)
    time_adds(latency, [2, 5])
    assert latency.take_lowest_ms() == pytest.approx(2)
    assert latency.take_lowest_ms() == float("inf")


def test_samples_count_for_less_than_ten_seconds() -> None:
    latency = AddLatency()
    for ended in (1.0, 2.0, 3.0):
        latency.begin(b"key", ended - 0.5)
        latency.end(ended)
    assert latency.recent_ms(10.5) == 500
    assert latency.recent_ms(11.0) is None, "the first is exactly ten seconds old"


def test_an_add_that_waits_counts_only_if_it_waits_longer_than_the_median() -> None:
    latency = AddLatency()
    for began, took in ((0.0, 0.125), (1.0, 0.5)):
        latency.begin(b"key", began)
        latency.end(began + took)
    latency.begin(b"key", 2.0)
    assert latency.recent_ms(2.25) is None
    assert latency.recent_ms(2.5) is None
    assert latency.recent_ms(2.75) == 500

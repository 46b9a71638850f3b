"""Quantiles of the histogram are within 3 % of those of sorted lists."""

import math
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.runtime.histogram import BOUNDS_S, Histogram


@given(st.lists(st.floats(2e-6, 200.0), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_quantiles_are_close_to_those_of_the_sorted_values(
    values: list[float], share: float
) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact_ms = sorted(values)[math.ceil(share * len(values)) - 1] * 1000
    assert math.isclose(histogram.quantile_ms(share), exact_ms, rel_tol=0.03)
    assert histogram.count == len(values)
    assert histogram.max_seconds == max(values)


def test_counts_are_weights_and_quantiles_stay_within_the_extremes() -> None:
    histogram = Histogram()
    assert histogram.quantile_ms(0.5) == 0.0
    histogram.add(0.001, 99)
    histogram.add(10_000.0)
    histogram.add(0.0)
    assert math.isclose(histogram.quantile_ms(0.5), 1.0, rel_tol=0.03)
    assert histogram.max_seconds == 10_000.0
    histogram.clear()
    assert (histogram.count, histogram.quantile_ms(0.99)) == (0, 0.0)


def test_upper_quantiles_are_never_too_small() -> None:
    histogram = Histogram(steps=4)
    assert histogram.upper_quantile_ms(0.5) == 0
    values = [0.05 * 1.01**i for i in range(1000)]
    Random(1).shuffle(values)
    for value in values:
        histogram.add(value / 1000)
    for share in (0.01, 0.5, 0.9, 0.99):
        exact = sorted(values)[int(share * len(values)) - 1]
        assert exact <= histogram.upper_quantile_ms(share) <= 1.2 * exact


def test_equal_durations_stay_below_their_upper_quantile() -> None:
    for ms in range(1, 1000):
        histogram = Histogram(steps=4)
        histogram.add_ms(ms, 10)
        assert ms <= histogram.upper_quantile_ms(0.99) <= 1.2 * ms


@pytest.mark.parametrize("in_ms", [True, False])
def test_with_decay_quantiles_follow_a_change(in_ms: bool) -> None:
    histogram, forever = Histogram(decay=1024), Histogram()
    for ms in [1] * 5000 + [100] * 1500:
        for each in (histogram, forever):
            if in_ms:
                each.add_ms(ms)
            else:
                each.add(ms / 1000)
    assert histogram.count < 1024
    assert histogram.quantile_ms(0.5) == pytest.approx(100, rel=0.03)
    assert forever.count == 6500
    assert forever.quantile_ms(0.5) == pytest.approx(1, rel=0.03)


@given(st.lists(st.floats(1e-7, 300.0), max_size=200), st.sampled_from([None, 16]))
def test_counters_are_exact_at_their_bounds_and_never_decrease(
    values: list[float], decay: int | None
) -> None:
    histogram = Histogram(steps=4, decay=decay)
    before: tuple[list[int], int, float] = ([0] * len(BOUNDS_S), 0, 0.0)
    for value in values:
        histogram.add(value)
        below, count, total_s = histogram.counters()
        assert all(new >= old for new, old in zip(below, before[0], strict=True))
        assert (count, total_s) > (before[1], before[2])
        before = below, count, total_s
    assert before[1] == len(values)
    for bound, count in zip(BOUNDS_S, before[0], strict=True):
        near = sum(math.isclose(value, bound) for value in values)
        assert abs(count - sum(value <= bound for value in values)) <= near


def test_bounds_are_doubled_from_a_tenth_of_a_millisecond_to_a_minute() -> None:
    assert BOUNDS_S[0] == pytest.approx(0.000128)
    assert BOUNDS_S[-1] == pytest.approx(67.108864)
    assert all(b == 2 * a for a, b in pairwise(BOUNDS_S))

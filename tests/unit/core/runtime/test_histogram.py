"""Quantiles of the histogram are within 3 % of those of sorted lists."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.runtime.histogram import Histogram


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

"""The lower median of an even count is one of the values."""

from rhumbline.core.runtime.primitives.lower_median import lower_median


def test_median_is_the_middle_value_or_the_lower_one_of_two() -> None:
    assert lower_median([]) == 0.0
    assert lower_median([7]) == 7
    assert lower_median([9, 1]) == 1
    assert lower_median(iter([5, 100, 3])) == 5
    assert lower_median([4, 3, 2, 1]) == 2

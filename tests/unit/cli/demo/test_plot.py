"""Plots: a series of any length is scaled to the columns and keeps its shape."""

from rhumbline.cli.demo.plot import bars, fit


def test_long_series_is_reduced_to_means() -> None:
    assert fit([1, 3, 5, 7], 4, 2) == [2, 6]
    assert fit([], 5, 5) == []
    assert len(fit(list(range(1000)), 1000, 36)) == 36


def test_short_series_is_stretched_and_leaves_room_for_the_rest() -> None:
    assert fit([1, 2], 2, 4) == [1, 1, 2, 2]
    assert fit([1, 2], 4, 4) == [1, 2]
    assert fit([1, 2, 3], 2, 3) == [1, 2, 3]


def test_zeros_do_not_count_in_a_mean() -> None:
    assert fit([0, 4, 0, 0], 4, 2) == [4, 0]


def test_largest_value_fills_the_height_and_zero_is_empty() -> None:
    text = bars([0, 5, 10], [False, False, True], total=9, width=9, height=2, style="cyan")
    assert text.plain == "  █\n ██"
    assert [span.style for span in text.spans if "█" in text.plain[span.start : span.end]] == [
        "red", "cyan", "red",
    ]  # fmt: skip

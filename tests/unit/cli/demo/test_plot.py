"""Plots: a series of any length fits the columns, and its shape stays."""

from rhumbline.cli.demo.plot import bars, fit


def test_a_long_series_is_squeezed_to_means() -> None:
    assert fit([1, 3, 5, 7], 4, 2) == [2, 6]
    assert fit([], 5, 5) == []
    assert len(fit(list(range(1000)), 1000, 36)) == 36


def test_a_short_series_is_stretched_and_leaves_room_for_the_rest() -> None:
    assert fit([1, 2], 2, 4) == [1, 1, 2, 2]
    assert fit([1, 2], 4, 4) == [1, 2]
    assert fit([1, 2, 3], 2, 3) == [1, 2, 3]


def test_nothing_happened_is_no_part_of_a_mean() -> None:
    assert fit([0, 4, 0, 0], 4, 2) == [4, 0]


def test_the_largest_value_fills_the_height_and_zero_is_empty() -> None:
    text = bars([0, 5, 10], [False, False, True], total=9, width=9, height=2, style="cyan")
    assert text.plain == "  █\n ██"
    assert [span.style for span in text.spans if "█" in text.plain[span.start : span.end]] == [
        "red", "cyan", "red",
    ]  # fmt: skip

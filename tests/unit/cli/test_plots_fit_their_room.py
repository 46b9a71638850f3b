"""Plots: a series of any length fits the columns, and its shape stays."""

from rhumbline.cli.demo.plot import bars, squeeze


def test_a_long_series_is_squeezed_to_means() -> None:
    assert squeeze([1, 3, 5, 7], 2) == [2, 6]
    assert squeeze([], 5) == []
    assert len(squeeze(list(range(1000)), 36)) <= 36


def test_nothing_happened_is_no_part_of_a_mean() -> None:
    assert squeeze([0, 4, 0, 0], 2) == [4, 0]


def test_the_largest_value_fills_the_height_and_zero_is_empty() -> None:
    text = bars([0, 5, 10], [False, False, True], width=10, height=2, style="cyan")
    assert text.plain == "  █\n ██"
    assert [span.style for span in text.spans if "█" in text.plain[span.start : span.end]] == [
        "red", "cyan", "red",
    ]  # fmt: skip

"""Plots: a series of any length is scaled to the columns and keeps its shape."""

from rhumbline.cli.demo.plot import axis_label, bars, fit, plot


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


def test_a_plot_has_axes_and_names_the_cut() -> None:
    cut = [False] * 5 + [True] * 12 + [False] * 3
    text = plot([4.0] * 20, cut, unit="ms", total=20, width=26, height=4, style="cyan")
    lines = text.plain.split("\n")
    assert lines[0] == "4.0ms┤" + "█" * 20
    assert lines[2] == "    0┤" + "█" * 20
    assert lines[3] == "     └─────━ cut off ━━───"
    assert {len(line) for line in lines} == {26}
    flat = plot([], [], unit="/s", total=20, width=26, height=2, style="cyan").plain.split("\n")
    assert flat == ["0/s┤", "  0┤"]


def test_labels_are_short() -> None:
    labels = [axis_label(value, "/s") for value in (0, 0.31, 9.94, 45.2, 9_999, 123_456)]
    assert labels == ["0/s", "0.3/s", "9.9/s", "45/s", "9999/s", "123k/s"]

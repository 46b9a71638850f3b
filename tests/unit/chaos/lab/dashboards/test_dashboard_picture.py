"""A drawn dashboard shows every panel with its unit, its legends and its limit."""

from xml.etree import ElementTree

import pytest

from rhumbline.chaos.lab.dashboards.dashboard_picture import (
    Mark,
    draw_dashboard,
    nice_step,
    show_value,
)
from rhumbline.chaos.lab.dashboards.panel_series import Line, PanelPicture

PLACE = {"x": 0, "y": 1, "w": 8, "h": 8}


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0, "s", "0"),
        (0.0025, "s", "2.5 ms"),
        (90, "s", "1.5 min"),
        (3 * 2**20, "bytes", "3 MiB"),
        (2048, "Bps", "2 KiB/s"),
        (1500, "ops", "1.5k/s"),
        (0.5, "percentunit", "50 %"),
        (12, "short", "12"),
    ],
)
def test_values_are_shown_with_their_units(value: float, unit: str, expected: str) -> None:
    assert show_value(value, unit) == expected


@pytest.mark.parametrize(
    ("highest", "unit", "step"), [(0, "s", 1), (7, "short", 2), (97, "ops", 50)]
)
def test_axis_has_a_few_round_steps(highest: float, unit: str, step: float) -> None:
    assert nice_step(highest, unit) == step
    assert nice_step(3 * 2**20, "bytes") == 2**20


def test_panels_without_data_say_so_and_others_have_lines_and_legends() -> None:
    lines = [Line(f"bookie-{n} <&>", [(0, n), (10, n + 1), (100, 3)]) for n in range(30)]
    panels = [
        PanelPicture("Disks", {**PLACE, "y": 0, "h": 1}, is_row=True),
        PanelPicture("Free", PLACE, unit="bytes", limit=2, lines=lines),
        PanelPicture("Nothing", {**PLACE, "x": 8}, lines=[Line("x", [])]),
    ]
    text = draw_dashboard("Bookies", panels, 100.0, [Mark(50, "lose-disk")])
    ElementTree.fromstring(text)
    assert text.count("No data") == 1
    assert text.count('stroke-width="1.4"') == 30
    assert "bookie-0 &lt;&amp;&gt;" in text and " more</text>" in text
    assert "lose-disk" in text and 'stroke-dasharray="6 4"' in text

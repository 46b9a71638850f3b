"""The page of a profile: bars on a time axis, and a row for each stream."""

import re
from datetime import UTC, datetime, timedelta

from rhumbline.spark.jobs.profile_page import Hour, render_page

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


def hour(stream: str, after: int, records: int, keys: int = 0) -> Hour:
    size = records * 10
    return Hour(
        stream, records, size, 10, 10, 10, 10, keys, keys, NINE + timedelta(hours=after), 0.1
    )


def bars(page: str) -> list[list[tuple[float, float, str]]]:
    """Return the left edge, the width and the description of the bars of each plot."""
    pattern = r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="[\d.]+"><title>([^<]*)<'
    return [
        [(float(left), float(width), text) for left, width, text in re.findall(pattern, plot)]
        for plot in page.split("<h2>")[1:]
    ]


def test_streams_are_added_up_by_hour_and_hours_without_records_are_gaps() -> None:
    page = render_page([hour("a", 0, 5), hour("b", 0, 7, keys=2), hour("a", 47, 1)])
    records, payload, _, keys, table = bars(page)
    assert [text for _, _, text in records] == ["2026-03-01 09:00: 12", "2026-03-03 08:00: 1"]
    assert [text for _, _, text in payload] == ["2026-03-01 09:00: 120", "2026-03-03 08:00: 10"]
    assert [(left, width) for left, width, _ in records] == [(0, 15), (705, 15)]
    assert [text.partition(": ")[2] for _, _, text in keys] == ["2", "0"]
    assert table == []
    assert "<tr><td>b</td><td>1</td><td>7</td><td>70</td><td>10</td><td>10</td><td>2</td>" in page


def test_a_single_hour_is_a_narrow_bar_on_the_axis_of_a_day() -> None:
    page = render_page([hour("a", 0, 5)])
    assert bars(page)[0] == [(0, 30, "2026-03-01 09:00: 5")]
    assert "2026-03-02 08:00" in page


def test_a_measure_without_values_is_none() -> None:
    assert render_page([]).count("<p>None.</p>") == 4
    assert render_page([hour("a", 0, 5)]).count("<p>None.</p>") == 1, "no record has a key"

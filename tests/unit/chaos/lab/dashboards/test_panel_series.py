"""Panels are read from the dashboard files themselves, and their queries from Prometheus."""

from typing import Any

import pytest

from rhumbline.chaos.lab.dashboards.draw_all import DASHBOARDS
from rhumbline.chaos.lab.dashboards.panel_series import PrometheusRange, legend_of, read_panels

LABELS = (
    "form", "instance", "job", "kind", "level", "operation", "reason", "region", "regions",
    "result", "state", "verdict", "version",
)  # fmt: skip
SERIES = {"metric": {label: "x" for label in LABELS}, "values": [[1000, "1"], [1010, "NaN"]]}


class Answering(PrometheusRange):
    """A Prometheus that has one series for every query."""

    def query(self, expression: str) -> list[dict[str, Any]]:
        assert "rhumbline" in expression or "process" in expression
        return [SERIES]


def test_legends_contain_labels() -> None:
    assert legend_of("{{region}} p99", {"region": "oslo"}) == "oslo p99"
    assert legend_of("{{missing}}", {}) == ""


@pytest.mark.parametrize("name", ["overview", "bookies"])
def test_every_panel_of_the_files_is_read(name: str) -> None:
    source = Answering("nowhere", 1000.0, 1100.0, 10)
    _, panels = read_panels(DASHBOARDS / f"{name}.json", source)
    shown = [panel for panel in panels if not panel.is_row]
    assert len(shown) > 15
    for panel in shown:
        assert all(line.points == [(0.0, 1.0)] for line in panel.lines), panel.title
        assert all(line.legend for line in panel.lines), panel.title

"""The panels of a dashboard file, and the series that Prometheus returns for their queries."""

import json
import math
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POINTS = 140
"""Number of values of each series."""
_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_HTTP_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a panel: its legend, and (seconds since the start, value)."""

    legend: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class PanelPicture:
    """A panel, or the title of a row, with its place in Grafana's grid of 24 columns."""

    title: str
    place: Mapping[str, int]
    is_row: bool = False
    unit: str = "short"
    limit: float | None = None
    """The threshold that is drawn as a dashed line."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """Colours of series by legend; the others get one of Grafana's palette."""
    lines: Sequence[Line] = ()


class PrometheusRange:
    """Queries of a Prometheus over one range of time."""

    def __init__(self, address: str, began_s: float, ended_s: float, rate_s: int) -> None:
        """Times are in seconds since the epoch; ``rate_s`` replaces ``$__rate_interval``."""
        self.span_s = ended_s - began_s
        self._address = address
        self._began_s = began_s
        self._variables = {"$__rate_interval": f"{rate_s}s", "$instance": ".*"}

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression. Raises OSError."""
        for name, value in self._variables.items():
            expression = expression.replace(name, value)
        arguments = {
            "query": expression,
            "start": self._began_s,
            "end": self._began_s + self.span_s,
            "step": self.span_s / POINTS,
        }
        url = f"http://{self._address}/api/v1/query_range?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=_HTTP_TIMEOUT_S) as response:
            found: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return found

    def lines(self, expression: str, legend: str) -> list[Line]:
        """Return the series of an expression with their legends. Raises OSError."""
        return [
            Line(
                legend_of(legend, series["metric"]),
                [
                    (float(at_s) - self._began_s, float(value))
                    for at_s, value in series["values"]
                    if math.isfinite(float(value))
                ],
            )
            for series in self.query(expression)
        ]


def legend_of(pattern: str, labels: Mapping[str, str]) -> str:
    """Return a legend with labels in the place of ``{{label}}``."""
    return _LABEL.sub(lambda found: labels.get(found[1], ""), pattern).strip()


def read_panels(dashboard: Path, source: PrometheusRange) -> tuple[str, list[PanelPicture]]:
    """Return the title of a dashboard file, and its panels with their series. Raises OSError."""
    document = json.loads(dashboard.read_text())
    return document["title"], [_panel(panel, source) for panel in document["panels"]]


def _panel(panel: Mapping[str, Any], source: PrometheusRange) -> PanelPicture:
    title, place = panel["title"], panel["gridPos"]
    if panel["type"] == "row":
        return PanelPicture(title, place, is_row=True)
    shown = panel["fieldConfig"]
    steps = shown["defaults"].get("thresholds", {}).get("steps", ())
    limits = [step["value"] for step in steps if step["value"] is not None]
    lines = [
        line
        for target in panel["targets"]
        for line in source.lines(target["expr"], target["legendFormat"])
    ]
    colours = {
        rule["matcher"]["options"]: setting["value"]["fixedColor"]
        for rule in shown["overrides"]
        for setting in rule["properties"]
        if setting["id"] == "color"
    }
    return PanelPicture(
        title,
        place,
        unit=shown["defaults"]["unit"],
        limit=limits[0] if limits else None,
        colours=colours,
        lines=lines,
    )

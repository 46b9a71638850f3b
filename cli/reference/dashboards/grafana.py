"""Generates the Grafana dashboards from the table of their panels."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .bookies import BOOKIES
from .overview import OVERVIEW
from .panels import Dashboard, Panel, Query

DASHBOARDS = (OVERVIEW, BOOKIES)

_SCHEMA = 39
_WIDTH = 24
_HEIGHT = 8
_SOURCE = {"type": "prometheus", "uid": "${source}"}


def dashboard_files() -> Mapping[str, str]:
    """Return the text of each dashboard by the name of its file."""
    return {
        f"{dashboard.uid.removeprefix('rhumbline-')}.json": (
            json.dumps(_dashboard(dashboard), indent=2) + "\n"
        )
        for dashboard in DASHBOARDS
    }


def write_dashboards(directory: Path) -> None:
    """Write all dashboards to ``directory``."""
    for name, text in dashboard_files().items():
        (directory / name).write_text(text, encoding="utf-8")


def _dashboard(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["rhumbline"],
        "schemaVersion": _SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables(dashboard))},
        "panels": list(_panels(dashboard)),
    }


def _variables(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    yield {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}
    if dashboard.has_instances:
        yield {
            "name": "instance",
            "label": "Bookie",
            "type": "query",
            "datasource": _SOURCE,
            "query": "label_values(rhumbline_bookie_ready, instance)",
            "refresh": 2,
            "includeAll": True,
            "allValue": ".*",
            "multi": True,
            "current": {"text": "All", "value": "$__all"},
        }


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    number, y = 0, 0
    for row in dashboard.rows:
        number += 1
        title_place = {"x": 0, "y": y, "w": _WIDTH, "h": 1}
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "gridPos": title_place,
            "panels": [],
        }
        y += 1
        columns = 4 if len(row.panels) == 4 else 3
        width = _WIDTH // columns
        for index, panel in enumerate(row.panels):
            number += 1
            place = {"x": index % columns * width, "y": y + index // columns * _HEIGHT}
            yield _panel(number, panel, {**place, "w": width, "h": _HEIGHT})
        y += -(-len(row.panels) // columns) * _HEIGHT


def _panel(number: int, panel: Panel, place: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.help,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": _defaults(panel),
            "overrides": [_colour(*each) for each in panel.colours.items()],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [_target(index, query) for index, query in enumerate(panel.queries)],
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10}}
    if panel.limit is not None:
        defaults["custom"]["thresholdsStyle"] = {"mode": "dashed"}
        steps = [{"color": "green", "value": None}, {"color": "red", "value": panel.limit}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return defaults


def _colour(legend: str, name: str) -> dict[str, Any]:
    return {
        "matcher": {"id": "byName", "options": legend},
        "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": name}}],
    }


def _target(index: int, query: Query) -> dict[str, Any]:
    return {
        "refId": chr(ord("A") + index),
        "datasource": _SOURCE,
        "expr": query.expression,
        "legendFormat": query.legend,
    }

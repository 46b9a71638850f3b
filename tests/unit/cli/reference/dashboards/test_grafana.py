"""The dashboards are valid, and their queries name metrics that exist."""

import json
import re
from typing import Any

import pytest

from rhumbline.cli.reference.dashboards.grafana import DASHBOARDS, dashboard_files
from rhumbline.cli.reference.dashboards.panels import Dashboard, Query
from rhumbline.core.runtime.metrics import CATALOGUE, MetricType
from rhumbline.server.prometheus_exposition import BUILD_INFO

FILES = {name: json.loads(text) for name, text in dashboard_files().items()}


def queries(dashboard: Dashboard) -> list[Query]:
    return [query for row in dashboard.rows for panel in row.panels for query in panel.queries]


def exported_names() -> set[str]:
    found = {BUILD_INFO}
    for metric in CATALOGUE:
        parts = ("_bucket", "_sum", "_count") if metric.type is MetricType.HISTOGRAM else ("",)
        found |= {f"{metric.prometheus_name}{part}" for part in parts}
    return found


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: str(one.uid))
def test_queries_name_metrics_that_exist(dashboard: Dashboard) -> None:
    named = {
        name for q in queries(dashboard) for name in re.findall(r"rhumbline_\w+", q.expression)
    }
    assert sorted(named - exported_names()) == []


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: str(one.uid))
def test_counters_are_shown_as_rates(dashboard: Dashboard) -> None:
    for query in queries(dashboard):
        for name in re.findall(r"\w+_total|\w+_bucket", query.expression):
            assert re.search(rf"(rate|increase)\({name}\b", query.expression), query.expression


@pytest.mark.parametrize("name", FILES)
def test_panels_do_not_overlap_and_have_their_own_ids(name: str) -> None:
    panels = FILES[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [cell for panel in panels for cell in covered(panel["gridPos"])]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def covered(place: dict[str, Any]) -> list[tuple[int, int]]:
    xs = range(place["x"], place["x"] + place["w"])
    return [(x, y) for x in xs for y in range(place["y"], place["y"] + place["h"])]


@pytest.mark.parametrize("name", FILES)
def test_panels_say_what_they_show_and_use_the_selected_source(name: str) -> None:
    for panel in FILES[name]["panels"]:
        if panel["type"] != "row":
            assert panel["title"] and panel["description"].endswith(".")
            assert panel["datasource"]["uid"] == "${source}"
            assert [target["refId"] for target in panel["targets"]] == list(
                "ABCDEFGH"[: len(panel["targets"])]
            )

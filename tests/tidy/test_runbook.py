"""Every alert has a section of the runbook, and every section an alert."""

import re
from typing import Any

import pytest
import yaml

from rhumbline.cli.reference.reference_pages import COMMANDS_FILE
from rhumbline.core.runtime.metrics import CATALOGUE, MetricType
from rhumbline.tests.support.tidy.source_tree import ROOT

RULES = "deploy/prometheus/alerts.yml"
RUNBOOK = "docs/how-to/runbook.md"
PARTS = ["Meaning", "Confirm", "Do", "Clears"]
SECTION = re.compile(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((ROOT / RULES).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def sections() -> dict[str, str]:
    return dict(SECTION.findall((ROOT / RUNBOOK).read_text()))


def test_every_alert_has_a_section_in_the_same_order_and_vice_versa() -> None:
    names = [alert["alert"] for alert in alerts()]
    assert len(set(names)) == len(names) > 20
    assert sorted(sections()) == sorted(names)


@pytest.mark.parametrize("name", sections())
def test_section_says_what_it_means_how_to_confirm_what_to_do_and_how_it_clears(name: str) -> None:
    assert re.findall(r"^- \*\*(\w+)\*\*: ", sections()[name], re.MULTILINE) == PARTS


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_alert_has_a_severity_a_summary_and_its_section(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in ("critical", "warning")
    assert alert["annotations"]["summary"]
    assert alert["annotations"]["runbook"] == f"{RUNBOOK}#{alert['alert'].lower()}"
    assert "for" in alert, "a single scrape must not wake anybody"


def test_commands_of_the_runbook_exist() -> None:
    known = re.findall(r"^## (.*)$", (ROOT / "docs/reference" / COMMANDS_FILE).read_text(), re.M)
    text = " ".join((ROOT / RUNBOOK).read_text().split())
    named = set(re.findall(r"`(rhumbline [a-z -]+)`", text))
    assert len(named) > 20
    missing = [
        name for name in named if not any(f"{line} ".startswith(f"{name} ") for line in known)
    ]
    assert missing == []


def exported_names() -> set[str]:
    """Return the names of all series that servers export, without those of every process."""
    found = set()
    for metric in CATALOGUE:
        name = metric.prometheus_name
        parts = ("_bucket", "_sum", "_count") if metric.type is MetricType.HISTOGRAM else ("",)
        found |= {f"{name}{part}" for part in parts}
    return found


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_alert_uses_metrics_that_exist(alert: dict[str, Any]) -> None:
    named = set(re.findall(r"rhumbline_\w+", alert["expr"]))
    assert sorted(named - exported_names()) == []


def test_metrics_named_in_the_runbook_exist() -> None:
    named = set(re.findall(r"rhumbline_\w+", (ROOT / RUNBOOK).read_text()))
    known = exported_names() | {metric.prometheus_name for metric in CATALOGUE}
    assert sorted(named - known) == []

"""Every alert fires when it should and only then, as promtool evaluates the rules."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rhumbline.tests.integration.monitoring.alert_cases import CASES, AlertCase
from rhumbline.tests.support.servers import installs
from rhumbline.tests.support.tidy.source_tree import ROOT

RULES = ROOT / "deploy/prometheus/alerts.yml"

pytestmark = pytest.mark.needs_server("prometheus")


@pytest.fixture(scope="module")
def promtool() -> Path:
    try:
        return installs.promtool_binary()
    except installs.NotInstalledError as error:
        pytest.skip(str(error))


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def unit_tests(case: AlertCase) -> list[dict[str, Any]]:
    """Return the case in promtool's form: it fires, and with quiet series it does not."""
    rule = alerts()[case.alert]
    expected = {
        "exp_labels": {**case.labels, "severity": rule["labels"]["severity"]},
        "exp_annotations": {"summary": case.summary, "runbook": rule["annotations"]["runbook"]},
    }
    fires = {"eval_time": f"{case.minutes}m", "exp_alerts": [expected]}
    too_early = {"eval_time": "30s", "exp_alerts": []}  # "for" has not passed
    is_quiet = {"eval_time": f"{case.minutes}m", "exp_alerts": []}
    return [
        _unit_test(case, case.firing, too_early, fires),
        _unit_test(case, case.quiet, is_quiet),
    ]


def _unit_test(case: AlertCase, series: dict[str, str], *looks: dict[str, Any]) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"alertname": case.alert, **look} for look in looks],
    }


def test_every_alert_has_a_case() -> None:
    assert [case.alert for case in CASES] == list(alerts())


def test_alerts_fire_when_they_should_and_only_then(promtool: Path, tmp_path: Path) -> None:
    file = tmp_path / "tests.yml"
    tests = [test for case in CASES for test in unit_tests(case)]
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    checked = subprocess.run(
        [promtool, "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_wrong_case_is_noticed(promtool: Path, tmp_path: Path) -> None:
    wrong = CASES[0]._replace(summary="nothing happened")
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": unit_tests(wrong)}))
    checked = subprocess.run(
        [promtool, "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert "nothing happened" in checked.stdout + checked.stderr
    assert checked.returncode != 0


def test_sample_configuration_is_valid(promtool: Path) -> None:
    config = ROOT / "deploy/prometheus/prometheus.yml"
    checked = subprocess.run(
        [promtool, "check", "config", config], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr

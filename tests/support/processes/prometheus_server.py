"""A Prometheus server that scrapes a cluster and evaluates the alert rules of this repository."""

import json
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rhumbline.chaos.managed_process import ManagedProcess
from rhumbline.tests.support.tidy.source_tree import ROOT

RULES = ROOT / "deploy/prometheus/alerts.yml"
_TIMEOUT_S = 10
_READY_S_MAX = 60


class ActiveAlert(NamedTuple):
    """An alert that fires, or whose condition holds and that will fire soon."""

    name: str
    is_firing: bool
    summary: str
    severity: str


class PrometheusServer(ManagedProcess):
    """Scrapes ``targets``, status addresses by job, every ``interval_s`` seconds."""

    def __init__(
        self,
        folder: Path,
        binary: Path,
        port: int,
        targets: Mapping[str, Sequence[str]],
        *,
        interval_s: int = 1,
    ) -> None:
        self.url = f"http://127.0.0.1:{port}"
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "prometheus.yml"
        config.write_text(json.dumps(_config(targets, interval_s)), encoding="utf-8")  # is YAML
        super().__init__(
            "prometheus",
            [
                str(binary),
                f"--config.file={config}",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            folder / "prometheus.log",
            ready=self._is_serving,
            ready_s_max=_READY_S_MAX,
        )

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an instant query. Raises OSError, ValueError with the reason."""
        found = self._get("query", query=expression)["result"]
        assert isinstance(found, list)
        return found

    def alerts(self) -> list[ActiveAlert]:
        """Return the alerts that fire or are about to, by name."""
        return sorted(
            ActiveAlert(
                alert["labels"]["alertname"],
                alert["state"] == "firing",
                alert["annotations"]["summary"],
                alert["labels"]["severity"],
            )
            for alert in self._get("alerts")["alerts"]
        )

    def rules(self) -> list[dict[str, Any]]:
        """Return all rules with their health and the time of their last evaluation."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def unhealthy_targets(self) -> list[str]:
        """Return the targets that were not scraped successfully, with the error."""
        return [
            f"{target['scrapeUrl']}: {target['lastError'] or target['health']}"
            for target in self._get("targets")["activeTargets"]
            if target["health"] != "up"
        ]

    def _get(self, path: str, **arguments: str) -> dict[str, Any]:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
                data = json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{arguments or path}: {error.read().decode()[:500]}") from error
        assert isinstance(data, dict)
        return data

    def _is_serving(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=_TIMEOUT_S) as response:
                return bool(response.status == 200)
        except OSError:
            return False


def _config(targets: Mapping[str, Sequence[str]], interval_s: int) -> dict[str, Any]:
    return {
        "global": {
            "scrape_interval": f"{interval_s}s",
            "scrape_timeout": f"{interval_s}s",
            "evaluation_interval": f"{interval_s}s",
        },
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": list(addresses)}]}
            for job, addresses in targets.items()
        ],
    }

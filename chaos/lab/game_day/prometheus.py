"""A real Prometheus with the alert rules of the product, whose times are shortened."""

import json
import re
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...managed_process import ManagedProcess
from ..ports import free_port
from ..wan.processes import find_program

SCRAPE_S = 2
"""Interval of scrapes and of evaluations."""

_RANGE_S_MIN = 4 * SCRAPE_S
"""Shortest range of a rate: it must contain several scrapes."""

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FOR = re.compile(r"^(\s+for:\s*)(\d+)([smhd])[ \t]*$", re.MULTILINE)
_RANGE = re.compile(r"\[(\d+)([smhd])\]")


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that Prometheus reports as firing."""

    name: str
    subject: str
    """The labels that tell it from others of its name."""
    severity: str
    summary: str


def scaled_rules(text: str, scale: float) -> str:
    """Return rules whose times (``for`` and the ranges of rates) are divided by ``scale``.

    Thresholds stay as they are.
    """

    def shorter_for(found: re.Match[str]) -> str:
        return f"{found[1]}{max(1, round(int(found[2]) * _UNIT_S[found[3]] / scale))}s"

    def shorter_range(found: re.Match[str]) -> str:
        seconds = int(found[1]) * _UNIT_S[found[2]] / scale
        return f"[{max(_RANGE_S_MIN, round(seconds))}s]"

    return _RANGE.sub(shorter_range, _FOR.sub(shorter_for, text))


def configuration(targets: Mapping[str, Mapping[str, str]]) -> str:
    """Return a configuration that scrapes ``targets``: addresses by instance by job."""
    lines = [
        "global:",
        f"  scrape_interval: {SCRAPE_S}s",
        f"  scrape_timeout: {SCRAPE_S}s",
        f"  evaluation_interval: {SCRAPE_S}s",
        "rule_files: [alerts.yml]",
        "scrape_configs:",
    ]
    for job, addresses in targets.items():
        lines += [f"  - job_name: {job}", "    static_configs:"]
        for instance, address in addresses.items():
            lines.append(f'      - {{targets: ["{address}"], labels: {{instance: "{instance}"}}}}')
    return "\n".join(lines) + "\n"


def firing_alerts(document: Mapping[str, object]) -> list[Alert]:
    """Return the firing alerts of a response of ``/api/v1/alerts``."""
    data = document["data"]
    assert isinstance(data, Mapping)
    return [_alert(item) for item in data["alerts"] if item["state"] == "firing"]


def _alert(item: Mapping[str, Mapping[str, str]]) -> Alert:
    labels = item["labels"]
    subject = " ".join(
        text for key, text in sorted(labels.items()) if key in ("instance", "region", "level")
    )
    summary = item["annotations"].get("summary", "")
    return Alert(labels["alertname"], subject, labels.get("severity", ""), summary)


class Prometheus:
    """The process, its configuration, and the alerts that fire."""

    def __init__(self, servers: Path, folder: Path) -> None:
        program = find_program(
            "prometheus",
            servers / "prometheus" / "usr" / "bin" / "prometheus",
            hint="install the distribution's prometheus",
        )
        self.address = f"127.0.0.1:{free_port()}"
        self._folder = folder
        self._process = ManagedProcess(
            "prometheus",
            [
                str(program), f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/prometheus", f"--web.listen-address={self.address}",
            ],
            folder / "prometheus.log",
            ready="ready to receive web requests",
            cwd=folder,
        )  # fmt: skip

    def start(self, rules: str, targets: Sequence[tuple[str, str, str]]) -> None:
        """Start it with these rules and targets: (job, instance, address)."""
        jobs: dict[str, dict[str, str]] = {}
        for job, instance, address in targets:
            jobs.setdefault(job, {})[instance] = address
        (self._folder / "alerts.yml").write_text(rules)
        (self._folder / "prometheus.yml").write_text(configuration(jobs))
        self._process.start()

    def alerts(self) -> list[Alert]:
        """Return the alerts that fire now. Raises OSError."""
        url = f"http://{self.address}/api/v1/alerts"
        with urllib.request.urlopen(url, timeout=10) as response:
            return firing_alerts(json.load(response))

    def stop(self) -> None:
        """End the process. Safe to repeat."""
        self._process.kill()

"""The linter of Prometheus finds no fault in the names, units and help texts of any metric."""

import subprocess
from typing import Any

import pytest

from rhumbline.core.runtime.histogram import Histogram
from rhumbline.core.runtime.metrics import CATALOGUE, MetricType
from rhumbline.server.prometheus_exposition import exposition, registry_of
from rhumbline.tests.support.servers import installs

SERVICES = ("bookie", "proxy", "repair", "archive", "client")


def all_statistics(service: str) -> dict[str, Any]:
    """Return statistics of a service that contain every metric of the catalogue once."""
    found: dict[str, Any] = {}
    for metric in CATALOGUE:
        first, *parts, last = metric.path.split(".")
        if first != service:
            continue
        below = found
        for part in parts:
            below = below.setdefault(part, {})
        is_histogram = metric.type is MetricType.HISTOGRAM
        below[last] = Histogram().summary() if is_histogram else 1
    return found


@pytest.mark.needs_server("prometheus")
@pytest.mark.parametrize("service", SERVICES)
def test_promtool_finds_no_fault_in_any_metric(service: str) -> None:
    try:
        promtool = installs.promtool_binary()
    except installs.NotInstalledError as error:
        pytest.skip(str(error))
    text = exposition(registry_of(service, lambda: all_statistics(service)))
    expected = [m.prometheus_name for m in CATALOGUE if m.path.startswith(f"{service}.")]
    assert all(f"# TYPE {name} ".encode() in text for name in expected)
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")

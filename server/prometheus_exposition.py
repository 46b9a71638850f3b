"""A Prometheus collector for the statistics of one service, and their text form.

Besides the metrics of the catalogue, every server exports ``rhumbline_build_info`` and the
``process_`` metrics of the Prometheus client library.
"""

import platform
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample as FamilySample

from ..core.protocol.installation import installed_form, installed_version
from ..core.runtime.metrics import samples

BUILD_INFO = "rhumbline_build_info"
BUILD_LABELS = ("version", "python", "form")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of ``exposition``."""


class ServiceCollector(Collector):
    """Collects the metrics of the catalogue from the statistics of a service."""

    def __init__(self, service: str, statistics: Callable[[], Mapping[str, Any]]) -> None:
        self._service = service
        self._statistics = statistics

    def collect(self) -> Iterator[MetricFamily]:
        """Yield all metrics that the statistics contain, in the order of the catalogue."""
        for metric, values in samples(self._service, self._statistics()).items():
            name = metric.prometheus_name
            family = MetricFamily(name.removesuffix("_total"), metric.help, metric.type)
            for value in values:
                sample_name = f"{name}_{value.part}" if value.part else name
                family.samples.append(FamilySample(sample_name, dict(value.labels), value.value))
            yield family


class BuildCollector(Collector):
    """Collects the version of the program, in labels of a metric that is always 1."""

    def collect(self) -> Iterator[MetricFamily]:
        """Yield the metric."""
        family = GaugeMetricFamily(
            BUILD_INFO,
            "1, with the version, that of Python, and the form of the program in labels.",
            labels=BUILD_LABELS,
        )
        family.add_metric((installed_version(), platform.python_version(), installed_form()), 1)
        yield family


def registry_of(service: str, statistics: Callable[[], Mapping[str, Any]]) -> CollectorRegistry:
    """Return a registry with the metrics of one service, of its process and of its build."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServiceCollector(service, statistics))
    registry.register(BuildCollector())
    ProcessCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    """Return all metrics of the registry in the Prometheus text format 0.0.4."""
    return generate_latest(registry)

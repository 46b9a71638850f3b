"""Adds the histograms of the catalogue to what an exporter sends.

OpenTelemetry has no observable histograms: its histograms want every value, which would cost a call
for each entry. So the counts of the process are put into the exported data directly.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    MetricExporter,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.metrics.export import Metric as ExportedMetric

from ..core.runtime.histogram import BOUNDS_S
from ..core.runtime.metrics import Labels, Metric, MetricType, Sample
from .messaging import MessagingMetric

Values = Mapping[Metric | MessagingMetric, Sequence[Sample]]


class HistogramExporter(MetricExporter):
    """Exports with another exporter, and adds the histograms among ``values``."""

    def __init__(self, inner: MetricExporter) -> None:
        super().__init__()
        self.values: Callable[[], Values] = dict
        """Returns the last snapshot; called from any thread."""
        self._inner = inner
        self._started_ns = time.time_ns()

    def export(
        self,
        metrics_data: MetricsData,
        timeout_millis: float = 10_000,
        **kwargs: Any,  # noqa: ANN401 - the interface of the SDK
    ) -> MetricExportResult:
        """See MetricExporter."""
        added = histograms(self.values(), self._started_ns, time.time_ns())
        first, *others = metrics_data.resource_metrics
        scope, *scopes = first.scope_metrics
        scope = replace(scope, metrics=[*scope.metrics, *added])
        data = replace(
            metrics_data,
            resource_metrics=[replace(first, scope_metrics=[scope, *scopes]), *others],
        )
        return self._inner.export(data, timeout_millis=timeout_millis, **kwargs)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """See MetricExporter."""
        return self._inner.force_flush(timeout_millis)

    def shutdown(
        self,
        timeout_millis: float = 30_000,
        **kwargs: Any,  # noqa: ANN401 - the interface of the SDK
    ) -> None:
        """See MetricExporter."""
        self._inner.shutdown(timeout_millis=timeout_millis, **kwargs)


def histograms(values: Values, started_ns: int, now_ns: int) -> list[ExportedMetric]:
    """Return the histograms among ``values`` in the form that exporters expect."""
    return [
        ExportedMetric(
            metric.name,
            metric.help,
            metric.unit,
            Histogram(
                [_point(labels, parts, started_ns, now_ns) for labels, parts in _rows(some)],
                AggregationTemporality.CUMULATIVE,
            ),
        )
        for metric, some in values.items()
        if metric.type is MetricType.HISTOGRAM
    ]


def _rows(some_samples: Sequence[Sample]) -> list[tuple[Labels, list[Sample]]]:
    """Return the samples of each combination of labels."""
    rows: dict[Labels, list[Sample]] = {}
    for sample in some_samples:
        labels = tuple(pair for pair in sample.labels if pair[0] != "le")
        rows.setdefault(labels, []).append(sample)
    return list(rows.items())


def _point(
    labels: Labels, some_samples: list[Sample], started_ns: int, now_ns: int
) -> HistogramDataPoint:
    below = [int(sample.value) for sample in some_samples if sample.part == "bucket"]
    (total_s,) = (sample.value for sample in some_samples if sample.part == "sum")
    return HistogramDataPoint(
        attributes=dict(labels),
        start_time_unix_nano=started_ns,
        time_unix_nano=now_ns,
        count=below[-1],
        sum=total_s,
        bucket_counts=[n - m for n, m in zip(below, [0, *below], strict=False)],
        explicit_bounds=BOUNDS_S,
        min=None,  # type: ignore[arg-type]  # optional in OTLP, and not counted
        max=None,  # type: ignore[arg-type]
    )

"""Observable instruments that read statistics that the process counts in any case.

There is one instrument for each metric of the catalogue and of the messaging conventions except
the histograms, which ``HistogramExporter`` adds. They read the last snapshot, so exporters may call
them from any thread.
"""

from collections.abc import Iterator, Mapping, Sequence

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from ..core.runtime.metrics import CATALOGUE, Metric, MetricType, Sample, Statistics, samples
from .messaging import MESSAGING_METRICS, MessagingMetric, messaging_samples

_CLIENT = "client"


class Instruments:
    """The instruments of one process."""

    def __init__(self, meter: Meter) -> None:
        self._sources: list[tuple[str, Statistics]] = []
        self._values: Mapping[Metric | MessagingMetric, list[Sample]] = {}
        metrics: tuple[Metric | MessagingMetric, ...] = (*CATALOGUE, *MESSAGING_METRICS)
        for metric in metrics:
            if metric.type is not MetricType.HISTOGRAM:
                self._create(meter, metric)

    def observe(self, service: str, statistics: Statistics) -> None:
        """Include these statistics in snapshots, e.g. the statistics of a ``bookie``."""
        self._sources.append((service, statistics))

    def take_snapshot(self) -> None:
        """Read all statistics. Must be called on the event loop to which they belong."""
        known: dict[Metric, list[Sample]] = {}
        for service, statistics in self._sources:
            for metric, found in samples(service, statistics()).items():
                known.setdefault(metric, []).extend(found)
        values: dict[Metric | MessagingMetric, list[Sample]] = {}
        for metric, found in known.items():
            values[metric] = found
        if all(service == _CLIENT for service, _ in self._sources):  # a proxy is no such client
            for made, found in messaging_samples(known).items():
                values[made] = found
        self._values = values

    def snapshot(self) -> Mapping[Metric | MessagingMetric, Sequence[Sample]]:
        """Return the values of the last snapshot."""
        return self._values

    def _create(self, meter: Meter, metric: Metric | MessagingMetric) -> None:
        def observed(_: CallbackOptions) -> Iterator[Observation]:
            return (Observation(s.value, dict(s.labels)) for s in self._values.get(metric, ()))

        create = (
            meter.create_observable_counter
            if metric.type is MetricType.COUNTER
            else meter.create_observable_gauge
        )
        create(metric.name, [observed], metric.unit, metric.help)

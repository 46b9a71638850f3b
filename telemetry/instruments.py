"""Observable instruments that read statistics that the process counts in any case.

There is one instrument for each metric of the catalogue except the histograms, which
``HistogramExporter`` adds. They read the last snapshot, so exporters may call them from any thread.
"""

from collections.abc import Iterator, Mapping, Sequence

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from ..core.runtime.metrics import CATALOGUE, Metric, MetricType, Sample, Statistics, samples


class Instruments:
    """The instruments of one process."""

    def __init__(self, meter: Meter) -> None:
        self._sources: list[tuple[str, Statistics]] = []
        self._values: Mapping[Metric, list[Sample]] = {}
        for metric in CATALOGUE:
            if metric.type is not MetricType.HISTOGRAM:
                self._create(meter, metric)

    def observe(self, service: str, statistics: Statistics) -> None:
        """Include these statistics in snapshots, e.g. the statistics of a ``bookie``."""
        self._sources.append((service, statistics))

    def take_snapshot(self) -> None:
        """Read all statistics. Must be called on the event loop to which they belong."""
        values: dict[Metric, list[Sample]] = {}
        for service, statistics in self._sources:
            for metric, found in samples(service, statistics()).items():
                values.setdefault(metric, []).extend(found)
        self._values = values

    def snapshot(self) -> Mapping[Metric, Sequence[Sample]]:
        """Return the values of the last snapshot."""
        return self._values

    def _create(self, meter: Meter, metric: Metric) -> None:
        def observed(_: CallbackOptions) -> Iterator[Observation]:
            return (Observation(s.value, dict(s.labels)) for s in self._values.get(metric, ()))

        create = (
            meter.create_observable_counter
            if metric.type is MetricType.COUNTER
            else meter.create_observable_gauge
        )
        create(metric.name, [observed], metric.unit, metric.help)

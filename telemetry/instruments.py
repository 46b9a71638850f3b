"""Observable instruments that read statistics that the process counts in any case.

There is one instrument for each metric of the catalogue; a summary has three, for quantiles, sum
and count. They read the last snapshot, so exporters may call them from any thread.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from ..core.runtime.metrics import CATALOGUE, Metric, MetricType, Sample, Statistics, samples


class Instruments:
    """The instruments of one process."""

    def __init__(self, meter: Meter) -> None:
        self._sources: list[tuple[str, Statistics]] = []
        self._values: Mapping[Metric, list[Sample]] = {}
        for metric in CATALOGUE:
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

    def _create(self, meter: Meter, metric: Metric) -> None:
        def observed(part: str, _: CallbackOptions) -> Iterator[Observation]:
            return _observations(self._values.get(metric, ()), part)

        plain = partial(observed, "")
        if metric.type is MetricType.COUNTER:
            meter.create_observable_counter(metric.name, [plain], metric.unit, metric.help)
            return
        meter.create_observable_gauge(metric.name, [plain], metric.unit, metric.help)
        if metric.type is MetricType.SUMMARY:
            for part, unit in (("sum", metric.unit), ("count", "1")):
                meter.create_observable_counter(
                    f"{metric.name}.{part}", [partial(observed, part)], unit, metric.help
                )


def _observations(some_samples: Iterable[Sample], part: str) -> Iterator[Observation]:
    return (Observation(s.value, dict(s.labels)) for s in some_samples if s.part == part)

"""Observable instruments that read what the process has counted already.

One for each figure of the catalogue; a summary makes three, for quantiles, sum and count. They see
the snapshot that was taken last, so that exporters may ask from any thread.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from ..core.runtime.metrics import CATALOGUE, Metric, MetricType, Sample, Statistics, samples


class Instruments:
    """Of one process."""

    def __init__(self, meter: Meter) -> None:
        self._sources: list[tuple[str, Statistics]] = []
        self._values: Mapping[Metric, list[Sample]] = {}
        for figure in CATALOGUE:
            self._create(meter, figure)

    def observe(self, service: str, statistics: Statistics) -> None:
        """From now on snapshots hold these statistics, e.g. those of a ``bookie``."""
        self._sources.append((service, statistics))

    def take_snapshot(self) -> None:
        """Reads all statistics; on the event loop whose they are."""
        values: dict[Metric, list[Sample]] = {}
        for service, statistics in self._sources:
            for figure, some in samples(service, statistics()).items():
                values.setdefault(figure, []).extend(some)
        self._values = values

    def _create(self, meter: Meter, figure: Metric) -> None:
        def observed(part: str, _: CallbackOptions) -> Iterator[Observation]:
            return _observations(self._values.get(figure, ()), part)

        plain = partial(observed, "")
        if figure.type is MetricType.COUNTER:
            meter.create_observable_counter(figure.name, [plain], figure.unit, figure.help)
            return
        meter.create_observable_gauge(figure.name, [plain], figure.unit, figure.help)
        if figure.type is MetricType.SUMMARY:
            for part, unit in (("sum", figure.unit), ("count", "1")):
                meter.create_observable_counter(
                    f"{figure.name}.{part}", [partial(observed, part)], unit, figure.help
                )


def _observations(some: Iterable[Sample], part: str) -> Iterator[Observation]:
    return (Observation(one.value, dict(one.labels)) for one in some if one.part == part)

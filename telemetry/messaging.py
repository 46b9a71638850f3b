"""OpenTelemetry's conventions for messaging clients, as spans and metrics of clients follow them.

The version is pinned: names and attributes are those of the schema at ``SCHEMA_URL``.

Metrics come from the statistics that a client counts in any case. Two things differ from what the
conventions recommend: the histogram has the bounds of all histograms here, and it has only
operations that succeeded. ``messaging.destination.name`` is on spans alone, because a process may
have any number of streams.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..core.runtime.metrics import Labels, Metric, MetricType, Sample

SCHEMA_URL = "https://opentelemetry.io/schemas/1.43.0"

SYSTEM = "messaging.system"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
DESTINATION = "messaging.destination.name"
MESSAGE_COUNT = "messaging.batch.message_count"
ERROR_TYPE = "error.type"
RHUMBLINE = "rhumbline"

CREATE, SEND, RECEIVE, PROCESS = "create", "send", "receive", "process"


class MessagingMetric(NamedTuple):
    """A metric of the conventions."""

    name: str
    type: MetricType
    unit: str
    help: str


SENT = MessagingMetric(
    "messaging.client.sent.messages",
    MetricType.COUNTER,
    "{message}",
    "Records that were sent; those that failed, or whose outcome is unknown, have error.type.",
)
CONSUMED = MessagingMetric(
    "messaging.client.consumed.messages",
    MetricType.COUNTER,
    "{message}",
    "Records that were delivered to the application.",
)
DURATION = MessagingMetric(
    "messaging.client.operation.duration",
    MetricType.HISTOGRAM,
    "s",
    "Time from the append of a batch's first record to its acknowledgement.",
)
MESSAGING_METRICS = (SENT, CONSUMED, DURATION)

_SOURCES = {
    "client.streams.records": (SENT, SEND),
    "client.streams.failed_records.{error}": (SENT, SEND),
    "client.streams.delivered_records": (CONSUMED, RECEIVE),
    "client.streams.acks": (DURATION, SEND),
}
"""The metrics of the catalogue from which those of the conventions are made, and the operation."""


def messaging_samples(
    values: Mapping[Metric, Sequence[Sample]],
) -> dict[MessagingMetric, list[Sample]]:
    """Return the metrics of the conventions, from those of the catalogue."""
    found: dict[MessagingMetric, list[Sample]] = {}
    for metric, some in values.items():
        if metric.path in _SOURCES:
            made, operation = _SOURCES[metric.path]
            found.setdefault(made, []).extend(_named(some, operation))
    return found


def _named(some: Iterable[Sample], operation: str) -> Iterator[Sample]:
    common: Labels = (
        (SYSTEM, RHUMBLINE),
        (OPERATION_NAME, operation),
        (OPERATION_TYPE, operation),
    )
    for sample in some:
        own = [(ERROR_TYPE if name == "error" else name, value) for name, value in sample.labels]
        yield sample._replace(labels=(*common, *own))

"""OpenTelemetry providers of one process, and the exporters that they use."""

import math

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased

from .histogram_export import HistogramExporter
from .instruments import Instruments
from .messaging import SCHEMA_URL
from .tracing import OtelTracer

_TIMEOUT_S = 2


def otlp_exporters(endpoint: str) -> tuple[SpanExporter, MetricExporter]:
    """Return exporters to a collector with OTLP over HTTP, such as http://127.0.0.1:4318."""
    base = endpoint.rstrip("/")
    return (
        OTLPSpanExporter(f"{base}/v1/traces", timeout=_TIMEOUT_S),
        OTLPMetricExporter(f"{base}/v1/metrics", timeout=_TIMEOUT_S),
    )


class TelemetryExport:
    """Exports spans in the background, and metrics when ``metrics`` is called."""

    def __init__(
        self,
        span_exporter: SpanExporter,
        metric_exporter: MetricExporter,
        *,
        sample_ratio: float,
        service: str,
        region: str = "",
    ) -> None:
        attributes = {"service.name": service}
        if region:
            attributes["cloud.region"] = region
        resource = Resource.create(attributes)
        self._spans = TracerProvider(
            resource=resource,
            sampler=ParentBased(ALWAYS_ON),
            shutdown_on_exit=False,
        )
        self._spans.add_span_processor(BatchSpanProcessor(span_exporter))
        # No thread of its own: metrics() exports right after a snapshot on the event loop.
        exporter = HistogramExporter(metric_exporter)
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf)
        self._reader = reader
        self._meters = MeterProvider([reader], resource, shutdown_on_exit=False)
        self.tracer = OtelTracer(self._spans, sample_ratio)
        self.instruments = Instruments(self._meters.get_meter("rhumbline", schema_url=SCHEMA_URL))
        exporter.values = self.instruments.snapshot

    def metrics(self) -> None:
        """Export the last snapshot. Blocks."""
        self._reader.collect()

    def close(self) -> None:
        """Export the remaining spans and metrics, and shut down. Blocks."""
        self.metrics()
        self._spans.shutdown()
        self._meters.shutdown()

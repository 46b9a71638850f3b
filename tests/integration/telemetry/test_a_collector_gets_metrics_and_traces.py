"""Export over real HTTP to a test collector, and to none."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider

from rhumbline.client.settings import TelemetrySettings
from rhumbline.core.runtime.histogram import Histogram
from rhumbline.core.runtime.tracing import TraceStep
from rhumbline.telemetry.process_telemetry import TELEMETRY_OFF, running_telemetry
from rhumbline.telemetry.tracing import OtelTracer


class Collector(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: dict[str, list[bytes]] = {}

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.setdefault(self.path, []).append(body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def export(settings: TelemetrySettings, lasts_s: float = 0) -> None:
    async def work() -> None:
        running = running_telemetry(settings, service="test-proxy", region="bonn")
        async with asyncio.timeout(120), running as telemetry:
            acks = Histogram()
            acks.add(0.002, 3)
            streams = {"acks": acks.summary()}
            statistics = {"write": {"acquired": 4}, "client": {"streams": streams}}
            telemetry.observe("proxy", lambda: {"registered": True, **statistics})
            assert telemetry.tracer is not None
            span = telemetry.tracer.sample(TraceStep.APPEND, stream="s")
            assert span is not None
            telemetry.tracer.follow(TraceStep.PROXY, (span.traceparent,)).end(ValueError("no"))
            span.end()
            await asyncio.sleep(lasts_s)

    asyncio.run(work())


def test_everything_is_exported_at_the_end(collector: Collector) -> None:
    export(TelemetrySettings(otlp_endpoint=collector.endpoint, sample_ratio=1.0))
    (body,) = collector.bodies["/v1/traces"]
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    attributes = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert (attributes["service.name"], attributes["cloud.region"]) == ("test-proxy", "bonn")
    child, root = resource.scope_spans[0].spans
    assert (root.name, child.name) == ("send s", "proxy append")
    assert (child.trace_id, child.parent_span_id) == (root.trace_id, root.span_id)
    assert child.status.message == "no"
    (body,) = collector.bodies["/v1/metrics"]
    (metrics,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    found = {metric.name: metric for metric in metrics.scope_metrics[0].metrics}
    assert found.keys() == {
        "rhumbline.proxy.registered",
        "rhumbline.proxy.write.acquired",
        "rhumbline.client.streams.acks",
    }
    assert found["rhumbline.proxy.write.acquired"].sum.data_points[0].as_int == 4
    acks = found["rhumbline.client.streams.acks"]
    assert (acks.unit, acks.histogram.data_points[0].count) == ("s", 3)
    assert acks.histogram.data_points[0].bucket_counts[4] == 3
    assert not acks.histogram.data_points[0].HasField("max")


def test_metrics_are_exported_periodically(collector: Collector) -> None:
    settings = TelemetrySettings(otlp_endpoint=collector.endpoint, sample_ratio=1.0, export_ms=20)
    export(settings, lasts_s=1)
    assert len(collector.bodies["/v1/metrics"]) > 2


@pytest.mark.timeout(120)  # the exporter would otherwise retry, with growing pauses
def test_unavailable_collector_does_not_delay_the_process_for_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    export(TelemetrySettings(otlp_endpoint="http://127.0.0.1:1", sample_ratio=1.0))
    assert "export" in caplog.text


def test_sample_ratio_applies_unless_the_application_traces() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    some, none = OtelTracer(provider, 0.25), OtelTracer(provider, 0.0)
    begun = sum(some.sample(TraceStep.APPEND) is not None for _ in range(4_000))
    assert 800 < begun < 1_200
    assert all(none.sample(TraceStep.APPEND) is None for _ in range(100))
    with provider.get_tracer("application").start_as_current_span("order") as order:
        span = none.sample(TraceStep.APPEND)
        assert span is not None
        assert int(span.traceparent.split("-")[1], 16) == order.get_span_context().trace_id
    provider.shutdown()


async def test_telemetry_is_off_without_an_endpoint() -> None:
    async with running_telemetry(TelemetrySettings(), service="x") as telemetry:
        assert telemetry is TELEMETRY_OFF
        assert telemetry.tracer is None

"""One trace through thin client, write proxy, bookies, read proxy and reader, over real sockets."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("grpc")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client.parser import text_string_to_metric_families

from rhumbline.cli.servers.local_cluster import LocalCluster
from rhumbline.client.connect import Client, connect_proxies
from rhumbline.client.system_runtime import system_runtime
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.read.record_batch import RecordBatch
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.core.runtime.metrics import (
    CATALOGUE,
    MetricType,
    known_metric,
    samples,
)
from rhumbline.core.runtime.trace_context import traceparent_of_set
from rhumbline.placement.region_aware import RegionAwarePlacement
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.messages import decode_item
from rhumbline.regions.repair.config import RepairConfig
from rhumbline.regions.repair.repair_service import RepairService
from rhumbline.server.prometheus_exposition import exposition, registry_of
from rhumbline.server.proxy_host import running_proxy
from rhumbline.telemetry.histogram_export import histograms
from rhumbline.telemetry.instruments import Instruments
from rhumbline.telemetry.tracing import OtelTracer

REGION = "here"
STREAM = "orders"
TIMEOUT_S = 180


@dataclass
class ProcessTracing:
    """The tracing of one process, in memory."""

    sampler: Sampler
    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    @contextmanager
    def tracer(self) -> Iterator[OtelTracer]:
        provider = TracerProvider(sampler=ParentBased(self.sampler), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        yield OtelTracer(provider)
        provider.shutdown()

    async def all_bookies_answered(self) -> None:
        # Two of three bookies acknowledge the entry; there is no callback for the third.
        while len(self.named("bookie write")) < 3 * len(self.named("ledger add")):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans.get_finished_spans() if span.name == name]


@dataclass
class Run:
    """The observations of one run."""

    producer: ProcessTracing
    proxy: ProcessTracing
    reader: ProcessTracing
    batches: list[RecordBatch] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)


async def through_everything(root: Path, run: Run) -> None:
    instruments_reader = InMemoryMetricReader()
    meters = MeterProvider([instruments_reader], shutdown_on_exit=False)
    instruments = Instruments(meters.get_meter("rhumbline"))

    def observe(service: str, statistics: Any) -> None:  # noqa: ANN401
        instruments.observe(service, statistics)
        run.statistics[service] = statistics

    with (
        run.producer.tracer() as producing,
        run.proxy.tracer() as serving,
        run.reader.tracer() as reading,
    ):
        cluster = LocalCluster(root, [REGION], bookies_per_region=3, round_trips_ms={})
        async with cluster, asyncio.timeout(TIMEOUT_S):
            observe("bookie", cluster.bookies[0].bookie.statistics)  # type: ignore[union-attr]
            client = Client(cluster.metadata_uri, region=REGION, runtime=system_runtime(serving))
            async with (
                client,
                running_proxy(
                    client, ProxyConfig(), roles=("write", "read"), host="127.0.0.1", port=0,
                    observe=observe,
                ) as proxy,
            ):  # fmt: skip
                repair = RepairService(
                    client.runtime, client.store, client.ledgers, client.directory,
                    RegionAwarePlacement(), RepairConfig(),
                )  # fmt: skip
                observe("repair", repair.statistics)
                policy = StreamPolicy(Quorum(3, 3, 2))
                await create_namespace(client.store, client.runtime, "default", policy)
                uri = f"grpc://{proxy.address}"
                async with (
                    connect_proxies(uri, tracer=producing) as thin,
                    connect_proxies(uri, tracer=reading) as tail,
                ):
                    await thin.namespace().create_stream(STREAM)
                    async with thin.writer(STREAM) as writer:
                        await writer.append(b"one")
                    async with tail.reader(STREAM, EARLIEST) as reader:
                        batch = await reader.next_batch()
                        assert batch is not None
                        assert batch.payloads() == [b"one"]
                        run.batches.append(batch)
                    await run.proxy.all_bookies_answered()
                instruments.take_snapshot()
                run.statistics = {name: of() for name, of in run.statistics.items()}
    data = instruments_reader.get_metrics_data()
    assert data is not None
    run.metrics = {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in [*scope.metrics, *histograms(instruments.snapshot(), 0, 1)]
    }
    meters.shutdown()


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(ProcessTracing(ALWAYS_ON), ProcessTracing(ALWAYS_OFF), ProcessTracing(ALWAYS_OFF))
    asyncio.run(through_everything(tmp_path_factory.mktemp("sampled"), run))
    return run


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def parent(span: ReadableSpan) -> tuple[int, int]:
    assert span.parent is not None
    return span.parent.trace_id, span.parent.span_id


def test_every_step_is_a_span_of_one_trace(sampled: Run) -> None:
    (append,) = sampled.producer.named(f"send {STREAM}")
    (proxied,) = sampled.proxy.named("proxy append")
    (added,) = sampled.proxy.named("ledger add")
    stored = sampled.proxy.named("bookie write")
    (delivered,) = sampled.reader.named(f"receive {STREAM}")
    assert append.parent is None
    assert parent(proxied) == ids(append)
    assert parent(added) == ids(proxied)
    assert [parent(span) for span in stored] == [ids(added)] * 3
    assert parent(delivered) == ids(append)
    assert [(link.context.trace_id, link.context.span_id) for link in delivered.links] == [
        ids(append)
    ]
    (processed,) = sampled.reader.named(f"process {STREAM}")
    assert parent(processed) == ids(append)
    kinds = [span.kind for span in (append, proxied, added, stored[0], delivered, processed)]
    assert kinds == [
        SpanKind.PRODUCER, SpanKind.SERVER, SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.CLIENT,
        SpanKind.CONSUMER,
    ]  # fmt: skip


def test_spans_have_their_attributes(sampled: Run) -> None:
    (batch,) = sampled.batches
    (append,) = sampled.producer.named(f"send {STREAM}")
    (proxied,) = sampled.proxy.named("proxy append")
    (added,) = sampled.proxy.named("ledger add")
    (delivered,) = sampled.reader.named(f"receive {STREAM}")
    assert proxied.attributes is not None
    assert proxied.attributes["rhumbline.stream"] == STREAM
    for span in (append, delivered):
        assert span.attributes is not None
        assert span.attributes["messaging.destination.name"] == STREAM
    for span in (append, proxied, added):
        assert span.attributes is not None
        assert span.attributes["rhumbline.regions"] == (REGION,)
        assert span.status.status_code is StatusCode.UNSET
    for span in (proxied, delivered):
        assert span.attributes is not None
        assert span.attributes["rhumbline.dlsn"] == str(batch.first_dlsn)
    stored = [span.attributes for span in sampled.proxy.named("bookie write")]
    assert (
        len({attributes["rhumbline.bookie"] for attributes in stored if attributes is not None})
        == 3
    )
    assert batch.traceparent is not None
    assert int(batch.traceparent.split("-")[1], 16) == ids(append)[0]


def test_unsampled_record_leaves_no_span(tmp_path: Path) -> None:
    run = Run(ProcessTracing(ALWAYS_OFF), ProcessTracing(ALWAYS_ON), ProcessTracing(ALWAYS_ON))
    asyncio.run(through_everything(tmp_path, run))
    for process in (run.producer, run.proxy, run.reader):
        assert not process.spans.get_finished_spans(), "the producer decides for all"
    assert run.batches[0].record_set.extension == b""


def test_metrics_are_exported_under_their_names(sampled: Run) -> None:
    assert sampled.metrics.keys() <= {metric.name for metric in CATALOGUE}, "no messaging client"
    records = sampled.metrics["rhumbline.client.streams.records"]
    assert (records.unit, records.data.is_monotonic) == ("{record}", True)
    assert [point.value for point in records.data.data_points] == [1]
    (acks,) = sampled.metrics["rhumbline.client.streams.acks"].data.data_points
    assert (acks.count, sum(acks.bucket_counts)) == (1, 1)
    assert len(acks.bucket_counts) == len(acks.explicit_bounds) + 1
    assert acks.sum > 0
    regions = sampled.metrics["rhumbline.client.streams.acks_by_regions"].data.data_points
    assert [(point.attributes["regions"], point.value) for point in regions] == [("1", 1)]
    assert sampled.metrics["rhumbline.bookie.entries"].data.data_points[0].value >= 1


def numbers(parts: tuple[str, ...], value: Any) -> Iterator[tuple[str, ...]]:  # noqa: ANN401
    if isinstance(value, dict) and "mean_ms" not in value:
        for key, inner in value.items():
            yield from numbers((*parts, str(key)), inner)
    elif isinstance(value, dict | int | float):
        yield parts[1:] if parts[1:2] == ("client",) else parts


def test_catalogue_contains_every_statistic(sampled: Run) -> None:
    for service, statistics in sampled.statistics.items():
        for parts in numbers((service,), statistics):
            assert known_metric(parts) is not None, f"{'.'.join(parts)} is not in the catalogue"


def test_prometheus_can_parse_all_metrics(sampled: Run) -> None:
    for service, statistics in sampled.statistics.items():
        values = samples(service, statistics)
        text = exposition(registry_of(service, partial(dict, statistics))).decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        for metric in values:
            name = metric.prometheus_name
            family = families[name.removesuffix("_total")]
            assert (family.type, family.documentation) == (metric.type, metric.help)
            assert family.samples
            if metric.type is MetricType.HISTOGRAM:
                assert {sample.name.removeprefix(name) for sample in family.samples} == {
                    "_bucket", "_sum", "_count"
                }  # fmt: skip


def test_client_that_sends_payloads_can_pass_its_trace() -> None:
    traceparent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    item = decode_item(
        pb.AppendItem(namespace="n", stream="s", payloads=[b"x"], traceparent=traceparent)
    )
    assert traceparent_of_set(item.record_set) == traceparent

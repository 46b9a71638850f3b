"""Spans follow the messaging conventions of OpenTelemetry 1.43.0, in the SDK's memory."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.errors import (
    NotOwnerError,
    RhumblineError,
    SequenceGapError,
    StreamLostError,
)
from rhumbline.core.protocol.record_set import TXID_FIRST, Producer, encode_record_set
from rhumbline.core.runtime.trace_context import trace_extension
from rhumbline.core.runtime.tracing import TraceStep
from rhumbline.proxies.client.proxy_writer import ProxyWriter
from rhumbline.proxies.write.append_item import Appended, AppendItem
from rhumbline.proxies.write.append_session import AppendSession
from rhumbline.telemetry.tracing import LINKS_MAX, OtelTracer
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld

TRACEPARENT = f"00-{'ab' * 16}-{'cd' * 8}-01"
COLLECTED = StreamPolicy().with_flush(FlushPolicy(period_ms=None))


class Tracing:
    """A tracer and the spans that it has made."""

    def __init__(self, world: LogWorld) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = OtelTracer(self.provider)
        world.runtime = replace(world.runtime, tracer=self.tracer)
        world.namespace = world.open_namespace()

    def of(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def links(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def messaging(span: ReadableSpan) -> dict[str, object]:
    assert span.attributes is not None
    return {key: value for key, value in span.attributes.items() if key.startswith("messaging.")}


async def core_writer(world: LogWorld) -> StreamWriter:
    return await world.writer("orders", COLLECTED)


async def test_spans_of_one_record_and_of_a_batch(world: LogWorld) -> None:
    tracing = Tracing(world)
    writer = await core_writer(world)
    ticket = writer.append(b"1")
    await writer.flush()
    await ticket
    writer.append_many([b"2", b"3"])
    await writer.flush()
    await writer.close()
    await world.read_all("orders", 3)
    sent, received = tracing.of("send orders"), tracing.of("receive orders")
    processed = tracing.of("process orders")
    for name, spans, kind in (
        ("send", sent, SpanKind.PRODUCER),
        ("receive", received, SpanKind.CLIENT),
        ("process", processed, SpanKind.CONSUMER),
    ):
        assert [span.kind for span in spans] == [kind] * 2
        common = {
            "messaging.system": "rhumbline",
            "messaging.operation.name": name,
            "messaging.operation.type": name,
            "messaging.destination.name": "orders",
        }
        assert messaging(spans[0]) == common
        assert messaging(spans[1]) == {**common, "messaging.batch.message_count": 2}
        scope = spans[0].instrumentation_scope
        assert scope is not None
        assert scope.schema_url == "https://opentelemetry.io/schemas/1.43.0"
    for consumer in (received, processed):
        assert [links(span) for span in consumer] == [[ids(span)] for span in sent]


async def check_both_are_linked(tracing: Tracing, writer: StreamWriter | ProxyWriter) -> None:
    """Append in two spans, and check that the traces of both lead to the batch."""
    application = tracing.provider.get_tracer("application")
    with application.start_as_current_span("first") as first:
        tickets = [writer.append(b"1")]
    with application.start_as_current_span("second") as second:
        tickets += [writer.append(b"2"), writer.append(b"3")]
    await writer.flush()
    assert len({(await ticket).dlsn.entry_id for ticket in tickets}) == 1
    await writer.close()
    (sent,) = tracing.of("send orders")
    (created,) = tracing.of("create orders")
    assert sent.parent is not None and created.parent is not None
    assert sent.parent.span_id == first.get_span_context().span_id
    assert created.parent.span_id == second.get_span_context().span_id
    assert (links(sent), links(created)) == ([ids(created)], [ids(sent)])
    assert messaging(created)["messaging.operation.type"] == "create"
    assert messaging(sent)["messaging.batch.message_count"] == 3


async def test_appends_batched_from_two_spans_are_both_linked(world: LogWorld) -> None:
    """The trace of the second one had no append at all."""
    tracing = Tracing(world)
    await check_both_are_linked(tracing, await core_writer(world))


async def test_a_thin_client_links_both_too(world: LogWorld) -> None:
    tracing = Tracing(world)
    proxies = ProxyWorld(world)
    await world.namespace.create_stream("orders")
    await proxies.start("one:1")
    await check_both_are_linked(tracing, proxies.writer("orders"))
    await proxies.stop()


async def test_the_number_of_links_is_bounded(world: LogWorld) -> None:
    tracing = Tracing(world)
    writer = await core_writer(world)
    for number in range(LINKS_MAX + 20):
        with tracing.provider.get_tracer("application").start_as_current_span(str(number)):
            writer.append(b"x")
    await writer.close()
    (sent,) = tracing.of("send orders")
    assert len(links(sent)) == len(tracing.of("create orders")) == LINKS_MAX


async def test_an_error_has_its_stable_code(world: LogWorld) -> None:
    tracing = Tracing(world)
    writer = await core_writer(world)
    numbered = writer.append_numbered(b"a" * 16, 0, [b"x"])
    await writer.flush()
    await numbered
    with pytest.raises(SequenceGapError):
        writer.append_numbered(b"a" * 16, 7, [b"x"])
    ticket = writer.append(b"1")
    await world.namespace.open_writer("orders")
    with pytest.raises(StreamLostError):
        await writer.flush()
    with pytest.raises(StreamLostError):
        await ticket
    await writer.abort()
    _, refused, lost = tracing.of("send orders")
    for span, code in ((refused, "sequence-gap"), (lost, "stream-lost")):
        assert span.attributes is not None
        assert span.attributes["error.type"] == code
        assert span.status.status_code is StatusCode.ERROR
    foreign = tracing.tracer.sample(TraceStep.APPEND, stream="orders")
    assert foreign is not None
    foreign.end(ValueError("no"))
    attributes = tracing.of("send orders")[-1].attributes
    assert attributes is not None
    assert attributes["error.type"] == "ValueError"


async def test_a_redirect_is_not_an_error(world: LogWorld) -> None:
    tracing = Tracing(world)
    outcomes: list[RhumblineError] = [NotOwnerError("elsewhere", "two:1"), StreamLostError("lost")]

    class Refusing:
        """A proxy that refuses every set."""

        def append(
            self, item: AppendItem, on_result: Callable[[Appended | RhumblineError], None]
        ) -> None:
            on_result(outcomes.pop(0))

    session = AppendSession(
        Refusing(),  # type: ignore[arg-type]
        lambda: None,
        bytes_max=1 << 20,
        tracer=tracing.tracer,
    )
    for sequence in range(2):
        encoded = encode_record_set(
            [b"x"],
            first_txid=TXID_FIRST,
            last_txid=TXID_FIRST,
            producer=Producer(b"p" * 16, sequence),
            extension=trace_extension(TRACEPARENT),
        )
        session.submit(sequence, AppendItem("test", "orders", encoded), restarts=True)
    redirected, failed = tracing.of("proxy append")
    assert redirected.status.status_code is StatusCode.UNSET
    assert redirected.attributes is not None and failed.attributes is not None
    assert redirected.attributes["rhumbline.redirected_to"] == "two:1"
    assert "error.type" not in redirected.attributes
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes["error.type"] == "stream-lost"

"""The metrics of the messaging conventions, through the SDK's in-memory reader."""

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from rhumbline.core.log.log_context import LogContext
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import DeadlineExceededError, StreamLostError
from rhumbline.proxies.client.thin_producer import ThinProducer
from rhumbline.telemetry.histogram_export import histograms
from rhumbline.telemetry.instruments import Instruments
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld

COMMON = {
    "messaging.system": "rhumbline",
    "messaging.operation.name": "send",
    "messaging.operation.type": "send",
}


def exported(context: LogContext, *services: str) -> dict[str, list[tuple[dict[str, Any], float]]]:
    """Return (attributes, value or count) of each point, by metric, for processes' services."""
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    instruments = Instruments(meters.get_meter("rhumbline"))
    for service in services:
        instruments.observe(service, lambda: {"streams": context.statistics()})
    instruments.take_snapshot()
    data = reader.get_metrics_data()
    assert data is not None
    found = [metric for r in data.resource_metrics for s in r.scope_metrics for metric in s.metrics]
    found += histograms(instruments.snapshot(), 0, 1)
    meters.shutdown()
    return {
        metric.name: [
            (dict(point.attributes or {}), point.value if hasattr(point, "value") else point.count)
            for point in metric.data.data_points
        ]
        for metric in found
        if metric.name.startswith("messaging.")
    }


async def test_a_core_client_counts_what_it_sends_and_gets(world: LogWorld) -> None:
    writer = await world.writer("orders")
    await writer.append_many([b"1", b"2"])
    await world.namespace.open_writer("orders")
    ticket = writer.append(b"3")
    with pytest.raises(StreamLostError):
        await ticket
    await writer.abort()
    await world.read_all("orders", 2)
    received = {**COMMON, **dict.fromkeys(list(COMMON)[1:], "receive")}
    context = world.namespace._context
    assert exported(context, "client") == {
        "messaging.client.sent.messages": [
            (COMMON, 2),
            ({**COMMON, "error.type": "stream-lost"}, 1),
        ],
        "messaging.client.consumed.messages": [(received, 2)],
        "messaging.client.operation.duration": [(COMMON, 1)],
    }
    assert exported(context, "client", "proxy") == {}, "a proxy is no messaging client"


async def test_a_thin_client_counts_too(world: LogWorld) -> None:
    proxies = ProxyWorld(world)
    await world.namespace.create_stream("orders")
    await proxies.start("one:1")
    context = LogContext()
    transport = proxies.transport()
    producer = ThinProducer(
        world.runtime, transport, ("test", "orders"), StreamPolicy(), counts=context
    )
    batch = producer.batch_for(3, None)
    batch.payloads += [b"1", b"2", b"3"]
    await producer.flush()
    late = producer.batch_for(1, None)
    late.payloads.append(b"4")
    producer.seal_batch()
    producer.sender.fail(DeadlineExceededError("too late"))
    found = exported(context, "client")
    assert found["messaging.client.sent.messages"] == [
        (COMMON, 3),
        ({**COMMON, "error.type": "append-outcome-unknown"}, 1),
    ]
    assert found["messaging.client.operation.duration"] == [(COMMON, 1)]
    assert context.bytes > 0
    await proxies.stop()

"""A record's producer begins its trace, both in the core writer and through a proxy."""

from collections.abc import Sequence

import pytest

from rhumbline.core.protocol.errors import SequenceGapError
from rhumbline.core.protocol.record_set import (
    TXID_FIRST,
    Producer,
    decode_entry,
    encode_record_set,
    extended,
)
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.runtime.trace_context import trace_extension, traceparent_of_set
from rhumbline.core.runtime.tracing import TraceStep, Value
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld

ANNE = b"a" * 16


class RecordedSpan:
    def __init__(self, number: int, step: TraceStep) -> None:
        self.traceparent = f"00-{number:032x}-{'cd' * 8}-01"
        self.step = step
        self.joins = 0
        self.ends: list[tuple[BaseException | None, Value | None]] = []

    def join(self) -> None:
        self.joins += 1

    def end(self, error: BaseException | None = None, **attributes: Value) -> None:
        self.ends.append((error, attributes.get("regions")))


class RecordingTracer:
    """Samples everything or nothing, and records the spans."""

    def __init__(self, *, samples: bool = True) -> None:
        self.samples = samples
        self.spans: list[RecordedSpan] = []

    def sample(self, step: TraceStep, **attributes: Value) -> RecordedSpan | None:
        if not self.samples:
            return None
        self.spans.append(RecordedSpan(len(self.spans) + 1, step))
        return self.spans[-1]

    def follow(self, step: TraceStep, parents: Sequence[str], **attributes: Value) -> RecordedSpan:
        return RecordedSpan(999, step)

    @property
    def appends(self) -> list[RecordedSpan]:
        return [span for span in self.spans if span.step is TraceStep.APPEND]


def traced(log: LogWorld, *, samples: bool = True) -> RecordingTracer:
    """Trace the producers of this world from now on."""
    tracer = RecordingTracer(samples=samples)
    log.runtime = Runtime(log.clock, log.runtime.random, tracer)
    log.namespace = log.open_namespace()
    return tracer


async def traces(log: LogWorld, count: int) -> list[str | None]:
    """Return the traceparent of each of the stream's batches."""
    async with await log.namespace.open_reader("s", EARLIEST) as reader:
        found = [await reader.next_batch() for _ in range(count)]
    return [batch.traceparent for batch in found if batch is not None]


async def test_writer_traces_numbered_sets(log: LogWorld) -> None:
    tracer = traced(log)
    writer = await log.writer("s")
    await writer.append(b"0")
    await writer.append_numbered(ANNE, 0, [b"1", b"2"])
    await writer.append_numbered(ANNE, 0, [b"1", b"2"])  # a duplicate
    with pytest.raises(SequenceGapError):
        writer.append_numbered(ANNE, 7, [b"7"])
    await writer.close()
    spans = tracer.appends
    assert [len(span.ends) for span in spans] == [1, 1, 1, 1]
    assert isinstance(spans[3].ends[0][0], SequenceGapError)
    assert all(error is None and regions for ((error, regions),) in [s.ends for s in spans[:3]])
    assert await traces(log, 2) == [spans[0].traceparent, spans[1].traceparent]


def a_set(sequence: int, extension: bytes = b"") -> bytes:
    return encode_record_set(
        [b"x"],
        first_txid=TXID_FIRST,
        last_txid=TXID_FIRST,
        producer=Producer(ANNE, sequence),
        extension=extension,
    )


async def test_thin_writer_traces_sets_that_have_no_trace(log: LogWorld) -> None:
    tracer = traced(log)
    others = f"00-{'ab' * 16}-{'cd' * 8}-01"
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    writer = world.writer("s")
    await writer.append_set(a_set(0))
    await writer.append_set(a_set(1, trace_extension(others)))
    await writer.close()
    await world.stop()
    ((error, regions),) = [end for span in tracer.appends for end in span.ends]
    assert error is None and regions
    assert await traces(log, 2) == [tracer.appends[0].traceparent, others]


async def test_unsampled_sets_are_sent_unchanged(log: LogWorld) -> None:
    traced(log, samples=False)
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    writer = world.writer("s")
    await writer.append_set(a_set(0))
    await writer.close()
    await world.stop()
    numbering = await log.writer("s")
    await numbering.append_numbered(ANNE, 1, [b"y"])
    await numbering.close()
    assert await traces(log, 2) == [None, None]


def test_extension_changes_nothing_else_in_a_set() -> None:
    traceparent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    made = extended(a_set(3), trace_extension(traceparent))
    assert made == a_set(3, trace_extension(traceparent))
    assert traceparent_of_set(made) == traceparent
    assert decode_entry(made)[0].payloads() == [b"x"]

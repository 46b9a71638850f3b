"""OpenTelemetry spans of traced record sets."""

import random
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from ..core.runtime.tracing import Span, TraceStep, Value

_NAME = "rhumbline"
_KINDS = {
    TraceStep.APPEND: SpanKind.PRODUCER,
    TraceStep.PROXY: SpanKind.SERVER,
    TraceStep.ADD: SpanKind.INTERNAL,
    TraceStep.STORE: SpanKind.CLIENT,
    TraceStep.DELIVER: SpanKind.CONSUMER,
}


class OtelSpan:
    """An OpenTelemetry span with the interface that core uses."""

    __slots__ = ("_span",)

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        """The traceparent in the format of W3C Trace Context."""
        known = self._span.get_span_context()
        return f"00-{known.trace_id:032x}-{known.span_id:016x}-{known.trace_flags:02x}"

    def end(self, error: BaseException | None = None, **attributes: Value) -> None:
        """End the span, with type and text of ``error`` if there is one."""
        self._span.set_attributes(_named(attributes))
        if error is not None:
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(Status(StatusCode.ERROR, str(error)))
        self._span.end()


class OtelTracer:
    """Makes spans with the tracers of ``provider``, whose sampler decides which traces begin.

    A record set that is appended within a span of the application belongs to that trace. Of the
    others only the share ``sample_ratio`` reaches the sampler, because a span that is not recorded
    costs nearly as much as one that is.
    """

    def __init__(self, provider: trace.TracerProvider, sample_ratio: float = 1.0) -> None:
        self._tracer = provider.get_tracer(_NAME)
        self._sample_ratio = sample_ratio

    def sample(self, step: TraceStep, **attributes: Value) -> Span | None:
        """Begin a trace, or a child of the application's span; None if it is not sampled."""
        if random.random() >= self._sample_ratio and trace.get_current_span() is trace.INVALID_SPAN:
            return None
        span = self._tracer.start_span(step, kind=_KINDS[step], attributes=_named(attributes))
        return OtelSpan(span) if span.is_recording() else None

    def follow(self, step: TraceStep, parents: Sequence[str], **attributes: Value) -> Span:
        """Return a child of the first parent with links to the others.

        A delivery is also linked to its producer, so that a record can be followed from producer to
        consumer.
        """
        contexts = [_context(parent) for parent in parents]
        linked = contexts if step is TraceStep.DELIVER else contexts[1:]
        span = self._tracer.start_span(
            step,
            trace.set_span_in_context(trace.NonRecordingSpan(contexts[0])),
            kind=_KINDS[step],
            attributes=_named(attributes),
            links=[Link(context) for context in linked],
        )
        return OtelSpan(span)


def _context(traceparent: str) -> SpanContext:
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))


def _named(attributes: dict[str, Value]) -> dict[str, Value]:
    return {f"{_NAME}.{key}": value for key, value in attributes.items()}

"""The spans of traced record sets, as OpenTelemetry spans."""

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
    """A span of the SDK's, with the few calls that core knows."""

    __slots__ = ("_span",)

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        """As W3C Trace Context writes it."""
        known = self._span.get_span_context()
        return f"00-{known.trace_id:032x}-{known.span_id:016x}-{known.trace_flags:02x}"

    def end(self, error: BaseException | None = None, **attributes: Value) -> None:
        """Ends it, with the error's kind and text if there is one."""
        self._span.set_attributes(_named(attributes))
        if error is not None:
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(Status(StatusCode.ERROR, str(error)))
        self._span.end()


class OtelTracer:
    """Makes spans with the tracers of ``provider``, whose sampler decides what begins a trace.

    A record set that is appended inside of an application's own span belongs to that one's trace.
    Of the others only ``sample_ratio`` come before the sampler at all: a span that is not recorded
    costs nearly as much as one that is.
    """

    def __init__(self, provider: trace.TracerProvider, sample_ratio: float = 1.0) -> None:
        self._tracer = provider.get_tracer(_NAME)
        self._sample_ratio = sample_ratio

    def sample(self, step: TraceStep, **attributes: Value) -> Span | None:
        """A span that begins a trace, or follows from the application's; None if not sampled."""
        if random.random() >= self._sample_ratio and trace.get_current_span() is trace.INVALID_SPAN:
            return None
        span = self._tracer.start_span(step, kind=_KINDS[step], attributes=_named(attributes))
        return OtelSpan(span) if span.is_recording() else None

    def follow(self, step: TraceStep, parents: Sequence[str], **attributes: Value) -> Span:
        """A child of the first parent, linked to the others.

        A delivery is linked to its producer too: that is how messages are followed.
        """
        contexts = [_context(parent) for parent in parents]
        linked = contexts if step is TraceStep.DELIVER else contexts[1:]
        span = self._tracer.start_span(
            step,
            trace.set_span_in_context(trace.NonRecordingSpan(contexts[0])),
            kind=_KINDS[step],
            attributes=_named(attributes),
            links=[Link(one) for one in linked],
        )
        return OtelSpan(span)


def _context(traceparent: str) -> SpanContext:
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))


def _named(attributes: dict[str, Value]) -> dict[str, Value]:
    return {f"{_NAME}.{key}": value for key, value in attributes.items()}

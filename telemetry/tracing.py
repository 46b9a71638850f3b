"""OpenTelemetry spans of traced record sets."""

import random
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.context import get_current
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from ..core.protocol.errors import RhumblineError
from ..core.runtime.tracing import Span, TraceStep, Value
from .messaging import (
    CREATE,
    DESTINATION,
    ERROR_TYPE,
    MESSAGE_COUNT,
    OPERATION_NAME,
    OPERATION_TYPE,
    PROCESS,
    RECEIVE,
    RHUMBLINE,
    SCHEMA_URL,
    SEND,
    SYSTEM,
)

_NAME = "rhumbline"
_KINDS = {
    TraceStep.APPEND: SpanKind.PRODUCER,
    TraceStep.PROXY: SpanKind.SERVER,
    TraceStep.ADD: SpanKind.INTERNAL,
    TraceStep.STORE: SpanKind.CLIENT,
    TraceStep.DELIVER: SpanKind.CLIENT,
    TraceStep.PROCESS: SpanKind.CONSUMER,
}
_OPERATIONS = {
    TraceStep.APPEND: SEND,
    TraceStep.DELIVER: RECEIVE,
    TraceStep.PROCESS: PROCESS,
}
"""The steps of the application's side, which follow the messaging conventions."""

LINKS_MAX = 128
"""Maximum number of appends of other spans with which a span is linked; more are not linked."""


class OtelSpan:
    """An OpenTelemetry span with the interface that core uses."""

    __slots__ = ("_is_messaging", "_joined", "_seen", "_span", "_stream", "_tracer")

    def __init__(
        self, span: trace.Span, tracer: trace.Tracer, step: TraceStep, stream: Value
    ) -> None:
        self._span = span
        self._tracer = tracer
        self._is_messaging = step in _OPERATIONS
        self._stream = stream
        self._seen = get_current()
        self._joined = {_current_id()}  # the application's spans whose appends are in the step

    @property
    def traceparent(self) -> str:
        """The traceparent in the format of W3C Trace Context."""
        known = self._span.get_span_context()
        return f"00-{known.trace_id:032x}-{known.span_id:016x}-{known.trace_flags:02x}"

    def join(self) -> None:
        """Begin and end a span ``create <stream>`` in the application's span, if it is another one.

        The two spans are linked in both directions.
        """
        context = get_current()
        if context is self._seen:  # cheap, because this is called for each record
            return
        self._seen = context
        current = _current_id()
        if not current or current in self._joined or len(self._joined) > LINKS_MAX:
            return
        self._joined.add(current)
        own = self._span.get_span_context()
        created = self._tracer.start_span(
            f"{CREATE} {self._stream}",
            kind=SpanKind.PRODUCER,
            attributes=_messaging(CREATE, self._stream),
            links=[Link(own)],
        )
        created.end()
        if created.get_span_context().is_valid:
            self._span.add_link(created.get_span_context())

    def end(self, error: BaseException | None = None, **attributes: Value) -> None:
        """End the span, with code and text of ``error`` if there is one."""
        self._span.set_attributes(_named(attributes, is_messaging=self._is_messaging))
        if error is not None:
            self._span.set_attribute(ERROR_TYPE, error_type(error))
            self._span.set_status(Status(StatusCode.ERROR, str(error)))
        self._span.end()


class OtelTracer:
    """Makes spans with the tracers of ``provider``, whose sampler decides which traces begin.

    A record set that is appended within a span of the application belongs to that trace. Of the
    others only the share ``sample_ratio`` reaches the sampler, because a span that is not recorded
    costs nearly as much as one that is.
    """

    def __init__(self, provider: trace.TracerProvider, sample_ratio: float = 1.0) -> None:
        self._tracer = provider.get_tracer(_NAME, schema_url=SCHEMA_URL)
        self._sample_ratio = sample_ratio

    def sample(self, step: TraceStep, **attributes: Value) -> Span | None:
        """Begin a trace, or a child of the application's span; None if it is not sampled."""
        if random.random() >= self._sample_ratio and trace.get_current_span() is trace.INVALID_SPAN:
            return None
        stream = attributes.get("stream", "")
        span = self._tracer.start_span(
            _span_name(step, stream), kind=_KINDS[step], attributes=_attributes(step, attributes)
        )
        return OtelSpan(span, self._tracer, step, stream) if span.is_recording() else None

    def follow(self, step: TraceStep, parents: Sequence[str], **attributes: Value) -> Span:
        """Return a child of the first parent with links to the others.

        A delivery, and what the application does with it, is also linked to its producer, so that a
        record can be followed from producer to consumer.
        """
        contexts = [_context(parent) for parent in parents]
        is_consumer = step in (TraceStep.DELIVER, TraceStep.PROCESS)
        linked = contexts if is_consumer else contexts[1:]
        stream = attributes.get("stream", "")
        span = self._tracer.start_span(
            _span_name(step, stream),
            trace.set_span_in_context(trace.NonRecordingSpan(contexts[0])),
            kind=_KINDS[step],
            attributes=_attributes(step, attributes),
            links=[Link(context) for context in linked],
        )
        return OtelSpan(span, self._tracer, step, stream)


def error_type(error: BaseException) -> str:
    """Return the stable code of an error; the class name of one that has no code."""
    return error.code if isinstance(error, RhumblineError) else type(error).__qualname__


def _current_id() -> int:
    return trace.get_current_span().get_span_context().span_id


def _span_name(step: TraceStep, stream: Value) -> str:
    return f"{_OPERATIONS[step]} {stream}" if step in _OPERATIONS else step


def _attributes(step: TraceStep, attributes: dict[str, Value]) -> dict[str, Value]:
    if step not in _OPERATIONS:
        return _named(attributes, is_messaging=False)
    own = {name: value for name, value in attributes.items() if name != "stream"}
    operation = _messaging(_OPERATIONS[step], attributes.get("stream", ""))
    return {**operation, **_named(own, is_messaging=True)}


def _messaging(operation: str, stream: Value) -> dict[str, Value]:
    return {
        SYSTEM: RHUMBLINE,
        OPERATION_NAME: operation,
        OPERATION_TYPE: operation,
        DESTINATION: stream,
    }


def _context(traceparent: str) -> SpanContext:
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))


def _named(attributes: dict[str, Value], *, is_messaging: bool) -> dict[str, Value]:
    """Return the attributes by their names in OpenTelemetry.

    The number of records is that of a batch, which a single record is not.
    """
    named = {f"{_NAME}.{key}": value for key, value in attributes.items()}
    records = named.get(f"{_NAME}.records")
    if is_messaging and records is not None:
        del named[f"{_NAME}.records"]
        if records != 1:
            named[MESSAGE_COUNT] = records
    return named

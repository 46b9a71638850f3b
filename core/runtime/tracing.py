"""The tracing interface: spans for the steps of a record set on its way through the service.

Tracing is off by default (``Runtime.tracer`` is None) and then costs one comparison. The producer
decides once whether a set is traced; from then on the set carries its ``traceparent``.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

Value = str | int | Sequence[str]
"""The type of a span attribute."""


class TraceStep(StrEnum):
    """The steps of a traced record set, and of the entry that holds it."""

    APPEND = "append"
    """At the producer: from the append of the first record to the acknowledgement."""
    PROXY = "proxy append"
    """At a write proxy: from the arrival of the set to the response."""
    ADD = "ledger add"
    """At the ledger writer: from sending the set's entry to its acknowledgement."""
    STORE = "bookie write"
    """At one bookie: from sending the entry to the response that it is durable there."""
    DELIVER = "deliver"
    """At a reader: from receiving the set to handing it to the application."""
    PROCESS = "process"
    """At a reader: from handing the set to the application until it asks for the next one."""


class Span(Protocol):
    """A step that has begun."""

    @property
    def traceparent(self) -> str:
        """The span's W3C trace context, passed to the spans that follow from it."""
        ...

    def join(self) -> None:
        """Note that another append has joined the step, perhaps in another span of the application.

        That span's trace gets a span of its own, which is linked with this one. Raises nothing.
        """
        ...

    def end(self, error: BaseException | None = None, **attributes: Value) -> None:
        """End the span. Call once."""
        ...


class Tracer(Protocol):
    """A factory for spans. Its methods return immediately and never raise."""

    def sample(self, step: TraceStep, **attributes: Value) -> Span | None:
        """Return a span that begins a trace, or None if this step is not traced."""
        ...

    def follow(self, step: TraceStep, parents: Sequence[str], **attributes: Value) -> Span:
        """Return a span that follows from ``parents`` (at least one) in the trace of the first."""
        ...

"""The hook for tracing: what the steps of a record set tell about themselves, if anybody listens.

Nobody does by default (``Runtime.tracer`` is None), and then it costs one comparison. Whether a set
is traced is decided once, where it is made; from there on its ``traceparent`` goes with it.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

Value = str | int | Sequence[str]
"""What an attribute of a span may be."""


class TraceStep(StrEnum):
    """The steps of a traced record set, and of the entry that holds it."""

    APPEND = "append"
    """From the first record's append to the acknowledgement, at the producer."""
    PROXY = "proxy append"
    """From its arrival at a write proxy to the answer."""
    ADD = "ledger add"
    """Of its entry: from sending to the acknowledgement."""
    STORE = "bookie write"
    """Of its entry at one bookie: from sending to the answer that it is durable there."""
    DELIVER = "deliver"
    """From when a reader has it to when the application takes it."""


class Span(Protocol):
    """One step, begun."""

    @property
    def traceparent(self) -> str:
        """Names it, for what follows from it."""
        ...

    def end(self, error: BaseException | None = None, **attributes: Value) -> None:
        """It is over. Call once."""
        ...


class Tracer(Protocol):
    """Makes spans. Its calls return at once and never raise."""

    def sample(self, step: TraceStep, **attributes: Value) -> Span | None:
        """A span that begins a trace, or None: this one is not traced."""
        ...

    def follow(self, step: TraceStep, parents: Sequence[str], **attributes: Value) -> Span:
        """A span that follows from ``parents`` (at least one; the first one's trace has it)."""
        ...

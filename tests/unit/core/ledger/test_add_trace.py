"""The spans of one entry: the add, and one write at each bookie that it is sent to."""

from collections.abc import Sequence

from rhumbline.core.ledger.add_trace import AddTrace
from rhumbline.core.ledger.replica import Replica
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import BookieUnavailableError
from rhumbline.core.runtime.tracing import TraceStep, Value


class FakeSpan:
    """A span that remembers how it began and ended."""

    def __init__(
        self, step: TraceStep, parents: Sequence[str], attributes: dict[str, Value]
    ) -> None:
        self.step = step
        self.parents = list(parents)
        self.attributes = attributes
        self.ends: list[tuple[BaseException | None, dict[str, Value]]] = []

    @property
    def traceparent(self) -> str:
        return f"parent of {self.step}"

    def join(self) -> None:
        raise AssertionError("appends join only the steps of producers")

    def end(self, error: BaseException | None = None, **attributes: Value) -> None:
        self.ends.append((error, attributes))


class FakeTracer:
    """A tracer that keeps its spans."""

    def __init__(self) -> None:
        self.spans: list[FakeSpan] = []

    def sample(self, step: TraceStep, **attributes: Value) -> FakeSpan | None:
        raise AssertionError("the producer has sampled already")

    def follow(self, step: TraceStep, parents: Sequence[str], **attributes: Value) -> FakeSpan:
        span = FakeSpan(step, parents, attributes)
        self.spans.append(span)
        return span


NEAR = Replica(0, BookieId("b0@00000000"), Region("a"))
UNKNOWN = Replica(1, BookieId("b1:3181"), None)


def test_add_follows_from_the_records_and_the_bookie_writes_follow_from_the_add() -> None:
    tracer = FakeTracer()
    trace = AddTrace(tracer, ["first", "second"], ledger_id=7, entry_id=3, size=100)
    trace.on_sent(NEAR)
    trace.on_sent(UNKNOWN)
    add, near, unknown = tracer.spans
    assert (add.step, add.parents) == (TraceStep.ADD, ["first", "second"])
    assert add.attributes == {"ledger_id": 7, "entry_id": 3, "size_bytes": 100}
    assert (near.step, near.parents) == (TraceStep.STORE, [add.traceparent])
    assert near.attributes == {"bookie": "b0@00000000", "region": "a"}
    assert unknown.attributes == {"bookie": "b1:3181", "region": ""}


def test_each_span_ends_with_its_own_outcome() -> None:
    tracer = FakeTracer()
    trace = AddTrace(tracer, ["p"], ledger_id=7, entry_id=3, size=100)
    trace.on_sent(NEAR)
    trace.on_sent(UNKNOWN)
    add, near, unknown = tracer.spans
    trace.on_response(NEAR, None)
    assert near.ends == [(None, {})]
    assert unknown.ends == []
    trace.on_done(None, ("a", "b"))
    assert add.ends == [(None, {"regions": ("a", "b")})]
    lost = BookieUnavailableError("lost")
    trace.on_response(UNKNOWN, lost)
    assert unknown.ends == [(lost, {})]


def test_failed_add_ends_its_span_with_the_error() -> None:
    tracer = FakeTracer()
    trace = AddTrace(tracer, ["p"], ledger_id=7, entry_id=3, size=100)
    lost = BookieUnavailableError("lost")
    trace.on_done(lost, ())
    assert tracer.spans[0].ends == [(lost, {"regions": ()})]

"""Lines of traces become events."""

import pytest

from rhumbline.chaos.lab.replay.trace_event import (
    EventKind,
    FaultSpan,
    TraceEvent,
    TraceReader,
    fault_spans,
)

MESSAGE, APPEND, SERVER = EventKind.MESSAGE, EventKind.APPEND, EventKind.SERVER


def line(at_ms: float, source: str, message: str) -> str:
    """Format a line as ``Trace`` does."""
    return f"{at_ms:12.3f} {source:<14} {message}"


@pytest.mark.parametrize(
    ("source", "message", "expected"),
    [
        ("wire", "app-east > bookie-west-0: add ledger 0 entry 7, LAC 6, 237 bytes",
         (MESSAGE, "app-east", "bookie-west-0", "")),
        ("wire", "bookie-west-0 > app-east: add ledger 0 entry 7: ok",
         (MESSAGE, "bookie-west-0", "app-east", "ok")),
        ("wire", "bookie-west-0 > app-east: add ledger 0 entry 7: fenced",
         (MESSAGE, "bookie-west-0", "app-east", "refused")),
        ("paths", "west > * is cut", (EventKind.PATH, "west", "*", "cut")),
        ("paths", "west > east is open", (EventKind.PATH, "west", "east", "open")),
        ("fault", "cut-region west", (EventKind.FAULT, "fault", "", "begun")),
        ("fault", "cut-region west is over", (EventKind.FAULT, "fault", "", "over")),
        ("bookie-north-0", "starts as bookie-north-0/2", (SERVER, "bookie-north-0", "", "up")),
        ("bookie-north-0", "bookie-north-0/2 loses power", (SERVER, "bookie-north-0", "", "down")),
        ("app-east", "is paused", (SERVER, "app-east", "", "paused")),
        ("app-east", "is resumed", (SERVER, "app-east", "", "resumed")),
        ("bookie-north-0", "INFO ledger fenced bookie=bookie-north-0@1 ledger=1",
         (EventKind.FENCE, "bookie-north-0", "", "info")),
        ("app-east", "WARNING ensemble changed ledger=0",
         (EventKind.PROTOCOL, "app-east", "", "warning")),
        ("bookie-north-0/1", "metadata get /ledgers ",
         (EventKind.METADATA, "bookie-north-0", "", "")),
        ("world", "everything is healed", (EventKind.NOTE, "world", "", "")),
    ],
)  # fmt: skip
def test_kind_follows_from_source_and_message(
    source: str, message: str, expected: tuple[EventKind, str, str, str]
) -> None:
    event = TraceReader().event(line(1500.25, source, message))
    assert event.at_ms == 1500.25
    assert (event.kind, event.source, event.target, event.state) == expected


def test_append_names_its_writer_and_the_bookies_that_hold_it() -> None:
    reader = TraceReader()
    reader.event(line(1, "app-east", "writes as session 1"))
    held = "held by bookie-east-0@9e, bookie-west-1@95"
    found = reader.event(line(2, "session 1", f"append 1.0 at 1:0:0@c9 (ok) {held}"))
    assert found[1:3] == (APPEND, "app-east")
    assert found.state == "ok" and found.holders == ("bookie-east-0", "bookie-west-1")
    failed = reader.event(line(3, "session 1", "append 1.1 (failed): StreamLostError: fenced"))
    assert failed.state == "failed" and failed.holders == ()


def test_faults_last_from_their_begin_to_their_end() -> None:
    def fault(at_ms: float, text: str) -> TraceEvent:
        return TraceReader().event(line(at_ms, "fault", text))

    events = [fault(1, "slow-disk b 20"), fault(2, "kill b"), fault(3, "slow-disk b is over")]
    assert fault_spans(events) == [
        FaultSpan(1, 3, "slow-disk b 20"),
        FaultSpan(2, None, "kill b"),
    ]


def test_a_line_without_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        TraceReader().event("not a line of a trace")

"""Audit lines: their fields, what is left out, and the bounds of the queue."""

import json
from typing import Any

from rhumbline.core.protocol.errors import (
    LimitExceededError,
    NoSuchStreamError,
    OverRateError,
    UnauthorizedError,
    UnknownOutcomeError,
)
from rhumbline.security.audit import (
    NO_AUDIT,
    AuditEvent,
    AuditQueue,
    AuditResult,
    audit_line,
    result_of,
)

ACT = AuditEvent("DeleteStream", AuditResult.DONE, "ada", "10.0.0.1:4000", "stream:a/b", "", "r-1")
REFUSAL = ACT._replace(result=AuditResult.REFUSED, error="unauthorized")


def parsed(lines: list[bytes]) -> list[dict[str, Any]]:
    """Return lines as objects."""
    return [json.loads(line) for line in lines]


def test_a_line_has_who_from_where_what_on_what_result_and_request() -> None:
    line = audit_line(ACT, 1_700_000_000_123, "proxy", 1)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.123Z",
        "source": "proxy",
        "action": "DeleteStream",
        "result": "done",
        "principal": "ada",
        "peer": "10.0.0.1:4000",
        "resource": "stream:a/b",
        "error": "",
        "request_id": "r-1",
        "count": 1,
    }


def test_a_line_never_holds_what_looks_like_a_secret_and_is_one_line() -> None:
    for secret in ("-----BEGIN PRIVATE KEY-----", "eyJhbGciOi.eyJzdWIi.x", "Bearer abc"):
        line = audit_line(ACT._replace(resource=f"stream:{secret}"), 0, "proxy", 1)
        assert secret.encode() not in line
    line = audit_line(ACT._replace(resource='a\n{"action": "forged"}' + "x" * 1_000), 0, "", 1)
    assert line.count(b"\n") == 1 and len(line) < 1_000


def test_every_act_has_a_line_and_repeated_refusals_are_counted() -> None:
    queue = AuditQueue("proxy", 100)
    for _ in range(3):
        assert queue.add(ACT, 0, 0.0)
    added = [queue.add(REFUSAL._replace(peer=f"10.0.0.1:{n}"), 0, 0.5) for n in range(1_000)]
    assert added == [True] + [False] * 999
    assert queue.has_repeated
    lines = parsed(queue.take(0, 1.0))
    assert [(line["result"], line["count"]) for line in lines] == [("done", 1)] * 3 + [
        ("refused", 1)
    ]
    assert queue.take(0, 1.4) == []
    (line,) = parsed(queue.take(0, 1.6))
    assert (line["result"], line["count"], line["peer"]) == ("refused", 999, "10.0.0.1:0")
    assert not queue.has_repeated


def test_repetitions_are_written_before_the_next_line_of_the_same_refusal() -> None:
    queue = AuditQueue("proxy", 100)
    for now_s in (0.0, 0.1, 0.2, 1.5):
        queue.add(REFUSAL, 0, now_s)
    assert [line["count"] for line in parsed(queue.take(0, 1.5))] == [1, 2, 1]
    queue.add(REFUSAL, 0, 1.6)
    assert [line["count"] for line in parsed(queue.finish(0))] == [1]


def test_many_different_refusals_are_bounded_and_all_counted() -> None:
    queue = AuditQueue("bookie", 10_000)
    for number in range(5_000):
        queue.add(REFUSAL._replace(resource=f"ledger:{number}"), 0, 0.0)
    lines = parsed(queue.finish(0))
    assert len(lines) < 1_100
    assert sum(line["count"] for line in lines) == 5_000


def test_what_finds_no_room_is_dropped_and_reported() -> None:
    queue = AuditQueue("proxy", 2)
    for _ in range(5):
        queue.add(ACT, 0, 0.0)
    lines = parsed(queue.take(0, 0.0))
    assert [line["action"] for line in lines] == ["DeleteStream", "DeleteStream", "audit"]
    assert (lines[-1]["error"], lines[-1]["count"]) == ("lines-dropped", 3)
    assert queue.take(0, 0.0) == [] and queue.dropped_count == 3


def test_the_result_of_an_error() -> None:
    assert result_of(UnauthorizedError("no")) is AuditResult.REFUSED
    assert result_of(OverRateError("slow")) is AuditResult.REFUSED
    assert result_of(LimitExceededError("full")) is AuditResult.REFUSED
    assert result_of(UnknownOutcomeError("?")) is AuditResult.UNKNOWN
    assert result_of(NoSuchStreamError("no")) is AuditResult.FAILED
    NO_AUDIT.record(ACT)

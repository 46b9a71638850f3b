"""Audit events, and the queue that turns them into lines. Pure: callers pass the time.

An event is an administrative act or a refusal. It names who did what to what; it never holds a
payload, a token or a key, so it has a fixed set of fields, and none for the content of a request or
the message of an error (rule SEC-20).
"""

import json
from collections import deque
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from ..core.protocol.errors import (
    LimitExceededError,
    OverRateError,
    RhumblineError,
    UnauthorizedError,
    UnknownOutcomeError,
    WrongPortError,
)

FIELD_CHARACTERS_MAX = 300
REPEAT_S = 1.0
"""Time for which repetitions of a refusal are counted instead of written."""
_REPEATED_MAX = 1_024
_HIDDEN = "[hidden]"
_MARKS_OF_SECRETS = ("-----BEGIN ", "eyJ", "Bearer ", "bearer ")
"""Beginnings of private keys, JWTs and bearer tokens, which a client may put into a name."""


class AuditResult(StrEnum):
    """The outcome of an act."""

    DONE = "done"
    REFUSED = "refused"
    """The caller may not do it: not authenticated, not permitted, above a quota, or at the
    wrong port of a proxy (rule SEC-44)."""
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It is not known whether the act took place."""


def result_of(error: RhumblineError) -> AuditResult:
    """Return the result of an act that ended with an error."""
    if isinstance(error, UnauthorizedError | OverRateError | LimitExceededError | WrongPortError):
        return AuditResult.REFUSED
    if isinstance(error, UnknownOutcomeError):
        return AuditResult.UNKNOWN
    return AuditResult.FAILED


class AuditEvent(NamedTuple):
    """An administrative act, or a refusal."""

    action: str
    result: AuditResult
    principal: str = "anonymous"
    peer: str = ""
    """Address of the client, as host:port if the port is known."""
    resource: str = ""
    error: str = ""
    """Code of the error; empty if the act was done."""
    request_id: str = ""


class AuditSink(Protocol):
    """Receives audit events. ``record`` returns at once and never raises."""

    def record(self, event: AuditEvent) -> None:
        """Take an event."""
        ...


class NoAudit:
    """Ignores all events."""

    def record(self, event: AuditEvent) -> None:
        """See AuditSink."""


NO_AUDIT = NoAudit()


class _Repeated:
    """A refusal that was written, and the number of its repetitions since."""

    __slots__ = ("count", "event", "until_s")

    def __init__(self, event: AuditEvent, until_s: float) -> None:
        self.event = event
        self.until_s = until_s
        self.count = 0


class AuditQueue:
    """The lines that wait to be written (rules SEC-21, SEC-22).

    Invariants: at most ``lines_max`` lines wait; each event is in a line, in the count of one, or
    in a dropped line, and dropped lines are counted.
    """

    def __init__(self, source: str, lines_max: int) -> None:
        """``source`` names the process in each line."""
        self.source = source
        self.dropped_count = 0
        """Number of lines that found no room, since the start of the process."""
        self._lines_max = lines_max
        self._lines: deque[bytes] = deque()
        self._repeated: dict[AuditEvent, _Repeated] = {}
        self._reported_count = 0

    @property
    def has_repeated(self) -> bool:
        """True if a refusal is remembered, so that ``take`` should be called again soon."""
        return bool(self._repeated)

    def add(self, event: AuditEvent, time_ms: int, now_s: float) -> bool:
        """Add an event. Returns True if a line waits for it.

        ``time_ms`` is the wall time, ``now_s`` any monotonic clock.
        """
        if event.result is AuditResult.REFUSED:
            key = _key(event)
            repeated = self._repeated.get(key)
            if repeated is None and len(self._repeated) >= _REPEATED_MAX:
                key = AuditEvent(event.action, event.result, "", error=event.error)
                event = key._replace(principal="several")
                repeated = self._repeated.get(key)
            if repeated is not None and now_s < repeated.until_s:
                repeated.count += 1
                return False
            if repeated is not None and repeated.count:
                self._push(repeated.event, time_ms, repeated.count)
            self._repeated[key] = _Repeated(event, now_s + REPEAT_S)
        self._push(event, time_ms, 1)
        return True

    def take(self, time_ms: int, now_s: float) -> list[bytes]:
        """Return the lines that wait, with their line endings, and remove them."""
        for key, repeated in list(self._repeated.items()):
            if now_s >= repeated.until_s:
                del self._repeated[key]
                if repeated.count:
                    self._push(repeated.event, time_ms, repeated.count)
        lines = list(self._lines)
        self._lines.clear()
        missing = self.dropped_count - self._reported_count
        if missing:
            self._reported_count = self.dropped_count
            event = AuditEvent("audit", AuditResult.FAILED, "", error="lines-dropped")
            lines.append(audit_line(event, time_ms, self.source, missing))
        return lines

    def finish(self, time_ms: int) -> list[bytes]:
        """Return everything that is left, counts of repetitions included."""
        return self.take(time_ms, float("inf"))

    def _push(self, event: AuditEvent, time_ms: int, count: int) -> None:
        if len(self._lines) >= self._lines_max:
            self.dropped_count += 1
        else:
            self._lines.append(audit_line(event, time_ms, self.source, count))


def audit_line(event: AuditEvent, time_ms: int, source: str, count: int) -> bytes:
    """Return the line of an event; ``count`` is the number of equal events that it stands for."""
    at = datetime.fromtimestamp(time_ms / 1000, UTC)
    fields = {name: _shown(value) for name, value in event._asdict().items()}
    stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
    return json.dumps({"time": stamp, "source": source, **fields, "count": count}).encode() + b"\n"


def _key(event: AuditEvent) -> AuditEvent:
    """Return the fields that repetitions of a refusal share: all but port and request id."""
    return event._replace(peer=event.peer.rpartition(":")[0], request_id="")


def _shown(text: str) -> str:
    if any(mark in text for mark in _MARKS_OF_SECRETS):
        return _HIDDEN
    return text if len(text) <= FIELD_CHARACTERS_MAX else f"{text[: FIELD_CHARACTERS_MAX - 3]}..."

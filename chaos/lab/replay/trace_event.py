"""Events of a simulated run, read from the lines of its trace.

A line has a time, a source and a message (see ``Trace``). The kind of an event follows from source
and message, so that a page can draw messages, acknowledgements, fences, failures and cut paths.
"""

import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

_TIME_WIDTH, _SOURCE_WIDTH = 12, 14
_WIRE = re.compile(r"(\S+) > (\S+): (.*)", re.DOTALL)
_PATH = re.compile(r"(\S+) > (\S+) is (cut|open)")
_WRITES = re.compile(r"writes as (session \d+)")
_APPEND = re.compile(r"append \d+\.\d+")
_CODE = re.compile(r"entry -?\d+: (.+)")
_LOG_LEVELS = ("INFO", "WARNING", "ERROR")
_FENCES = ("ledger fenced ", "ledger writer fenced ")
_OVER = " is over"


class EventKind(Enum):
    """The kind of an event of a trace."""

    MESSAGE = "message"
    """A frame arrived at ``target``; ``state`` is ok or refused if it is a response with a code."""
    APPEND = "append"
    """An append ended: ok, with the bookies that held it, or failed."""
    FENCE = "fence"
    SERVER = "server"
    """A process is up, down, paused or resumed."""
    PATH = "path"
    """The path from a region or server to another one (``*``: all) is cut or open."""
    FAULT = "fault"
    """A fault began, or is over."""
    PROTOCOL = "protocol"
    """A line of a program's log; ``state`` is its level in lower case."""
    METADATA = "metadata"
    """A request to the metadata store."""
    NOTE = "note"


class TraceEvent(NamedTuple):
    """One event. Times are virtual milliseconds."""

    at_ms: float
    kind: EventKind
    source: str
    """The server or region, or another part of the simulation, such as ``fault``."""
    text: str
    target: str = ""
    state: str = ""
    holders: tuple[str, ...] = ()
    """The servers that held the record durably when its append was acknowledged."""


class FaultSpan(NamedTuple):
    """A fault from its begin to its end; ``end_ms`` is None if the trace tells no end."""

    begin_ms: float
    end_ms: float | None
    text: str


class TraceReader:
    """Reads the lines of one trace in order."""

    def __init__(self) -> None:
        self._host_by_session: dict[str, str] = {}

    def event(self, line: str) -> TraceEvent:
        """Return the event of a line. Raises ValueError if it does not begin with a time."""
        at_ms = float(line[:_TIME_WIDTH])
        source, text = _source_and_message(line[_TIME_WIDTH + 1 :])
        if source == "wire" and (wire := _WIRE.fullmatch(text)):
            return _message(at_ms, *wire.groups())
        if source == "paths" and (path := _PATH.fullmatch(text)):
            left, right, state = path.groups()
            return TraceEvent(at_ms, EventKind.PATH, left, text, right, state)
        if source == "fault":
            state = "over" if text.endswith(_OVER) else "begun"
            return TraceEvent(at_ms, EventKind.FAULT, source, text, state=state)
        if _APPEND.match(text):
            return self._append(at_ms, source, text)
        host = source.partition("/")[0]
        if text.startswith(("metadata ", "old metadata ")):
            return TraceEvent(at_ms, EventKind.METADATA, host, text)
        level, _, event = text.partition(" ")
        if level in _LOG_LEVELS:
            kind = EventKind.FENCE if event.startswith(_FENCES) else EventKind.PROTOCOL
            return TraceEvent(at_ms, kind, host, event, state=level.lower())
        if writes := _WRITES.fullmatch(text):
            self._host_by_session[writes[1]] = host
        state = _state_of_server(source, text)
        kind = EventKind.SERVER if state else EventKind.NOTE
        return TraceEvent(at_ms, kind, host, text, state=state)

    def _append(self, at_ms: float, session: str, text: str) -> TraceEvent:
        _, _, held = text.partition(" held by ")
        holders = tuple(bookie.partition("@")[0] for bookie in held.split(", ") if bookie)
        host = self._host_by_session.get(session, session)
        state = "ok" if "(ok)" in text else "failed"
        return TraceEvent(at_ms, EventKind.APPEND, host, text, state=state, holders=holders)


def fault_spans(events: Iterable[TraceEvent]) -> list[FaultSpan]:
    """Return the faults of a run in the order in which they begin."""
    spans: list[FaultSpan] = []
    for event in events:
        if event.kind is not EventKind.FAULT:
            continue
        if event.state == "begun":
            spans.append(FaultSpan(event.at_ms, None, event.text))
            continue
        name = event.text.removesuffix(_OVER)
        for index, span in enumerate(spans):
            if span.end_ms is None and _is_same_fault(span.text, name):
                spans[index] = span._replace(end_ms=event.at_ms)
                break
    return spans


def _is_same_fault(begun: str, ended: str) -> bool:
    """The line of an end may leave out the value that the line of the begin has at its end."""
    return begun == ended or begun.startswith(f"{ended} ")


def _source_and_message(rest: str) -> tuple[str, str]:
    if rest[_SOURCE_WIDTH : _SOURCE_WIDTH + 1] in ("", " "):
        return rest[:_SOURCE_WIDTH].rstrip(), rest[_SOURCE_WIDTH + 1 :]
    source, _, message = rest.partition(" ")
    return source, message


def _message(at_ms: float, source: str, target: str, text: str) -> TraceEvent:
    code = _CODE.search(text)
    state = "" if code is None else "ok" if code[1] == "ok" else "refused"
    return TraceEvent(at_ms, EventKind.MESSAGE, source, text, target, state)


def _state_of_server(source: str, text: str) -> str:
    if text.startswith("starts as "):
        return "up"
    if text in ("is paused", "is resumed"):
        return text.removeprefix("is ")
    return "down" if re.match(rf"{re.escape(source)}/\d+ ", text) else ""

"""From what the processes of a run have written down to what the checker judges."""

from typing import Any

from ....core.protocol.dlsn import Dlsn
from ...checker.history import (
    AppendOutcome,
    Delivered,
    History,
    RecordedAppend,
    RecordedRead,
    token_of,
)
from .members import AppProgram, BookieProgram
from .programs.durability_recorder import read_notes

_OUTCOMES = {one.value: one for one in AppendOutcome}


def history_of(apps: list[AppProgram], bookies: list[BookieProgram]) -> History:
    """All appends and reads. Appends carry the bookies that had them for good when they ended."""
    history = History(lambda: 0.0)
    appends: dict[tuple[int, int], RecordedAppend] = {}
    reads: dict[str, RecordedRead] = {}
    for one in apps:
        for event in one.events:
            _add(event, history, appends, reads)
    ordered = sorted(appends.values(), key=lambda append: (append.called_ms, append.token))
    history.appends = {append.token: append for append in ordered}
    history.session_count = len({append.session for append in ordered})
    _add_holders(history, bookies)
    return history


def _add(
    event: list[Any],
    history: History,
    appends: dict[tuple[int, int], RecordedAppend],
    reads: dict[str, RecordedRead],
) -> None:
    kind, at_ms, *what = event
    match kind:
        case "call":
            session, number, size = what
            payload = token_of(session, number) + b"." * size
            appends[session, number] = RecordedAppend(session, number, payload, at_ms)
        case "end":
            append = appends[what[0], what[1]]
            append.outcome, append.ended_ms = _OUTCOMES[what[2]], at_ms
            if append.outcome is AppendOutcome.OK:
                append.dlsn, append.regions = Dlsn.parse(what[3]), tuple(what[4])
            else:
                append.reason = what[3]
        case "read":
            name, reader, start = what
            reads[name] = RecordedRead(reader, Dlsn.parse(start) if start else None)
            history.reads.append(reads[name])
        case "got":
            name, records = what
            reads[name].records += [
                Delivered(at_ms, Dlsn.parse(dlsn), payload.encode("latin-1"))
                for dlsn, payload in records
            ]
        case "complete":
            reads[what[0]].is_complete = True


def _add_holders(history: History, bookies: list[BookieProgram]) -> None:
    durable: dict[bytes, dict[str, float]] = {}
    for bookie in bookies:
        for one in bookie.incarnations:
            for token, at_ms in read_notes(one.notes).items():
                durable.setdefault(token, {})[one.bookie_id] = at_ms
    for token, append in history.appends.items():
        if append.outcome is AppendOutcome.OK and append.ended_ms is not None:
            append.holders = tuple(
                bookie_id
                for bookie_id, at_ms in durable.get(token, {}).items()
                if at_ms <= append.ended_ms
            )

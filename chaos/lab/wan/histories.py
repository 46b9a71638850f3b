"""Converts the recorded events of processes into the history that the checker judges."""

from typing import Any

from ....core.protocol.dlsn import Dlsn
from ...checker.history import (
    AppendOutcome,
    DeliveredRecord,
    History,
    RecordedAppend,
    RecordedRead,
    token_of,
)
from .members import AppProgram, BookieProgram
from .programs.durability_recorder import read_notes

_OUTCOMES = {outcome.value: outcome for outcome in AppendOutcome}


def history_of(apps: list[AppProgram], bookies: list[BookieProgram]) -> History:
    """Return all appends and reads.

    ``holders`` of an append are the bookies on whose disks the record was durable when the append
    was acknowledged.
    """
    history = History(lambda: 0.0)
    appends: dict[tuple[int, int], RecordedAppend] = {}
    reads: dict[str, RecordedRead] = {}
    for program in apps:
        for event in program.events:
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
    kind, at_ms, *values = event
    match kind:
        case "call":
            session, number, size = values
            payload = token_of(session, number) + b"." * size
            appends[session, number] = RecordedAppend(session, number, payload, at_ms)
        case "end":
            append = appends[values[0], values[1]]
            append.outcome, append.ended_ms = _OUTCOMES[values[2]], at_ms
            if append.outcome is AppendOutcome.OK:
                append.dlsn, append.regions = Dlsn.parse(values[3]), tuple(values[4])
            else:
                append.reason = values[3]
        case "read":
            name, reader, start = values
            reads[name] = RecordedRead(reader, Dlsn.parse(start) if start else None)
            history.reads.append(reads[name])
        case "got":
            name, records = values
            reads[name].records += [
                DeliveredRecord(at_ms, Dlsn.parse(dlsn), payload.encode("latin-1"))
                for dlsn, payload in records
            ]
        case "complete":
            reads[values[0]].is_complete = True


def _add_holders(history: History, bookies: list[BookieProgram]) -> None:
    durable: dict[bytes, dict[str, float]] = {}
    for bookie in bookies:
        for incarnation in bookie.incarnations:
            for token, at_ms in read_notes(incarnation.notes).items():
                durable.setdefault(token, {})[incarnation.bookie_id] = at_ms
    for token, append in history.appends.items():
        if append.outcome is AppendOutcome.OK and append.ended_ms is not None:
            append.holders = tuple(
                bookie_id
                for bookie_id, at_ms in durable.get(token, {}).items()
                if at_ms <= append.ended_ms
            )

"""The history of a stream as operations on an append-only log, for Porcupine.

An operation takes effect at one moment between its call and its return. The operations are:

- ``append``: records get positions, in the order of the moments at which they are appended.
  A conditional append also requires that the stream ends at the expected position.
- ``read``: returns the first record at or above a position.
- ``end``: there is no record at or above a position. Only the reads at the end of a run report it;
  while a run lasts, readers may be behind (invariant G6 is about those who ask a quorum).

An append whose outcome is unknown may take effect at any time until the run ends. If no reader got
its record, it is left out, as it then has no effect that anyone could see.
"""

from collections.abc import Iterator, Mapping
from typing import NotRequired, TypedDict

from ...core.protocol.dlsn import Dlsn
from ..checker.history import TOKEN, AppendOutcome, History, RecordedAppend, RecordedRead

Position = list[int]


class PlacedRecord(TypedDict):
    """A record and its position."""

    at: Position
    token: str
    after: NotRequired[Position | None]
    """For an appended record: where the record before it is; None if it is the first one."""


class LogOperation(TypedDict):
    """An operation on a stream. ``called`` and ``returned`` are virtual nanoseconds."""

    kind: str
    client: int
    called: int
    returned: int
    start: NotRequired[Position]
    """For ``read`` and ``end``: the position from which the record was read."""
    expected: NotRequired[Position]
    """For a conditional append: where the stream had to end."""
    records: NotRequired[list[PlacedRecord]]


def operations_of(history: History) -> list[LogOperation]:
    """Return the operations of a run that has ended."""
    ended_ns = _ns(history.now_ms())
    positions = _positions(history)
    found = list(_appends(history, positions, ended_ns))
    for number, read in enumerate(history.reads):
        found += _reads(read, history.session_count + number, ended_ns)
    return found


def _ns(ms: float) -> int:
    return round(ms * 1e6)


def _positions(history: History) -> dict[bytes, Dlsn]:
    """Return where each record is according to its acknowledgement, or else to its first reader."""
    found: dict[bytes, Dlsn] = {}
    for read in history.reads:
        for record in read.records:
            found.setdefault(_token(record.payload), record.dlsn)
    for append in history.appends.values():
        known = [dlsn for dlsn in (append.dlsn, *append.reported_positions) if dlsn is not None]
        if known:
            found[append.token] = known[0]
    return found


def _token(payload: bytes) -> bytes:
    match = TOKEN.match(payload)
    return match.group() if match else payload


def _position(dlsn: Dlsn) -> Position:
    return [dlsn.lssn, dlsn.entry_id, dlsn.slot]


def _record(at: Dlsn, token: bytes) -> PlacedRecord:
    return {"at": _position(at), "token": token.decode(errors="backslashreplace")}


def _appends(
    history: History, positions: Mapping[bytes, Dlsn], ended_ns: int
) -> Iterator[LogOperation]:
    in_order = sorted(positions.values())
    before = dict(zip(in_order[1:], in_order, strict=False))
    calls: dict[tuple[int, int], list[RecordedAppend]] = {}
    for append in history.appends.values():
        if append.outcome is AppendOutcome.FAILED or append.token not in positions:
            continue
        # Only atomic batches take effect at one moment; those of numbered producers may be divided.
        is_atomic = append.group and append.producer is None
        key = (append.group, 0) if is_atomic else (append.session, append.number + 1)
        calls.setdefault(key, []).append(append)
    for appends in calls.values():
        first = appends[0]
        is_known = first.outcome is AppendOutcome.OK
        found: LogOperation = {
            "kind": "append",
            "client": first.session,
            "called": _ns(first.called_ms),
            "returned": _ns(first.ended_ms or 0.0) if is_known else ended_ns,
            "records": [_appended(positions[append.token], append, before) for append in appends],
        }
        if first.expected is not None:
            found["expected"] = _position(first.expected)
        yield found


def _appended(at: Dlsn, append: RecordedAppend, before: Mapping[Dlsn, Dlsn]) -> PlacedRecord:
    record = _record(at, append.token)
    previous = before.get(at)
    record["after"] = None if previous is None else _position(previous)
    return record


def _reads(read: RecordedRead, client: int, ended_ns: int) -> Iterator[LogOperation]:
    start = read.start or Dlsn(0, 0, 0)
    called_ns = _ns(read.called_ms)
    for record in read.records:
        # Records of a batch arrive at one moment, but in order. A record that was readable once is
        # readable later, so a later call changes no verdict, and it spares the search all orders.
        returned_ns = max(_ns(record.at_ms), called_ns)
        yield {
            "kind": "read",
            "client": client,
            "called": called_ns,
            "returned": returned_ns,
            "start": _position(start),
            "records": [_record(record.dlsn, _token(record.payload))],
        }
        start, called_ns = _after(record.dlsn), returned_ns + 1
    if read.is_complete:
        yield {
            "kind": "end",
            "client": client,
            "called": called_ns,
            "returned": ended_ns,
            "start": _position(start),
        }


def _after(dlsn: Dlsn) -> Dlsn:
    return Dlsn(dlsn.lssn, dlsn.entry_id, dlsn.slot + 1)

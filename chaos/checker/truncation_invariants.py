"""Invariants of truncation, of taking it back, and of purging.

They are evaluated on the calls of applications with their outcomes, and on the versions of the
metadata.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from ...core.protocol.dlsn import Dlsn
from .history import AdminCall, AppendOutcome, RecordedRead, Untruncation
from .run_record import RunRecord, StreamVersions, invariant

LASTING = ("NoSuchLedgerError", "NoSuchEntryError", "GapError", "CorruptionError")
"""Names of error classes that no reader may get, even if segments are truncated meanwhile."""


@invariant("G12")
def truncation_is_undone_by_request_only(record: RunRecord) -> Iterator[str]:
    """The first active position goes back only by a call that takes a truncation back, to where
    that call wants it, and forward only by a truncation or by policy. Acknowledged truncations and
    untruncations took place. A reader gets nothing below the position, skips nothing above it, gets
    TruncatedError only if its position was truncated, and no other lasting error."""
    yield from _moves_without_a_call(record)
    for cut in record.history.truncations:
        called_ms = cut.at_ms if cut.called_ms is None else cut.called_ms
        highest = max(record.stored.starts_in(called_ms, cut.at_ms))
        if highest < cut.position:
            yield (
                f"it was truncated to {cut.position} at {cut.at_ms:.1f} ms, but begins at {highest}"
            )
    for call in record.history.untruncations:
        if call.start is not None and call.ended_ms is not None:
            lowest = min(record.stored.starts_in(call.called_ms, call.ended_ms))
            wanted = call.start if call.position is None else max(call.start, call.position)
            if lowest > wanted:
                yield f"{call} returned {call.start}, but the stream began at {lowest}"
    acked = sorted(
        append.dlsn
        for append in record.history.appends_with_outcome(AppendOutcome.OK)
        if append.dlsn is not None
    )
    for read in record.history.reads:
        yield from _wrong_errors(record, read)
        if read.ready_ms is not None:
            yield from _read_below_the_start(record, read)
            yield from _skipped(record, read, acked)


def _may_move_back(call: Untruncation, at_ms: float, start: Dlsn) -> bool:
    """True if ``call`` may have moved the start back to ``start`` at that time."""
    if at_ms < call.called_ms or (call.ended_ms is not None and call.ended_ms < at_ms):
        return False
    return call.position is None or call.position == start


def _moves_without_a_call(record: RunRecord) -> Iterator[str]:
    for (_, before), (at_ms, after) in pairwise(record.stored.starts):
        move = f"at {at_ms:.1f} ms the first active position went from {before} to {after}"
        calls = record.history.untruncations
        if after < before and not any(_may_move_back(call, at_ms, after) for call in calls):
            yield move
        if (
            after > before
            and record.is_truncated_by_calls
            and not any(_may_truncate(call, at_ms, after) for call in record.history.admin_calls)
        ):
            yield f"{move}, and no call truncated it"


def _may_truncate(call: AdminCall, at_ms: float, start: Dlsn) -> bool:
    is_in_progress = call.called_ms <= at_ms and (call.ended_ms is None or call.ended_ms >= at_ms)
    return call.kind == "truncate" and call.position == start and is_in_progress


def _wrong_errors(record: RunRecord, read: RecordedRead) -> Iterator[str]:
    if read.failed_ms is None:
        return
    if read.failure in LASTING:
        yield f"{read.reader} got {read.failure} at {_position(read)}"
    start = max(record.stored.starts_in(read.called_ms, read.failed_ms))
    if read.failure == "TruncatedError" and start <= _position(read):
        yield f"{read.reader} at {_position(read)} got TruncatedError, but {start} is active"
    was_made = any(at_ms <= read.called_ms for at_ms, _ in record.stored.starts)
    deleting_ms = record.stored.deleting_ms
    is_there = was_made and (deleting_ms is None or deleting_ms > read.failed_ms)
    # A reader that was opened with old metadata may have read another stream of the name.
    is_old = read.ready_ms is not None and record.may_be_old(read.called_ms, read.ready_ms)
    if read.failure == "NoSuchStreamError" and is_there and not is_old:
        yield f"{read.reader} got NoSuchStreamError while the stream existed"


def _position(read: RecordedRead) -> Dlsn:
    if read.records:
        return read.records[-1].dlsn
    return read.start or Dlsn(0, 0, 0)


def _read_below_the_start(record: RunRecord, read: RecordedRead) -> Iterator[str]:
    if not read.records:
        return
    start = min(record.starts_at_opening(read))
    if read.records[0].dlsn < start:
        yield (
            f"{read.reader} was opened at {read.called_ms:.1f} ms and got {read.records[0].dlsn}; "
            f"what is below {start} had been truncated"
        )


def _skipped(record: RunRecord, read: RecordedRead, acked: list[Dlsn]) -> Iterator[str]:
    if not read.records:
        return
    first = read.records[0].dlsn
    if read.seeks_txid is None:
        assert read.ready_ms is not None
        first = min(first, read.start or max(record.starts_at_opening(read)))
    got = {delivered.dlsn for delivered in read.records}
    last = read.records[-1].dlsn
    for dlsn in acked[bisect_left(acked, first) :]:
        if dlsn > last:
            break
        if dlsn not in got:
            yield f"{read.reader} came from {first} to {last} and was not given {dlsn}"


@invariant("G19")
def purges_wait_and_are_final(record: RunRecord) -> Iterator[str]:
    """A segment is purged only after it was truncated for the whole grace period, without a break.
    It is never active again: no untruncation reaches a segment that was deleted."""
    for lssn, at_ms, what in _purges(record):
        truncated_ms = _truncated_since(record.stored, lssn, at_ms)
        waited_ms = at_ms - truncated_ms
        grace_ms = record.purge_grace_ms
        if grace_ms is not None and waited_ms < grace_ms - _CLOCK_MS:
            yield (
                f"{what} of segment {lssn} was deleted at {at_ms:.1f} ms, {waited_ms:.1f} ms after "
                f"its truncation, with a grace period of {grace_ms} ms"
            )
        for active_ms, start in record.stored.starts:
            if active_ms > at_ms and start.lssn <= lssn:
                yield (
                    f"at {active_ms:.1f} ms the stream began at {start}, but the {what} of segment "
                    f"{lssn} was deleted at {at_ms:.1f} ms"
                )
                break


_CLOCK_MS = 1.0
"""Wall clocks are read in whole milliseconds."""


def _purges(record: RunRecord) -> Iterator[tuple[int, float, str]]:
    """Yield (LSSN, virtual ms, deleted part) of each deletion by a purge."""
    deleting_ms = record.stored.deleting_ms
    until_ms = float("inf") if deleting_ms is None else deleting_ms
    for lssn, versions in record.segments.items():
        for version in versions:
            if version.segment is None and version.at_ms < until_ms:
                yield lssn, version.at_ms, "metadata"
        stored = [version.segment for version in versions if version.segment is not None]
        if not stored or stored[-1].is_archive_only:
            continue
        for ledger in record.ledgers.get(stored[-1].ledger_id, ()):
            if ledger.metadata is None and ledger.at_ms < until_ms:
                yield lssn, ledger.at_ms, "ledger"


def _truncated_since(stored: StreamVersions, lssn: int, at_ms: float) -> float:
    """Return since when, at ``at_ms``, the whole segment has been truncated; ``at_ms`` if not."""
    since = None
    for ms, start in stored.starts:
        if ms > at_ms:
            break
        if start.lssn <= lssn:
            since = None
        elif since is None:
            since = ms
    return at_ms if since is None else since

"""Invariants of a stream's records: all readers get acknowledged records once and in order."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from ...core.protocol.dlsn import Dlsn
from .history import AppendOutcome, RecordedAppend, RecordedRead
from .run_record import RunRecord, invariant


def _sent(record: RunRecord, payload: bytes) -> RecordedAppend | None:
    append = record.history.sender_of(payload)
    return append if append is not None and append.payload == payload else None


@invariant("G1")
def acknowledged_records_are_delivered(record: RunRecord) -> Iterator[str]:
    """Every complete reader gets every acknowledged record from its start on that is not truncated:
    exactly once, in order, at the position that the writer received. It gets nothing else."""
    acked = record.history.appends_with_outcome(AppendOutcome.OK)
    for read in record.history.reads:
        yield from _well_formed(record, read)
        if not read.is_complete:
            continue
        found = {delivered.dlsn: delivered.payload for delivered in read.records}
        for append in acked:
            assert append.dlsn is not None
            if read.start is not None and append.dlsn < read.start:
                continue
            payload = found.get(append.dlsn)
            if payload is None and record.is_removed(append.dlsn, since_ms=read.called_ms):
                continue
            if payload is None:
                yield f"{append} was not delivered to {read.reader}"
            elif payload != append.payload:
                yield f"{append}: {read.reader} got {payload[:24]!r} there"


def _well_formed(record: RunRecord, read: RecordedRead) -> Iterator[str]:
    for before, after in pairwise(read.records):
        if before.dlsn >= after.dlsn:
            yield f"{read.reader} got {after.dlsn} after {before.dlsn}"
    seen: dict[bytes, Dlsn] = {}
    for delivered in read.records:
        if _sent(record, delivered.payload) is None:
            start = delivered.payload[:24]
            yield f"{read.reader} got at {delivered.dlsn} what was never sent: {start!r}"
        first = seen.setdefault(delivered.payload, delivered.dlsn)
        if first != delivered.dlsn:
            yield f"{read.reader} got {delivered.payload[:24]!r} at {first} and at {delivered.dlsn}"


@invariant("G2")
def positions_are_unique_and_rise(record: RunRecord) -> Iterator[str]:
    """No two acknowledged appends have the same position, and the positions of a session rise in
    the order of its calls."""
    acked = record.history.appends_with_outcome(AppendOutcome.OK)
    owners: dict[Dlsn, RecordedAppend] = {}
    for append in acked:
        assert append.dlsn is not None
        other = owners.setdefault(append.dlsn, append)
        if other is not append:
            yield f"{other} and {append} share a position"
    by_session: dict[int, list[RecordedAppend]] = {}
    for append in acked:
        by_session.setdefault(append.session, []).append(append)
    for appends in by_session.values():
        appends.sort(key=lambda append: append.number)
        for before, after in pairwise(appends):
            assert before.dlsn is not None and after.dlsn is not None
            if before.dlsn >= after.dlsn:
                yield f"{after} was called after {before}, but has no higher position"


@invariant("G3")
def readers_agree(record: RunRecord) -> Iterator[str]:
    """Readers get the same records, gaps included, over a common range of positions."""
    reads = [read for read in record.history.reads if read.records]
    whole = max(reads, key=lambda read: len(read.records), default=None)
    if whole is None:
        return
    order = [delivered.dlsn for delivered in whole.records]
    indexes = {dlsn: index for index, dlsn in enumerate(order)}
    payloads = {delivered.dlsn: delivered.payload for delivered in whole.records}
    for read in reads:
        for delivered in read.records:
            if delivered.dlsn in payloads and payloads[delivered.dlsn] != delivered.payload:
                yield f"{read.reader} and {whole.reader} differ at {delivered.dlsn}"
            elif delivered.dlsn not in payloads and order[0] <= delivered.dlsn <= order[-1]:
                yield f"{read.reader} got {delivered.dlsn}, which {whole.reader} did not"
        for before, after in pairwise(read.records):
            here, there = indexes.get(before.dlsn), indexes.get(after.dlsn)
            if here is not None and there is not None and there != here + 1:
                yield f"{read.reader} skipped from {before.dlsn} to {after.dlsn}"


@invariant("G4")
def appends_are_linearizable(record: RunRecord) -> Iterator[str]:
    """An append that was acknowledged before another was called has the lower position."""
    positions = _positions(record)
    calls = sorted(
        (append for append in record.history.appends.values() if append.token in positions),
        key=lambda append: append.called_ms,
    )
    acked = sorted(
        record.history.appends_with_outcome(AppendOutcome.OK),
        key=lambda append: append.ended_ms if append.ended_ms is not None else 0.0,
    )
    highest: RecordedAppend | None = None
    at = 0
    for append in calls:
        while at < len(acked) and (acked[at].ended_ms or 0.0) < append.called_ms:
            if highest is None or (acked[at].dlsn or Dlsn(0, 0, 0)) > positions[highest.token]:
                highest = acked[at]
            at += 1
        if highest is not None and positions[append.token] <= positions[highest.token]:
            yield (
                f"{append} is at {positions[append.token]}, below {highest}, "
                "which was acknowledged before it was called"
            )


def _positions(record: RunRecord) -> dict[bytes, Dlsn]:
    """Return the position of each append: as acknowledged, or as read if its outcome is unknown."""
    found: dict[bytes, Dlsn] = {}
    for read in record.history.reads:
        for delivered in read.records:
            append = _sent(record, delivered.payload)
            if append is not None:
                found[append.token] = delivered.dlsn
    for append in record.history.appends_with_outcome(AppendOutcome.OK):
        assert append.dlsn is not None
        found[append.token] = append.dlsn
    return found


@invariant("G5")
def failed_appends_are_never_read(record: RunRecord) -> Iterator[str]:
    """An append that failed for certain is never read."""
    for read in record.history.reads:
        for delivered in read.records:
            append = _sent(record, delivered.payload)
            if append is not None and append.outcome is AppendOutcome.FAILED:
                yield f"{append} ({append.reason}) was read by {read.reader} at {delivered.dlsn}"


@invariant("G7")
def segment_numbers_are_bound_once(record: RunRecord) -> Iterator[str]:
    """LSSNs are contiguous from 1, each is always bound to one ledger, and no ledger to two."""
    owners: dict[int, int] = {}
    for number, lssn in enumerate(sorted(record.segments), 1):
        if lssn != number:
            yield f"segment {number} was never created, but {lssn} was"
            break
    for lssn, versions in record.segments.items():
        for version in versions:
            if version.segment is None:
                continue
            if version.segment.lssn != lssn:
                yield f"segment {lssn} has the number {version.segment.lssn} in its metadata"
            first = owners.setdefault(version.segment.ledger_id, lssn)
            if first != lssn:
                yield f"ledger {version.segment.ledger_id} is segment {first} and {lssn}"
            if record.ledger_of(lssn) != version.segment.ledger_id:
                yield (
                    f"segment {lssn} was ledger {record.ledger_of(lssn)} "
                    f"and then {version.segment.ledger_id}"
                )


@invariant("G8")
def at_most_two_segments_in_progress(record: RunRecord) -> Iterator[str]:
    """At each moment at most two segments are not completed, and these are adjacent."""
    changes = sorted(
        (version.at_ms, lssn, version)
        for lssn, versions in record.segments.items()
        for version in versions
    )
    in_progress: dict[int, None] = {}
    for at_ms, lssn, version in changes:
        if version.segment is None or version.segment.is_completed:
            in_progress.pop(lssn, None)
        else:
            in_progress[lssn] = None
        low, high = min(in_progress, default=0), max(in_progress, default=0)
        if len(in_progress) > 2 or high - low > 1:
            yield f"at {at_ms:.0f} ms segments {sorted(in_progress)} are in progress"


@invariant("G9")
def completed_segments_match_their_ledgers(record: RunRecord) -> Iterator[str]:
    """A completed segment ends where its closed ledger ends, has as many records as readers get
    from it, and its end never changes."""
    finals: dict[int, int] = {}
    for lssn, versions in record.segments.items():
        ends: list[tuple[int, int]] = []
        for version in versions:
            if version.segment is None:
                continue  # truncated and purged
            if not version.segment.is_completed:
                if ends:
                    yield f"segment {lssn} was completed and then in progress again"
                continue
            ends.append((version.segment.last_entry_id, version.segment.record_count))
            finals[lssn] = version.segment.record_count
            ledger = record.last_version(version.segment.ledger_id)
            if ledger is not None and ledger.last_entry_id != version.segment.last_entry_id:
                yield (
                    f"segment {lssn} ends at {version.segment.last_entry_id}, its ledger "
                    f"{version.segment.ledger_id} at {ledger.last_entry_id}"
                )
        if len(set(ends)) > 1:
            yield f"the end of segment {lssn} moved: {ends}"
    for read in record.history.reads:
        if read.is_complete and read.records:
            yield from _miscounted(read, finals)


def _miscounted(read: RecordedRead, finals: Mapping[int, int]) -> Iterator[str]:
    """Yield segments that a complete read passed through, and whose records are not as many as
    their metadata says."""
    counts = Counter(delivered.dlsn.lssn for delivered in read.records)
    for lssn in range(read.records[0].dlsn.lssn + 1, read.records[-1].dlsn.lssn):
        if lssn in finals and finals[lssn] != counts[lssn]:
            yield (
                f"segment {lssn} says that it has {finals[lssn]} records; {read.reader} got "
                f"{counts[lssn]}"
            )


@invariant("G10")
def sequence_ids_add_up(record: RunRecord) -> Iterator[str]:
    """A completed segment starts where the completed one before it ended."""
    finals = {
        lssn: version.segment
        for lssn, versions in record.segments.items()
        for version in versions
        if version.segment is not None and version.segment.is_completed
    }
    for lssn, segment in finals.items():
        before = finals.get(lssn - 1)
        expected = 0 if before is None else before.start_sequence_id + before.record_count
        if (before is not None or lssn == 1) and segment.start_sequence_id != expected:
            yield f"segment {lssn} starts at {segment.start_sequence_id}, expected {expected}"

"""Invariants of stream operations: queries, ends, record sets, numbers and deletion.

They are evaluated on the calls of applications with their outcomes, and on the versions of the
metadata.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise

from ...core.protocol.dlsn import Dlsn
from .history import (
    TOKEN,
    AppendOutcome,
    DeliveredRecord,
    KnownNumber,
    RecordedAppend,
    RecordedRead,
)
from .ledger_invariants import satisfies_p
from .run_record import RunRecord, SegmentVersion, StreamVersions, invariant


@invariant("G6")
def end_queries_miss_nothing_visible(record: RunRecord) -> Iterator[str]:
    """A query that asks a quorum for the end of the stream returns no less than what was visible
    when it was called. Visible is what a later acknowledged append carried, or what an explicit LAC
    told a quorum of bookies. A single bookie may know a higher end and report it to its readers."""
    if not record.history.end_queries:
        return
    visible = sorted([*_carried(record), *_explicit_lacs(record)])
    highest: list[tuple[Dlsn, str]] = []
    for _, dlsn, reason in visible:
        best = (dlsn, reason)
        highest.append(max(best, highest[-1]) if highest else best)
    times = [at_ms for at_ms, _, _ in visible]
    for query in record.history.end_queries:
        index = bisect_left(times, query.called_ms)
        if index and highest[index - 1][0] >= query.end:
            dlsn, reason = highest[index - 1]
            yield (
                f"{query.caller} asked at {query.called_ms:.1f} ms and got {query.end}, "
                f"but {dlsn} was visible: {reason}"
            )


Visible = tuple[float, Dlsn, str]
"""(virtual ms, position, reason): since when a position is visible, and why."""


def _carried(record: RunRecord) -> Iterator[Visible]:
    sessions: dict[tuple[int, int], list[RecordedAppend]] = {}
    for append in record.history.appends_with_outcome(AppendOutcome.OK):
        if append.dlsn is not None and append.producer is None:
            sessions.setdefault((append.session, append.dlsn.lssn), []).append(append)
    for appends in sessions.values():
        appends.sort(key=lambda append: append.number)
        calls = [append.called_ms for append in appends]
        for append in appends:
            assert append.dlsn is not None
            index = bisect_right(calls, append.ended_ms or 0.0)
            if index < len(appends):
                later = appends[index]
                yield later.ended_ms or 0.0, append.dlsn, f"{later} carried it"


def _explicit_lacs(record: RunRecord) -> Iterator[Visible]:
    segments = {record.ledger_of(lssn): lssn for lssn in record.segments}
    acked = sorted(
        append.dlsn
        for append in record.history.appends_with_outcome(AppendOutcome.OK)
        if append.dlsn
    )
    for ledger_id, news in record.observed.lacs.items():
        lssn = segments.get(ledger_id)
        if lssn is None:
            continue
        known: dict[str, int] = {}
        for at_ms, bookie, lac in sorted(news):
            known[bookie] = max(lac, known.get(bookie, -1))
            versions = [version for version in record.ledgers[ledger_id] if version.at_ms <= at_ms]
            metadata = versions[-1].metadata if versions else None
            if metadata is None or lac < 0:
                continue
            members: tuple[str, ...] = metadata.last_fragment.bookies
            knowing = {bookie for bookie in members if known.get(bookie, -1) >= lac}
            if satisfies_p(metadata.quorum_at(lac), knowing, record.regions):
                index = bisect_left(acked, Dlsn(lssn, lac + 1, 0))
                if index and acked[index - 1].lssn == lssn:  # else the LAC covers no record
                    yield at_ms, acked[index - 1], f"{sorted(knowing)} had the LAC"


@invariant("G11")
def ledgers_have_one_segment(record: RunRecord) -> Iterator[str]:
    """Each ledger belongs to one segment of one stream. It is not deleted while a segment that is
    not truncated names it, unless its stream is being deleted."""
    owners: dict[int, tuple[str, int]] = {}
    for name, stream in record.streams.items():
        for lssn, versions in stream.segments.items():
            for version in versions:
                if version.segment is None or version.segment.is_archive_only:
                    continue
                ledger_id = version.segment.ledger_id
                first = owners.setdefault(ledger_id, (name, lssn))
                if first != (name, lssn):
                    yield f"ledger {ledger_id} is segment {first} and {(name, lssn)}"
    for ledger_id, (name, lssn) in owners.items():
        for ledger in record.ledgers.get(ledger_id, ()):
            if ledger.metadata is None and _needs(record.streams[name], lssn, ledger.at_ms):
                start = record.streams[name].start_at(ledger.at_ms)
                yield (
                    f"ledger {ledger_id} was deleted at {ledger.at_ms:.1f} ms, but is segment "
                    f"{lssn} of {name}, which begins at {start}"
                )


def _needs(stream: StreamVersions, lssn: int, at_ms: float) -> bool:
    if stream.deleting_ms is not None and stream.deleting_ms <= at_ms:
        return False
    known = [version for version in stream.segments[lssn] if version.at_ms <= at_ms]
    stored: SegmentVersion | None = known[-1] if known else None
    if stored is None or stored.segment is None or stored.segment.is_archive_only:
        return False
    return lssn >= stream.start_at(at_ms).lssn


@invariant("G13")
def nothing_follows_the_end_of_a_stream(record: RunRecord) -> Iterator[str]:
    """No append that is called after the acknowledged end of a stream is acknowledged, no segment
    behind the end holds a record, and no reader reports an end that was never written."""
    ended_ms = min((end.ended_ms for end in record.history.endings if end.ended_ms), default=None)
    for append in record.history.appends_with_outcome(AppendOutcome.OK):
        if ended_ms is not None and append.called_ms > ended_ms:
            yield f"{append} was called after the end was acknowledged at {ended_ms:.1f} ms"
    finals = {
        lssn: versions[-1].segment
        for lssn, versions in sorted(record.segments.items())
        if versions[-1].segment is not None
    }
    ends_at = min(
        (n for n, final in finals.items() if final is not None and final.ends_stream), default=0
    )
    for lssn, segment in finals.items():
        if segment is not None and ends_at and lssn > ends_at and segment.record_count:
            yield f"the stream ends in segment {ends_at}, but segment {lssn} has records"
    for read in record.history.reads:
        if read.is_ended and not record.history.endings:
            yield f"{read.reader} reported an end of the stream that was never written"


@invariant("G14")
def record_sets_are_whole(record: RunRecord) -> Iterator[str]:
    """A record set lies in consecutive slots of one entry. A reader gets all of it or nothing,
    unless it was opened inside the set."""
    groups: dict[int, list[RecordedAppend]] = {}
    for append in record.history.appends.values():
        if append.group:
            groups.setdefault(append.group, []).append(append)
    for group in groups.values():
        positions = [append.dlsn for append in group if append.dlsn is not None]
        if positions and (len(positions) < len(group) or not _are_in_a_row(positions)):
            yield f"the set of {group[0]} is at {', '.join(map(str, positions))}"
    for read in record.history.reads if groups else ():
        for number, records in _sets_of(record, read).items():
            want = [append.token for append in groups[number]]
            got = [TOKEN.findall(delivered.payload)[0] for delivered in records]
            begins_inside = records[0] is read.records[0] and want[-len(got) :] == got
            if not (got == want or begins_inside) or not _are_in_a_row([r.dlsn for r in records]):
                where = ", ".join(str(delivered.dlsn) for delivered in records)
                yield f"{read.reader} got {got} of the set {want} at {where}"


def _sets_of(record: RunRecord, read: RecordedRead) -> dict[int, list[DeliveredRecord]]:
    found: dict[int, list[DeliveredRecord]] = {}
    for delivered in read.records:
        sender = record.history.sender_of(delivered.payload)
        if sender is not None and sender.group:
            found.setdefault(sender.group, []).append(delivered)
    return found


def _are_in_a_row(positions: list[Dlsn]) -> bool:
    first = positions[0]
    return positions == [Dlsn(*first[:2], first.slot + n) for n in range(len(positions))]


@invariant("G15")
def txids_rise_and_seeks_find_them(record: RunRecord) -> Iterator[str]:
    """Transaction ids never fall along the stream. A reader that is opened at one begins with the
    first record that has at least this id and is not truncated, as far as its metadata tells."""
    known: dict[Dlsn, int] = {}
    for read in record.history.reads:
        records = [delivered for delivered in read.records if delivered.txid]
        known.update((delivered.dlsn, delivered.txid) for delivered in records)
        for before, after in pairwise(records):
            if after.txid < before.txid:
                yield f"{read.reader} got txid {after.txid} at {after.dlsn} after {before.txid}"
    positions = sorted(known)
    for read in record.history.reads:
        if read.seeks_txid is not None and read.records and read.ready_ms is not None:
            first, wanted = read.records[0], read.seeks_txid
            start = max(record.starts_at_opening(read))
            before_it = positions[
                bisect_left(positions, start) : bisect_left(positions, first.dlsn)
            ]
            missed = next((dlsn for dlsn in before_it if known[dlsn] >= wanted), None)
            if first.txid < wanted or missed is not None:
                yield (
                    f"{read.reader} was opened at txid {wanted} and began at {first.dlsn} with "
                    f"{first.txid}; it should have begun at {missed}"
                )


@invariant("G16")
def numbered_records_are_stored_once(record: RunRecord) -> Iterator[str]:
    """A numbered record is stored at one position, however often it was sent, and every call that
    returned a position returned that one. A record that was refused as a duplicate is in the
    stream, and a writer that was acknowledged knows all numbers before it. When it is opened, it
    knows each producer's last acknowledged number, and none that is not in the stream (rules STR-16
    and STR-17)."""
    positions: dict[tuple[bytes, int], Dlsn] = {}
    for read in record.history.reads:
        for delivered in read.records:
            if delivered.producer is not None:
                first = positions.setdefault(delivered.producer, delivered.dlsn)
                if first != delivered.dlsn:
                    yield (
                        f"{read.reader} got {delivered.producer} at {delivered.dlsn}; "
                        f"it is also at {first}"
                    )
    for append in record.history.appends.values():
        if append.producer is not None:
            yield from _doubled(record, append, positions.get(append.producer))
    for gap in record.history.sequence_gaps:
        later = _acked_after(record, gap.session, gap.at_ms)
        if later is not None:
            yield (
                f"session {gap.session}, which had {later} acknowledged, refused {gap.append} "
                f"of {gap.append.producer} as a gap"
            )
    for known in record.history.known_numbers:
        yield from _misknown(record, known, positions)


def _misknown(
    record: RunRecord, known: KnownNumber, positions: Mapping[tuple[bytes, int], Dlsn]
) -> Iterator[str]:
    acked = (
        append.producer[1]
        for append in record.history.appends_with_outcome(AppendOutcome.OK)
        if append.producer is not None
        and append.producer[0] == known.producer
        and (append.ended_ms or 0.0) < known.at_ms
    )
    missed = max(acked, default=-1)
    last = -1 if known.last is None else known.last
    text = f"session {known.session} knew {known.last} as the last number of {known.producer!r}"
    if last < missed and _acked_after(record, known.session, known.at_ms) is not None:
        yield f"{text} at {known.at_ms:.1f} ms, but {missed} was acknowledged"
    if known.last is not None and (known.producer, last) not in positions and _is_whole(record):
        yield f"{text} at {known.at_ms:.1f} ms, which is not in the stream"


def _doubled(record: RunRecord, append: RecordedAppend, at: Dlsn | None) -> Iterator[str]:
    positions = dict.fromkeys(
        append.reported_positions if at is None else [at, *append.reported_positions]
    )
    if len(positions) > 1:
        yield f"{append} of {append.producer} is at {', '.join(map(str, positions))}"
    if at is None and append.was_refused_as_duplicate and _is_whole(record):
        yield f"{append} of {append.producer} was refused as a duplicate, but is not in the stream"


def _is_whole(record: RunRecord) -> bool:
    """Return whether everything in the stream was read, and nothing of it was truncated."""
    was_read = any(read.is_complete for read in record.history.reads)
    return was_read and len(record.stored.starts) == 1


def _acked_after(record: RunRecord, session: int, at_ms: float) -> RecordedAppend | None:
    for append in record.history.appends_with_outcome(AppendOutcome.OK):
        if append.session == session and append.producer is None and append.called_ms > at_ms:
            return append
    return None


@invariant("L19")
def deleted_data_stays_deleted(record: RunRecord) -> Iterator[str]:
    """A reader that is opened after the deletion of a stream gets nothing of it, unless it was
    opened with old metadata. A bookie that has deleted a ledger neither accepts an add to it nor
    returns one of its entries (rule BKE-22)."""
    deleted_ms = record.history.deleted_ms
    for read in record.history.reads:
        if deleted_ms is None or read.called_ms <= deleted_ms or not read.records:
            continue
        if not record.may_be_old(read.called_ms, read.records[0].at_ms):
            yield f"{read.reader} got {read.records[0].dlsn} of the stream after its deletion"
    for late in record.late_adds:
        if late.is_confirmed or late.is_readable:
            action = "confirmed a late add to" if late.is_confirmed else "returned an entry of"
            yield f"{late.bookie} {action} ledger {late.ledger_id}, which is deleted"

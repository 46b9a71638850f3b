"""What a stream promises beside its records: truncation, its end, sets, numbers, and who is behind.

Each looks at what applications called and heard, and at the versions of the metadata.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from ...core.protocol.dlsn import Dlsn
from .history import TOKEN, AppendOutcome, Delivered, RecordedAppend, RecordedRead
from .ledger_invariants import satisfies_p
from .run_record import RunRecord, SegmentVersion, StreamVersions, invariant

LASTING = ("NoSuchLedgerError", "NoSuchEntryError", "GapError", "CorruptionError")
"""Errors that no reader may get, whatever is truncated meanwhile."""


def _sender(record: RunRecord, payload: bytes) -> RecordedAppend | None:
    token = TOKEN.match(payload)
    return record.history.appends.get(token.group()) if token else None


@invariant("G6")
def who_is_caught_up_missed_nothing(record: RunRecord) -> Iterator[str]:
    """Who is told, as a quorum says, that nothing is above a position is told no less than what was
    visible when it asked: what an acknowledged later append carried, or a quorum of bookies had
    been told without an entry. (One bookie may know more, and tell its readers.)"""
    if not record.history.looks:
        return
    visible = sorted([*_carried(record), *_told(record)])
    highest: list[tuple[Dlsn, str]] = []
    for _, dlsn, words in visible:
        best = (dlsn, words)
        highest.append(max(best, highest[-1]) if highest else best)
    times = [at_ms for at_ms, _, _ in visible]
    for look in record.history.looks:
        place = bisect_left(times, look.called_ms)
        if place and highest[place - 1][0] >= look.end:
            dlsn, words = highest[place - 1]
            yield (
                f"{look.who} asked at {look.called_ms:.1f} ms and was told {look.end}, "
                f"and {dlsn} was visible: {words}"
            )


Visible = tuple[float, Dlsn, str]
"""Since when a position is visible, and by what."""


def _carried(record: RunRecord) -> Iterator[Visible]:
    sessions: dict[tuple[int, int], list[RecordedAppend]] = {}
    for append in record.history.of_outcome(AppendOutcome.OK):
        if append.dlsn is not None and append.producer is None:
            sessions.setdefault((append.session, append.dlsn.lssn), []).append(append)
    for appends in sessions.values():
        appends.sort(key=lambda append: append.number)
        calls = [append.called_ms for append in appends]
        for append in appends:
            assert append.dlsn is not None
            place = bisect_right(calls, append.ended_ms or 0.0)
            if place < len(appends):
                later = appends[place]
                yield later.ended_ms or 0.0, append.dlsn, f"{later} carried it"


def _told(record: RunRecord) -> Iterator[Visible]:
    segments = {record.ledger_of(lssn): lssn for lssn in record.segments}
    acked = sorted(one.dlsn for one in record.history.of_outcome(AppendOutcome.OK) if one.dlsn)
    for ledger_id, news in record.testimony.lacs.items():
        lssn = segments.get(ledger_id)
        if lssn is None:
            continue
        known: dict[str, int] = {}
        for at_ms, bookie, lac in sorted(news):
            known[bookie] = max(lac, known.get(bookie, -1))
            versions = [one for one in record.ledgers[ledger_id] if one.at_ms <= at_ms]
            metadata = versions[-1].metadata if versions else None
            if metadata is None or lac < 0:
                continue
            members: tuple[str, ...] = metadata.last_fragment.bookies
            knowing = {one for one in members if known.get(one, -1) >= lac}
            if satisfies_p(metadata.quorum_at(lac), knowing, record.regions):
                place = bisect_left(acked, Dlsn(lssn, lac + 1, 0))
                if place and acked[place - 1].lssn == lssn:  # others are no records
                    yield at_ms, acked[place - 1], f"{sorted(knowing)} had been told"


@invariant("G11")
def ledgers_have_one_segment(record: RunRecord) -> Iterator[str]:
    """Each ledger is that of one segment of one stream, and none is deleted while a segment that is
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
                    f"ledger {ledger_id} was deleted at {ledger.at_ms:.1f} ms, and is segment "
                    f"{lssn} of {name}, which begins at {start}"
                )


def _needs(stream: StreamVersions, lssn: int, at_ms: float) -> bool:
    if stream.deleting_ms is not None and stream.deleting_ms <= at_ms:
        return False
    known = [one for one in stream.segments[lssn] if one.at_ms <= at_ms]
    stored: SegmentVersion | None = known[-1] if known else None
    if stored is None or stored.segment is None or stored.segment.is_archive_only:
        return False
    return lssn >= stream.start_at(at_ms).lssn


@invariant("G12")
def truncation_only_moves_forward(record: RunRecord) -> Iterator[str]:
    """The first active position never goes back, and is where an acknowledged truncation put it. No
    reader that is opened gets anything below it; a reader is told that its position was truncated
    only if it was; it gets no other error that lasts, and skips nothing."""
    for (_, before), (at_ms, after) in pairwise(record.stored.starts):
        if after < before:
            yield f"at {at_ms:.1f} ms the first active position went from {before} to {after}"
    for cut in record.history.cuts:
        if record.stored.start_at(cut.at_ms) < cut.position:
            yield (
                f"it was truncated to {cut.position} at {cut.at_ms:.1f} ms, and begins at "
                f"{record.stored.start_at(cut.at_ms)}"
            )
    acked = sorted(
        append.dlsn
        for append in record.history.of_outcome(AppendOutcome.OK)
        if append.dlsn is not None
    )
    for read in record.history.reads:
        yield from _untyped(record, read)
        if read.ready_ms is not None:
            yield from _below_the_start(record, read)
            yield from _skipped(record, read, acked)


def _untyped(record: RunRecord, read: RecordedRead) -> Iterator[str]:
    if read.failed_ms is None:
        return
    if read.failure in LASTING:
        yield f"{read.reader} got {read.failure} at {_position(read)}"
    start = record.stored.start_at(read.failed_ms)
    if read.failure == "TruncatedError" and start <= _position(read):
        yield f"{read.reader} at {_position(read)} was told it is truncated; {start} is active"
    was_made = any(at_ms <= read.called_ms for at_ms, _ in record.stored.starts)
    deleting_ms = record.stored.deleting_ms
    is_there = was_made and (deleting_ms is None or deleting_ms > read.failed_ms)
    if read.failure == "NoSuchStreamError" and is_there:
        yield f"{read.reader} was told that there is no such stream"


def _position(read: RecordedRead) -> Dlsn:
    if read.records:
        return read.records[-1].dlsn
    return read.start or Dlsn(0, 0, 0)


def _below_the_start(record: RunRecord, read: RecordedRead) -> Iterator[str]:
    start = record.stored.start_at(read.called_ms)
    if read.records and read.records[0].dlsn < start:
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
        first = min(first, read.start or record.stored.start_at(read.ready_ms))
    got = {one.dlsn for one in read.records}
    last = read.records[-1].dlsn
    for dlsn in acked[bisect_left(acked, first) :]:
        if dlsn > last:
            break
        if dlsn not in got:
            yield f"{read.reader} came from {first} to {last} and was not given {dlsn}"


@invariant("G13")
def an_end_is_an_end(record: RunRecord) -> Iterator[str]:
    """Nothing that is called after the acknowledged end of a stream is acknowledged; no segment
    behind it holds a record; and no reader is told of an end that nobody made."""
    ended_ms = min((end.ended_ms for end in record.history.ends if end.ended_ms), default=None)
    for append in record.history.of_outcome(AppendOutcome.OK):
        if ended_ms is not None and append.called_ms > ended_ms:
            yield f"{append} was called after the end was acknowledged at {ended_ms:.1f} ms"
    finals = {
        lssn: versions[-1].segment
        for lssn, versions in sorted(record.segments.items())
        if versions[-1].segment is not None
    }
    ends_at = min(
        (n for n, one in finals.items() if one is not None and one.ends_stream), default=0
    )
    for lssn, segment in finals.items():
        if segment is not None and ends_at and lssn > ends_at and segment.record_count:
            yield f"the stream ends in segment {ends_at}, and segment {lssn} has records"
    for read in record.history.reads:
        if read.is_ended and not record.history.ends:
            yield f"{read.reader} was told that the stream ended"


@invariant("G14")
def sets_are_whole(record: RunRecord) -> Iterator[str]:
    """A record set lies in consecutive slots of one entry: each reader gets all of it or nothing,
    unless it was opened inside; if it is acknowledged, so it is at one place."""
    groups: dict[int, list[RecordedAppend]] = {}
    for append in record.history.appends.values():
        if append.group:
            groups.setdefault(append.group, []).append(append)
    for group in groups.values():
        told = [one.dlsn for one in group if one.dlsn is not None]
        if told and (len(told) < len(group) or not _are_in_a_row(told)):
            yield f"the set of {group[0]} is at {', '.join(map(str, told))}"
    for read in record.history.reads if groups else ():
        for number, records in _sets_of(record, read).items():
            want = [append.token for append in groups[number]]
            got = [TOKEN.findall(one.payload)[0] for one in records]
            begins_inside = records[0] is read.records[0] and want[-len(got) :] == got
            if not (got == want or begins_inside) or not _are_in_a_row([r.dlsn for r in records]):
                places = ", ".join(str(one.dlsn) for one in records)
                yield f"{read.reader} got {got} of the set {want} at {places}"


def _sets_of(record: RunRecord, read: RecordedRead) -> dict[int, list[Delivered]]:
    found: dict[int, list[Delivered]] = {}
    for one in read.records:
        sender = _sender(record, one.payload)
        if sender is not None and sender.group:
            found.setdefault(sender.group, []).append(one)
    return found


def _are_in_a_row(places: list[Dlsn]) -> bool:
    first = places[0]
    return places == [Dlsn(*first[:2], first.slot + n) for n in range(len(places))]


@invariant("G15")
def a_txid_is_found(record: RunRecord) -> Iterator[str]:
    """Txids never fall along the stream, and a reader that was opened at a txid begins with the
    first record that has at least it and is not truncated."""
    known: dict[Dlsn, int] = {}
    for read in record.history.reads:
        records = [one for one in read.records if one.txid]
        known.update((one.dlsn, one.txid) for one in records)
        for before, after in pairwise(records):
            if after.txid < before.txid:
                yield f"{read.reader} got txid {after.txid} at {after.dlsn} after {before.txid}"
    places = sorted(known)
    for read in record.history.reads:
        if read.seeks_txid is not None and read.records and read.ready_ms is not None:
            first, wanted = read.records[0], read.seeks_txid
            start = record.stored.start_at(read.ready_ms)
            before_it = places[bisect_left(places, start) : bisect_left(places, first.dlsn)]
            missed = next((dlsn for dlsn in before_it if known[dlsn] >= wanted), None)
            if first.txid < wanted or missed is not None:
                yield (
                    f"{read.reader} wanted txid {wanted} and began at {first.dlsn} with "
                    f"{first.txid}; what it should have begun with is at {missed}"
                )


@invariant("G16")
def a_number_is_there_once(record: RunRecord) -> Iterator[str]:
    """What a producer numbered lies at one position for ever, however often it was called, and each
    of its calls that was told a position was told that one. What was told to be there is there; the
    writer of the stream knows all that came before."""
    places: dict[tuple[bytes, int], Dlsn] = {}
    for read in record.history.reads:
        for one in read.records:
            if one.producer is not None:
                first = places.setdefault(one.producer, one.dlsn)
                if first != one.dlsn:
                    yield f"{read.reader} got {one.producer} at {one.dlsn}; it is at {first}, too"
    for append in record.history.appends.values():
        if append.producer is not None:
            yield from _doubled(record, append, places.get(append.producer))
    for gap in record.history.gaps:
        later = _acked_after(record, gap.session, gap.at_ms)
        if later is not None:
            yield (
                f"session {gap.session}, which had {later} acknowledged, refused {gap.append} "
                f"of {gap.append.producer}: some before it were missing"
            )


def _doubled(record: RunRecord, append: RecordedAppend, at: Dlsn | None) -> Iterator[str]:
    told = dict.fromkeys(append.told if at is None else [at, *append.told])
    if len(told) > 1:
        yield f"{append} of {append.producer} is at {', '.join(map(str, told))}"
    was_read = any(read.is_complete for read in record.history.reads)
    if at is None and append.is_told_there and was_read and len(record.stored.starts) == 1:
        yield f"{append} of {append.producer} was told to be in the stream, and nobody got it"


def _acked_after(record: RunRecord, session: int, at_ms: float) -> RecordedAppend | None:
    for append in record.history.of_outcome(AppendOutcome.OK):
        if append.session == session and append.producer is None and append.called_ms > at_ms:
            return append
    return None


@invariant("L19")
def deleted_is_deleted(record: RunRecord) -> Iterator[str]:
    """Nothing of a deleted stream is read by who opens it afterwards, and a bookie that has
    forgotten a deleted ledger neither takes an add to it nor gives one of its entries."""
    deleted_ms = record.history.deleted_ms
    for read in record.history.reads:
        if deleted_ms is not None and read.called_ms > deleted_ms and read.records:
            yield f"{read.reader} got {read.records[0].dlsn} of the stream after its deletion"
    for late in record.late_adds:
        if late.is_confirmed or late.is_readable:
            what = "took a late add to" if late.is_confirmed else "gave an entry of"
            yield f"{late.bookie} {what} ledger {late.ledger_id}, which is deleted"

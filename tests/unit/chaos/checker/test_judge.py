"""Synthetic records of runs: a valid one violates nothing, and each defect is found."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from rhumbline.chaos.checker import run_record
from rhumbline.chaos.checker.history import (
    AdminCall,
    AppendOutcome,
    DeliveredRecord,
    EndQuery,
    GrantUse,
    History,
    KnownNumber,
    LateAdd,
    RecordDelivery,
    RecordedAppend,
    RecordedRead,
    ReportedEnd,
    SequenceGap,
    StreamEnding,
    SubscriptionUse,
    TenantDelivery,
    Truncation,
    Untruncation,
)
from rhumbline.chaos.checker.judge import CHECKS, judge
from rhumbline.chaos.checker.run_record import (
    CompareAndSet,
    EntryCopy,
    LedgerVersion,
    MachineFault,
    RunRecord,
    SealPeriod,
    SegmentVersion,
    StreamVersions,
    UnreachableRegion,
)
from rhumbline.core.ledger.slow_departure import SlowDeparture
from rhumbline.core.log.metadata.acknowledgements import Acknowledgements
from rhumbline.core.log.metadata.subscriptions import Subscription
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.dlsn import FIRST_DLSN, Dlsn
from rhumbline.core.protocol.ledger_metadata import (
    R_KEY,
    SPREAD_KEY,
    Fragment,
    LedgerMetadata,
    LedgerState,
)
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.record_set import encode_record_set
from rhumbline.core.protocol.recovery import AnswerKind, BookieAnswer, Evidence, Verdict
from rhumbline.core.protocol.segments import Segment
from rhumbline.regions.ownerless.ownerless_ledgers import Takeover

A, B, C, D = (BookieId(f"{name}@0000000a") for name in "abcd")
MEMBERS = (A, B, C)
PRODUCER = b"p" * 16
ENTRIES = 3
"""Number of entries of segment 1. Each holds a record set of two records."""


def an_open_ledger(ledger_id: int = 5) -> LedgerMetadata:
    return LedgerMetadata(ledger_id, 3, 3, 2, (Fragment(0, MEMBERS),))


def a_ledger(ledger_id: int = 5) -> LedgerMetadata:
    return an_open_ledger(ledger_id).closed(ENTRIES - 1, 100)


def a_segment(lssn: int = 1, ledger_id: int = 5) -> Segment:
    return Segment(
        lssn,
        "this one",
        ledger_id,
        1,
        0,
        is_completed=True,
        last_entry_id=ENTRIES - 1,
        record_count=2 * ENTRIES,
        length_bytes=100,
    )


def a_record() -> RunRecord:
    """Return a valid record: six records in three entries, each acknowledged before the next."""
    history = History(lambda: 0.0)
    observed = run_record.BookieObservations()
    read = RecordedRead("reader", None, is_complete=True, called_ms=900.0, ready_ms=910.0)
    copies = {}
    for entry_id in range(ENTRIES):
        group = []
        for slot in range(2):
            number = 2 * entry_id + slot
            append = history.begin_append(1, number, b"")
            append.called_ms, append.ended_ms = 100.0 * entry_id, 100.0 * entry_id + 50
            append.outcome, append.dlsn = AppendOutcome.OK, Dlsn(1, entry_id, slot)
            append.holders, append.has_own_outcome = MEMBERS, False
            append.group, append.reported_positions = entry_id + 1, [append.dlsn]
            append.producer = (PRODUCER, number) if entry_id == 0 else None
            append.expected = Dlsn(1, 0, 2) if entry_id == 1 else None
            txid = 10 * (number + 1)
            delivered = DeliveredRecord(950.0, append.dlsn, append.payload, txid, append.producer)
            read.records.append(delivered)
            group.append(append.token)
        observed.tokens[5, entry_id] = tuple(group)
        for bookie in MEMBERS:
            observed.stored[bookie, 5, entry_id] = (100.0 * entry_id + 10,) * 2
            for token in group:
                observed.durable.setdefault(token, {})[bookie] = 100.0 * entry_id + 5
            size = 100 if entry_id == 0 else 0
            copies[entry_id, str(bookie)] = EntryCopy(-1, size, bytes(size))
    history.reads.append(read)
    stored = StreamVersions({1: [SegmentVersion(400.0, a_segment())]}, [(0.0, FIRST_DLSN)])
    return RunRecord(
        history,
        {5: [LedgerVersion(0.0, an_open_ledger()), LedgerVersion(300.0, a_ledger())]},
        stored.segments,
        {A: "east", B: "north", C: "west"},
        copies={5: copies},
        observed=observed,
        stored=stored,
        streams={"stream": stored},
    )


def read_of(record: RunRecord) -> RecordedRead:
    return record.history.reads[0]


def append_of(record: RunRecord, number: int) -> RecordedAppend:
    return list(record.history.appends.values())[number]


def truncate(record: RunRecord, at_ms: float, start: Dlsn) -> None:
    record.stored.starts.append((at_ms, start))


# --- defects, by the invariant that they violate --------------------------------------------------


def query_returns_too_little(record: RunRecord) -> None:
    """The append of entry 1 was acknowledged at 150 ms and carried by that of entry 2 at 250 ms."""
    record.history.end_queries.append(EndQuery("caller", 260.0, Dlsn(1, 1, 0)))


def query_returns_less_than_a_quorum_knew(record: RunRecord) -> None:
    record.observed.lacs[5] = [(300.0, A, 2), (301.0, B, 2)]
    record.history.end_queries.append(EndQuery("caller", 310.0, Dlsn(1, 2, 0)))


def two_segments_of_one_ledger(record: RunRecord) -> None:
    segments = {7: [SegmentVersion(500.0, a_segment(7))]}
    record.streams["other"] = StreamVersions(segments, [(0.0, FIRST_DLSN)])


def ledger_in_use_is_deleted(record: RunRecord) -> None:
    record.ledgers[5].append(LedgerVersion(1_000.0, None))


def truncation_goes_back(record: RunRecord) -> None:
    truncate(record, 1_000.0, Dlsn(1, 2, 0))
    truncate(record, 1_100.0, Dlsn(1, 1, 0))


def untruncation_goes_further_than_it_was_called_to(record: RunRecord) -> None:
    truncate(record, 1_000.0, Dlsn(1, 2, 0))
    truncate(record, 1_100.0, Dlsn(1, 1, 0))
    record.history.untruncations.append(Untruncation(1_050.0, Dlsn(1, 1, 1)))


def late_untruncation_after_its_end(record: RunRecord) -> None:
    truncate(record, 1_000.0, Dlsn(1, 2, 0))
    truncate(record, 1_100.0, Dlsn(1, 1, 0))
    record.history.untruncations.append(Untruncation(1_010.0, Dlsn(1, 1, 0), 1_090.0))


def truncation_that_no_call_made(record: RunRecord) -> None:
    record.is_truncated_by_calls = True
    truncate(record, 1_000.0, Dlsn(1, 1, 0))


def untruncation_did_not_take_place(record: RunRecord) -> None:
    truncate(record, 1_000.0, Dlsn(1, 2, 0))
    call = Untruncation(1_050.0, Dlsn(1, 1, 0), 1_090.0, Dlsn(1, 1, 0))
    record.history.untruncations.append(call)


def purge_before_the_grace_ended(record: RunRecord) -> None:
    record.purge_grace_ms = 500
    truncate(record, 1_000.0, Dlsn(2, 0, 0))
    record.ledgers[5].append(LedgerVersion(1_490.0, None))


def purge_after_an_interrupted_truncation(record: RunRecord) -> None:
    record.purge_grace_ms = 500
    truncate(record, 1_000.0, Dlsn(2, 0, 0))
    truncate(record, 1_200.0, Dlsn(1, 1, 0))
    record.history.untruncations.append(Untruncation(1_150.0, None, 1_250.0, Dlsn(1, 1, 0)))
    truncate(record, 1_300.0, Dlsn(2, 0, 0))
    record.segments[1].append(SegmentVersion(1_700.0, None))


def untruncation_of_what_was_purged(record: RunRecord) -> None:
    truncate(record, 1_000.0, Dlsn(2, 0, 0))
    record.ledgers[5].append(LedgerVersion(1_500.0, None))
    truncate(record, 1_600.0, Dlsn(1, 1, 0))
    record.history.untruncations.append(Untruncation(1_550.0, None, 1_650.0, Dlsn(1, 1, 0)))


def truncation_that_was_acknowledged_is_not_there(record: RunRecord) -> None:
    record.history.truncations.append(Truncation(1_000.0, Dlsn(1, 1, 0)))


def reader_gets_what_was_truncated(record: RunRecord) -> None:
    truncate(record, 800.0, Dlsn(1, 1, 0))


def reader_skips(record: RunRecord) -> None:
    read_of(record).is_complete = False
    del read_of(record).records[2:4]


def reader_gets_a_missing_ledger_error(record: RunRecord) -> None:
    read = RecordedRead("other", FIRST_DLSN, called_ms=960.0, ready_ms=961.0)
    read.failed_ms, read.failure = 970.0, "NoSuchLedgerError"
    record.history.reads.append(read)


def reader_gets_a_truncation_error_without_truncation(record: RunRecord) -> None:
    read = RecordedRead("other", FIRST_DLSN, called_ms=960.0, ready_ms=961.0)
    read.failed_ms, read.failure = 970.0, "TruncatedError"
    record.history.reads.append(read)


def acknowledged_behind_the_end(record: RunRecord) -> None:
    record.history.endings.append(StreamEnding(1, 150.0, 190.0))


def segment_behind_the_end(record: RunRecord) -> None:
    ended = replace(a_segment(), ends_stream=True)
    record.segments[1] = [SegmentVersion(400.0, ended)]
    record.ledgers[6] = [LedgerVersion(0.0, a_ledger(6))]
    more = replace(a_segment(2, 6), start_sequence_id=6, ends_stream=True)
    record.segments[2] = [SegmentVersion(500.0, more)]


def reader_reports_an_end_that_was_never_written(record: RunRecord) -> None:
    read_of(record).is_ended = True


def reader_goes_back(record: RunRecord) -> None:
    records = read_of(record).records
    records.append(records[2])


def reader_reports_an_end_of_a_stream_that_was_not_ended(record: RunRecord) -> None:
    record.streams = {
        "s 1": StreamVersions({1: [SegmentVersion(400.0, ended_segment())]}, removed_ms=500.0),
        "s 2": StreamVersions({1: [SegmentVersion(600.0, a_segment())]}, created_ms=550.0),
    }
    record.history.reported_ends.append(ReportedEnd("reader", "s", 700.0, 800.0))


def ended_segment() -> Segment:
    return replace(a_segment(), ends_stream=True)


def set_is_torn_for_a_reader(record: RunRecord) -> None:
    read_of(record).is_complete = False
    del read_of(record).records[5]


def set_is_in_two_places(record: RunRecord) -> None:
    append_of(record, 5).dlsn = Dlsn(1, 2, 2)


def other_record_is_behind_the_expected_end(record: RunRecord) -> None:
    for number in (4, 5):
        append_of(record, number).expected = Dlsn(1, 1, 1)


def conditional_append_is_below_the_expected_end(record: RunRecord) -> None:
    append_of(record, 5).expected = Dlsn(1, 3, 0)


def refused(record: RunRecord, expected: Dlsn, end: Dlsn) -> None:
    append = record.history.begin_append(1, 99, b"")
    append.outcome, append.expected, append.named_end = AppendOutcome.FAILED, expected, end
    append.ended_ms = append.called_ms


def expected_end_is_refused(record: RunRecord) -> None:
    refused(record, Dlsn(1, 2, 2), Dlsn(1, 2, 2))


def named_end_follows_no_record(record: RunRecord) -> None:
    refused(record, Dlsn(1, 0, 2), Dlsn(1, 2, 3))


def tenants(record: RunRecord, *deliveries: TenantDelivery) -> GrantUse:
    """Give the record two tenants, one of which has no permission from 100 to 5,000 ms."""
    use = record.grants = GrantUse(1_000, {"red": ("red-log",), "blue": ("blue-log",)})
    use.revoked = {("red", is_append): [(100, 5_000)] for is_append in (True, False)}
    use.deliveries = [
        TenantDelivery("red", "red-log", 1_050, is_append=True),
        TenantDelivery("red", "red-log", 5_050, is_append=False),
        TenantDelivery("blue", "blue-log", 2_000, is_append=True),
        *deliveries,
    ]
    use.seen["red", "red-log"] = None
    return use


def append_is_acknowledged_after_a_revocation(record: RunRecord) -> None:
    tenants(record, TenantDelivery("red", "red-log", 1_101, is_append=True))


def records_are_delivered_after_a_revocation(record: RunRecord) -> None:
    tenants(record, TenantDelivery("red", "red-log", 4_999, is_append=False))


def append_to_the_stream_of_another_tenant(record: RunRecord) -> None:
    tenants(record, TenantDelivery("blue", "red-log", 50, is_append=True))


def records_of_another_tenant_are_read(record: RunRecord) -> None:
    tenants(record).seen["blue", "red-log"] = None


def txids_fall(record: RunRecord) -> None:
    records = read_of(record).records
    records[3] = records[3]._replace(txid=5)


def seek(record: RunRecord, txid: int, first: int) -> None:
    read = RecordedRead("seek", None, called_ms=960.0, ready_ms=961.0, seeks_txid=txid)
    read.records = read_of(record).records[first : first // 2 * 2 + 2]  # to the end of the set
    record.history.reads.append(read)


def seek_ends_too_far(record: RunRecord) -> None:
    seek(record, 30, 3)


def seek_ends_too_early(record: RunRecord) -> None:
    seek(record, 30, 1)


def number_is_stored_twice(record: RunRecord) -> None:
    records = read_of(record).records
    records[4] = records[4]._replace(producer=(PRODUCER, 1))


def number_was_acknowledged_at_two_positions(record: RunRecord) -> None:
    append_of(record, 1).reported_positions.append(Dlsn(1, 7, 0))


def duplicate_that_is_not_stored(record: RunRecord) -> None:
    append = record.history.begin_append(9, 0, b"")
    append.producer, append.was_refused_as_duplicate = (b"q" * 16, 0), True


def owner_does_not_know_a_number(record: RunRecord) -> None:
    record.history.sequence_gaps.append(SequenceGap(1, 160.0, append_of(record, 1)))


def owner_missed_an_acknowledged_number(record: RunRecord) -> None:
    """The newest number of the producer is 1. It was acknowledged at 50 ms."""
    record.history.known_numbers.append(KnownNumber(1, 160.0, PRODUCER, 0))


def owner_knows_a_number_that_is_not_stored(record: RunRecord) -> None:
    record.history.known_numbers.append(KnownNumber(1, 160.0, PRODUCER, 2))


def read_through_segment_2(record: RunRecord, record_count: int) -> None:
    """Let segment 2 have one record, and say that it has ``record_count``."""
    segment = replace(a_segment(2, 6), last_entry_id=0, record_count=record_count)
    record.segments[2] = [SegmentVersion(410.0, segment)]
    read = RecordedRead("counting", None, is_complete=True, called_ms=900.0, ready_ms=910.0)
    first = read_of(record).records[0]
    read.records = [first._replace(dlsn=Dlsn(lssn, 0, 0)) for lssn in (1, 2, 3)]
    record.history.reads.append(read)


def segment_has_another_number_of_records(record: RunRecord) -> None:
    read_through_segment_2(record, 2)


def with_identity(record: RunRecord) -> StreamVersions:
    """Let the stream be created at 0 ms by a call, without any other administrative call."""
    record.stored.identity = "this one"
    record.history.admin_calls.append(AdminCall("create", 0.0, ended_ms=1.0, is_unknown=False))
    return record.stored


def stream_that_no_call_created(record: RunRecord) -> None:
    with_identity(record)
    record.history.admin_calls[0].called_ms = 2.0


def late_creation(record: RunRecord) -> None:
    with_identity(record).created_ms = 2.0


def delete(record: RunRecord, call: AdminCall) -> None:
    record.history.admin_calls.append(call)
    stored = with_identity(record)
    stored.deleting_ms, stored.removed_ms = 1_000.0, 1_100.0


def deletion_meant_for_another_stream(record: RunRecord) -> None:
    delete(record, AdminCall("delete", 500.0, "another one", ended_ms=2_000.0))


def deletion_that_had_ended(record: RunRecord) -> None:
    delete(record, AdminCall("delete", -10.0, ended_ms=-5.0))


def deletion_without_a_mark(record: RunRecord) -> None:
    delete(record, AdminCall("delete", 500.0, "this one", ended_ms=2_000.0))
    record.stored.deleting_ms = record.stored.removed_ms


def truncation_that_had_ended(record: RunRecord) -> None:
    with_identity(record)
    truncate(record, 1_000.0, Dlsn(1, 1, 0))
    record.history.admin_calls.append(
        AdminCall("truncate", -10.0, position=Dlsn(1, 1, 0), ended_ms=-5.0)
    )


def segment_is_deleted_by_itself(record: RunRecord) -> None:
    with_identity(record).segments[1].append(SegmentVersion(1_000.0, None))


def subscription_is_deleted_by_itself(record: RunRecord) -> None:
    with_identity(record).removed_subscriptions.append((1_000.0, "mine"))


def reader_gets_what_was_sent_elsewhere(record: RunRecord) -> None:
    tokens = record.observed.tokens
    tokens[5, 1], tokens[5, 2] = tokens[5, 2], tokens[5, 1]


def recovery_invents_a_denial(record: RunRecord) -> None:
    """The recovery may also have taken a damaged copy for a denial."""
    recovering = a_ledger()
    record.ledgers[5].insert(
        0, LedgerVersion(0.0, replace(recovering, state=LedgerState.IN_RECOVERY))
    )
    answers = (BookieAnswer(0, A, AnswerKind.NEVER), BookieAnswer(1, B, AnswerKind.HAVE))
    record.observed.fences[A, 5] = 300.0
    fragment, quorum = Fragment(0, MEMBERS), Quorum(3, 3, 2)
    regions = ("east", "north", "west")
    record.evidence = [Evidence(5, 1, Verdict.RECOVER, fragment, regions, (quorum,), answers, -1)]


def two_changes_at_once(record: RunRecord) -> None:
    record.compare_and_sets = [
        CompareAndSet("app/1", 5, LedgerState.OPEN, 1, 10.0, 30.0),
        CompareAndSet("app/1", 5, LedgerState.OPEN, 1, 20.0, 40.0),
    ]


def ledger_is_closed_during_a_change(record: RunRecord) -> None:
    record.compare_and_sets = [
        CompareAndSet("app/1", 5, LedgerState.OPEN, 1, 10.0, 30.0),
        CompareAndSet("app/1", 5, LedgerState.CLOSED, 1, 20.0, 40.0),
    ]


def older_version_is_replaced(record: RunRecord) -> None:
    record.compare_and_sets = [
        CompareAndSet("app/1", 5, LedgerState.OPEN, 2, 10.0, 30.0),
        CompareAndSet("app/1", 5, LedgerState.OPEN, 1, 40.0, 50.0),
    ]


def copy_is_dropped(record: RunRecord) -> None:
    del record.copies[5][1, C]


def deleted_stream_is_read(record: RunRecord) -> None:
    record.stored.deleting_ms = record.history.deleted_ms = 800.0


def position_of_another_stream_is_accepted(record: RunRecord) -> None:
    record.stored.identity = "0123456789abcdef"
    record.history.admin_calls.append(AdminCall("create", 0.0, ended_ms=1.0))
    record.history.reads[0].stream_id = "another"


def position_is_refused_by_its_own_stream(record: RunRecord) -> None:
    record.stored.identity = "0123456789abcdef"
    record.history.admin_calls.append(AdminCall("create", 0.0, ended_ms=1.0))
    read = record.history.reads[0]
    read.stream_id, read.failure = "0123456789ab", "InvalidPositionError"


def record_is_given_out_as_one_of_another_stream(record: RunRecord) -> None:
    with_identity(record)
    records = record.history.reads[0].records
    records[1] = records[1]._replace(dlsn=records[1].dlsn.in_stream("another"))


def segment_names_another_stream(record: RunRecord) -> None:
    segments = with_identity(record).segments[1]
    assert segments[0].segment is not None
    other = replace(segments[0].segment, stream_id="another")
    segments[0] = segments[0]._replace(segment=other)


def acknowledged_after_the_deletion(record: RunRecord) -> None:
    record.stored.deleting_ms = record.history.deleted_ms = 50.0


def deleted_ledger_accepts_an_add(record: RunRecord) -> None:
    record.late_adds = [LateAdd(A, 4, is_confirmed=True, is_readable=False)]


def deleted_ledger_returns_an_entry(record: RunRecord) -> None:
    record.late_adds = [LateAdd(A, 4, is_confirmed=False, is_readable=True)]


def response_of_an_unnamed_bookie_counts(record: RunRecord) -> None:
    other = D
    record.regions[other] = "west"
    stored = record.observed.stored
    for bookie in (B, C):
        stored[bookie, 5, 1] = (190.0, 190.0)
    stored[other, 5, 1] = (110.0, 110.0)


def recovery_counts_a_replaced_bookie(record: RunRecord) -> None:
    """The closing metadata names a bookie that confirmed the last entry only after it."""
    record.observed.stored[B, 5, 2] = (305.0, 305.0)
    record.observed.stored[C, 5, 2] = (310.0, 310.0)


def recovery_stores_too_few_regions(record: RunRecord) -> None:
    """R is 2 from the last entry on, but only bookies of one region confirmed that entry."""
    record.ledgers[5][-1] = LedgerVersion(300.0, a_ledger().with_r(2, 2))
    record.regions[B] = "east"
    record.observed.stored[C, 5, 2] = (310.0, 310.0)


def entry_is_denied(record: RunRecord) -> None:
    record.observed.withdrawals[A, 5, 1] = (120.0, 120.0)


def entry_is_denied_at_last(record: RunRecord) -> None:
    """The first response was given while the metadata did not name the bookie."""
    other = replace(an_open_ledger(), fragments=(Fragment(0, (B, C, D)),))
    record.ledgers[5].insert(1, LedgerVersion(115.0, other))
    record.observed.withdrawals[A, 5, 1] = (120.0, 400.0)


def departure(record: RunRecord, at: float, after: tuple[BookieId, ...]) -> None:
    changed = an_open_ledger().with_fragment(1, after)
    record.ledgers[5].insert(0, LedgerVersion(0.0, changed))
    record.slow_departures = [
        *record.slow_departures,
        SlowDeparture(5, C, MEMBERS, after, at),
    ]


def slow_bookies_are_left_too_soon(record: RunRecord) -> None:
    for at, name, region in ((1.0, "d", "west"), (60.0, "e", "west")):
        record.regions[BookieId(f"{name}@0000000a")] = region
        departure(record, at, (A, B, BookieId(f"{name}@0000000a")))


def slow_bookie_is_left_for_fewer_regions(record: RunRecord) -> None:
    other = D
    record.regions[other] = record.regions[A]
    departure(record, 1.0, (A, B, other))


def sealed_stream_acknowledges(record: RunRecord) -> None:
    record.seals = [SealPeriod(90.0, 150.0)]


def stream_of_a_busy_writer_is_taken(record: RunRecord) -> None:
    """Entry 1 was stored at 105 ms and acknowledged at 150 ms."""
    record.takeovers = [Takeover(5, 0.100, 0.160)]


def writer_forgets_the_spread_rule(record: RunRecord) -> None:
    other = D
    record.regions[other] = record.regions[A]
    ruled = replace(an_open_ledger(), custom={SPREAD_KEY: b"region:3"})
    assert len({record.regions[bookie] for bookie in MEMBERS}) == 3
    changed = ruled.with_fragment(1, (A, B, other))
    record.ledgers[5][:0] = [LedgerVersion(0.0, ruled), LedgerVersion(1.0, changed)]


def new_ledger_in_a_region_out_of_reach(record: RunRecord) -> None:
    """Members are in all three regions, and two bookies more are in the regions of the others."""
    record.regions |= {D: record.regions[A], BookieId("e@0000000a"): record.regions[B]}
    created_ms = record.ledgers[5][0].at_ms
    record.unreachable_regions = [
        UnreachableRegion(record.regions[C], created_ms - 6_000, created_ms + 1_000)
    ]


def copies_share_a_machine(record: RunRecord) -> None:
    """The first ensemble uses two machines, although the region of ``b`` has an unused one."""
    other = BookieId("e@0000000a")
    record.regions |= {bookie: record.regions[A] for bookie in (B, other)}
    record.machines = {A: "m1", B: "m1", C: "m2", other: "m3"}


def a_subscription(record: RunRecord) -> SubscriptionUse:
    """Return a valid use: two records are acknowledged, a third is a dead letter."""
    use = SubscriptionUse(deliveries_max=2)
    use.acknowledged = {Dlsn(1, 0, 0): 500.0, Dlsn(1, 1, 0): 510.0}
    use.dead = {Dlsn(1, 0, 1): 540.0}
    use.deliveries = [
        RecordDelivery(490.0, Dlsn(1, 0, 0), 1),
        RecordDelivery(495.0, Dlsn(1, 0, 1), 1),
        RecordDelivery(500.0, Dlsn(1, 1, 0), 1),
        RecordDelivery(530.0, Dlsn(1, 0, 1), 2),
    ]
    held = Acknowledgements("c", Dlsn(1, 2, 0), ((Dlsn(1, 1, 0), Dlsn(1, 1, 1)),))
    use.versions = [
        (520.0, Subscription("s", Dlsn(1, 0, 1), 0, held)),
        (550.0, Subscription("s", Dlsn(1, 1, 1), 0, replace(held, ranges=()))),
    ]
    record.subscription = use
    return use


def position_passes_a_record(record: RunRecord) -> None:
    use = a_subscription(record)
    use.versions.append((560.0, Subscription("s", Dlsn(1, 2, 0))))


def range_holds_a_record_that_was_not_acknowledged(record: RunRecord) -> None:
    del a_subscription(record).acknowledged[Dlsn(1, 1, 0)]


def dead_letter_comes_late(record: RunRecord) -> None:
    a_subscription(record).dead[Dlsn(1, 0, 1)] = 551.0


def delivery_is_not_counted(record: RunRecord) -> None:
    a_subscription(record).deliveries[-1] = RecordDelivery(530.0, Dlsn(1, 0, 1), 1)


def delivery_is_above_the_limit(record: RunRecord) -> None:
    a_subscription(record).deliveries.append(RecordDelivery(560.0, Dlsn(1, 0, 1), 3))


def give_times(record: RunRecord, times: Sequence[int]) -> None:
    for entry_id, created_ms in enumerate(times):
        payload = encode_record_set([b"x"], first_txid=1, last_txid=1, created_ms=created_ms)
        for bookie in MEMBERS:
            record.copies[5][entry_id, str(bookie)] = EntryCopy(-1, 0, payload)


def creation_time_falls(record: RunRecord) -> None:
    give_times(record, (0, 7, 6))


def segment_is_completed_before_its_last_record(record: RunRecord) -> None:
    give_times(record, (0, 0, 5))


DEFECTS: dict[str, tuple[Callable[[RunRecord], None], ...]] = {
    "G6": (query_returns_too_little, query_returns_less_than_a_quorum_knew),
    "G9": (segment_has_another_number_of_records,),
    "G11": (two_segments_of_one_ledger, ledger_in_use_is_deleted),
    "G12": (
        truncation_goes_back,
        untruncation_goes_further_than_it_was_called_to,
        late_untruncation_after_its_end,
        untruncation_did_not_take_place,
        truncation_that_no_call_made,
        truncation_that_was_acknowledged_is_not_there,
        reader_gets_what_was_truncated,
        reader_skips,
        reader_gets_a_missing_ledger_error,
        reader_gets_a_truncation_error_without_truncation,
    ),
    "G19": (
        purge_before_the_grace_ended,
        purge_after_an_interrupted_truncation,
        untruncation_of_what_was_purged,
    ),
    "G13": (
        acknowledged_behind_the_end,
        segment_behind_the_end,
        reader_reports_an_end_that_was_never_written,
    ),
    "G20": (reader_goes_back, reader_reports_an_end_of_a_stream_that_was_not_ended),
    "G14": (set_is_torn_for_a_reader, set_is_in_two_places),
    "G31": (
        other_record_is_behind_the_expected_end,
        conditional_append_is_below_the_expected_end,
        expected_end_is_refused,
        named_end_follows_no_record,
    ),
    "G32": (append_is_acknowledged_after_a_revocation, records_are_delivered_after_a_revocation),
    "G33": (append_to_the_stream_of_another_tenant, records_of_another_tenant_are_read),
    "G15": (txids_fall, seek_ends_too_far, seek_ends_too_early),
    "G16": (
        number_is_stored_twice,
        number_was_acknowledged_at_two_positions,
        duplicate_that_is_not_stored,
        owner_does_not_know_a_number,
        owner_missed_an_acknowledged_number,
        owner_knows_a_number_that_is_not_stored,
    ),
    "G18": (
        stream_that_no_call_created,
        late_creation,
        deletion_meant_for_another_stream,
        deletion_that_had_ended,
        deletion_without_a_mark,
        truncation_that_had_ended,
        segment_is_deleted_by_itself,
        subscription_is_deleted_by_itself,
    ),
    "G21": (acknowledged_after_the_deletion,),
    "G24": (position_of_another_stream_is_accepted, position_is_refused_by_its_own_stream),
    "G25": (record_is_given_out_as_one_of_another_stream, segment_names_another_stream),
    "G28": (
        position_passes_a_record,
        range_holds_a_record_that_was_not_acknowledged,
        dead_letter_comes_late,
    ),
    "G29": (delivery_is_not_counted, delivery_is_above_the_limit),
    "G30": (creation_time_falls, segment_is_completed_before_its_last_record),
    "G23": (sealed_stream_acknowledges,),
    "G22": (stream_of_a_busy_writer_is_taken,),
    "L13": (reader_gets_what_was_sent_elsewhere, recovery_invents_a_denial),
    "L16": (
        two_changes_at_once,
        ledger_is_closed_during_a_change,
        older_version_is_replaced,
    ),
    "L18": (copy_is_dropped,),
    "L19": (deleted_stream_is_read, deleted_ledger_accepts_an_add, deleted_ledger_returns_an_entry),
    "L20": (response_of_an_unnamed_bookie_counts,),
    "L21": (recovery_counts_a_replaced_bookie, recovery_stores_too_few_regions),
    "L22": (entry_is_denied, entry_is_denied_at_last),
    "L23": (slow_bookies_are_left_too_soon,),
    "L24": (slow_bookie_is_left_for_fewer_regions,),
    "L25": (writer_forgets_the_spread_rule,),
    "L26": (new_ledger_in_a_region_out_of_reach,),
    "G53": (copies_share_a_machine,),
}


def violated_ids(record: RunRecord) -> set[str]:
    assert CHECKS
    return {violation.id for violation in judge(record)}


def test_valid_record_violates_nothing() -> None:
    assert [str(violation) for violation in judge(a_record())] == []


def test_a_subscription_that_passes_what_is_acknowledged_violates_nothing() -> None:
    record = a_record()
    a_subscription(record)
    assert [str(violation) for violation in judge(record)] == []
    give_times(record, (0, 0, 0))
    assert not violated_ids(record) & {"G28", "G29", "G30"}


def test_a_stream_created_and_deleted_by_its_calls_violates_nothing() -> None:
    for identity in (None, "this one"):
        record = a_record()
        delete(record, AdminCall("delete", 500.0, identity, ended_ms=2_000.0))
        assert [str(violation) for violation in judge(record)] == []


def test_a_takeover_of_a_writer_that_was_silent_between_the_observations_is_right() -> None:
    record = a_record()
    record.takeovers = [Takeover(5, 0.260, 0.900), Takeover(5, 0.100, 0.149), Takeover(6, 0.0, 1.0)]
    record.seals = [SealPeriod(210.0)]
    assert [str(violation) for violation in judge(record)] == []


def test_copies_may_share_a_machine_while_the_others_are_out_of_service() -> None:
    record = a_record()
    copies_share_a_machine(record)
    created_ms = record.ledgers[5][0].at_ms
    record.machine_faults = [MachineFault("m3", created_ms - 9_000, created_ms - 8_000)]
    assert "G53" not in violated_ids(record)


@pytest.mark.parametrize(
    ("name", "add_defect"),
    [(name, add_defect) for name, defects in DEFECTS.items() for add_defect in defects],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_each_defect_is_found(name: str, add_defect: Callable[[RunRecord], None]) -> None:
    record = a_record()
    add_defect(record)
    assert name in violated_ids(record)


def test_purge_after_a_truncation_that_was_once_taken_back_violates_nothing() -> None:
    record = a_record()
    record.purge_grace_ms = 500
    record.is_truncated_by_calls = True
    record.history.admin_calls += [
        AdminCall("truncate", 990.0, position=Dlsn(2, 0, 0), ended_ms=1_010.0),
        AdminCall("truncate", 1_280.0, position=Dlsn(2, 0, 0)),
    ]
    truncate(record, 1_000.0, Dlsn(2, 0, 0))
    truncate(record, 1_200.0, Dlsn(1, 1, 0))
    record.history.untruncations.append(
        Untruncation(1_150.0, Dlsn(1, 1, 0), 1_250.0, Dlsn(1, 1, 0))
    )
    late = RecordedRead("late", Dlsn(1, 0, 1), called_ms=1_150.0, failed_ms=1_260.0)
    late.failure = "TruncatedError"
    record.history.reads.append(late)
    truncate(record, 1_300.0, Dlsn(2, 0, 0))
    record.history.truncations.append(Truncation(1_310.0, Dlsn(2, 0, 0), 1_280.0))
    record.ledgers[5].append(LedgerVersion(1_800.0, None))
    record.segments[1].append(SegmentVersion(1_801.0, None))
    assert violated_ids(record) == set()


def test_a_seek_with_old_metadata_may_begin_at_a_truncation_that_was_taken_back() -> None:
    record = a_record()
    first = read_of(record).records[3].dlsn
    truncate(record, 900.0, first)
    truncate(record, 950.0, Dlsn(1, 0, 0))
    record.history.untruncations.append(Untruncation(949.0, Dlsn(1, 0, 0), 951.0, Dlsn(1, 0, 0)))
    seek(record, 30, 3)
    assert "G15" in violated_ids(record)
    record.stale_reads_ms = [960.5]
    assert "G15" not in violated_ids(record)


def test_legal_behaviour_violates_nothing() -> None:
    record = a_record()
    truncate(record, 1_000.0, Dlsn(1, 1, 0))
    record.history.truncations.append(Truncation(1_000.0, Dlsn(1, 1, 0)))
    late = RecordedRead("late", Dlsn(1, 0, 1), called_ms=1_010.0, failed_ms=1_020.0)
    late.failure = "TruncatedError"
    inside = RecordedRead("inside", Dlsn(1, 1, 1), called_ms=1_010.0, ready_ms=1_020.0)
    inside.records = read_of(record).records[3:]
    record.history.reads += [late, inside]
    seek(record, 30, 2)
    record.history.end_queries.append(EndQuery("caller", 260.0, Dlsn(1, 2, 0)))
    record.history.endings.append(StreamEnding(1, 260.0, 270.0))
    record.compare_and_sets = [
        CompareAndSet("app/1", 5, LedgerState.OPEN, 1, 10.0, 30.0),
        CompareAndSet("app/1", 5, LedgerState.IN_RECOVERY, 1, 20.0, 40.0),
        CompareAndSet("app/2", 5, LedgerState.OPEN, 1, 25.0, 40.0),
    ]
    record.late_adds = [LateAdd(A, 4, is_confirmed=False, is_readable=False)]
    record.observed.stored[A, 5, ENTRIES] = (290.0, 290.0)  # beyond the end that was recovered
    record.observed.withdrawals[A, 5, ENTRIES] = (400.0, 400.0)
    assert [str(violation) for violation in judge(record)] == []


def test_a_recovery_may_close_a_ledger_while_a_change_of_the_same_process_has_no_answer() -> None:
    record = a_record()
    ledger_is_closed_during_a_change(record)
    assert violated_ids(record) == {"L16"}
    record.ledgers[5].insert(1, LedgerVersion(15.0, an_open_ledger().in_recovery()))
    assert violated_ids(record) == set()


def test_a_segment_has_as_many_records_as_it_says() -> None:
    record = a_record()
    read_through_segment_2(record, 1)
    assert "G9" not in violated_ids(record)


def test_an_owner_may_know_what_was_acknowledged_and_need_not_if_it_has_lost_the_stream() -> None:
    record = a_record()
    record.history.known_numbers += [
        KnownNumber(1, 160.0, PRODUCER, 1),
        KnownNumber(2, 160.0, PRODUCER, None),
    ]
    assert violated_ids(record) == set()


def test_a_bookie_may_deny_an_entry_of_a_ledger_that_is_closed_without_it() -> None:
    record = a_record()
    record.observed.denials[A, 5, 1] = 400.0
    assert violated_ids(record) == {"L10"}
    record.ledgers[5].append(
        LedgerVersion(350.0, replace(a_ledger(), fragments=(Fragment(0, (B, C, D)),)))
    )
    record.regions[D] = record.regions[A]
    record.observed.listed.update({(D, 5, entry): 340.0 for entry in range(ENTRIES)})
    assert violated_ids(record) == set()


def test_a_bookie_may_deny_an_entry_beyond_the_end_of_a_closed_ledger() -> None:
    record = a_record()
    record.observed.stored[A, 5, ENTRIES] = (290.0, 290.0)  # its acknowledgement was not counted
    record.observed.denials[A, 5, ENTRIES] = 400.0
    assert violated_ids(record) == set()
    record.observed.denials[A, 5, ENTRIES] = 299.0
    assert record.ledgers[5][-1].at_ms > 299.0
    assert violated_ids(record) == {"L10"}


def test_a_copy_that_a_successor_lists_is_a_confirmation() -> None:
    record = a_record()
    response_of_an_unnamed_bookie_counts(record)
    assert "L20" in violated_ids(record)
    record.observed.listed[B, 5, 1] = record.observed.listed[C, 5, 1] = 100.0
    assert "L20" not in violated_ids(record)


def test_bookies_count_for_an_entry_that_a_rebuild_kept_for_them() -> None:
    record = a_record()
    for bookie in (B, C):
        del record.copies[5][1, bookie]
        del record.observed.stored[bookie, 5, 1]
    before = violated_ids(record)
    assert before >= {"L3", "L21"}
    record.kept_by_rebuild = {(5, 0): frozenset({D})}
    record.regions[D] = record.regions[B]
    assert violated_ids(record) == before, "the other entry is not excused"
    record.kept_by_rebuild = {(5, 1): frozenset({D})}
    assert violated_ids(record) == before - {"L3"}, "its writer closed it, not the rebuild"
    record.rebuilt_at_ms = 0.0
    assert violated_ids(record) == before - {"L3", "L21"}


def test_a_bookie_without_an_inventory_may_have_been_in_any_region() -> None:
    record = a_record()
    for bookie in (B, C):
        del record.copies[5][1, bookie]
        del record.observed.stored[bookie, 5, 1]
    record.ledgers[5] = [
        version._replace(metadata=replace(version.metadata, custom={R_KEY: b"0:2"}))
        for version in record.ledgers[5]
        if version.metadata is not None
    ]
    record.rebuilt_at_ms = 0.0
    record.kept_by_rebuild = {(5, 1): frozenset({D})}
    record.regions[D] = record.regions[A]
    before = violated_ids(record)
    assert before >= {"L3", "L21"}, "the bookies of the entry are in one region"
    record.lost_before_rebuild = frozenset({D})
    assert violated_ids(record) == before - {"L3", "L21"}


def test_a_rebuild_may_lose_only_fragments_that_no_copy_of_the_metadata_had() -> None:
    record = a_record()
    changed = an_open_ledger().with_fragment(1, (A, B, D)).with_fragment(2, (A, C, D))
    record.ledgers[5].insert(1, LedgerVersion(200.0, changed))
    assert "L6" in violated_ids(record)
    record.rebuilt_at_ms = 300.0
    assert "L6" not in violated_ids(record)
    record.copied_fragments = frozenset({(5, 1)})
    assert "L6" in violated_ids(record)
    record.copied_fragments = frozenset()
    record.rebuilt_at_ms = 200.0
    assert "L6" in violated_ids(record), "the rebuild was earlier"


def test_an_entry_confirmed_after_the_copies_were_read_may_not_be_among_them() -> None:
    record = a_record()
    copy_is_dropped(record)
    first_ms, _ = record.observed.stored[C, 5, 1]
    record.copies_read_ms = first_ms + 1.0
    assert "L18" in violated_ids(record)
    record.copies_read_ms = first_ms
    assert "L18" not in violated_ids(record)


def test_a_damaged_bookie_may_not_deny_what_it_confirmed_even_when_the_ledger_is_closed() -> None:
    record = a_record()
    record.observed.withdrawals[A, 5, 1] = (400.0, 400.0)
    record.lost = frozenset({A})
    assert violated_ids(record) == {"L22"}


def test_orphaned_ledger_is_counted_and_is_no_violation() -> None:
    record = a_record()
    record.ledgers[8] = [LedgerVersion(0.0, LedgerMetadata(8, 3, 3, 2, (Fragment(0, MEMBERS),)))]
    assert record.orphans() == [8]
    assert violated_ids(record) == set()
    record.ledgers[8].append(LedgerVersion(10.0, None))
    assert record.orphans() == []

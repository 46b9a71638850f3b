"""Every disagreement of a segment with its ledger is found, and no remedy can lose a record."""

from dataclasses import replace

import pytest

from rhumbline.core.log.metadata.stream_metadata import StreamHead, StreamRecord
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.ledger_metadata import (
    LSSN_KEY,
    NAMESPACE_KEY,
    STREAM_KEY,
    Fragment,
    LedgerMetadata,
)
from rhumbline.core.protocol.segments import Residence, Segment
from rhumbline.regions.segment_repair.segment_faults import Remedy, SegmentFault, find_faults

STREAM = ("ns", "s")
RECORD, HEAD = StreamRecord("me", 1), StreamHead(2, "token", 3)


def an_open_ledger(lssn: int) -> LedgerMetadata:
    custom = {NAMESPACE_KEY: b"ns", STREAM_KEY: b"s", LSSN_KEY: str(lssn).encode()}
    fragment = Fragment(0, (BookieId("a@00000001"),))
    return LedgerMetadata(10 + lssn, 1, 1, 1, (fragment,), custom=custom)


def a_ledger(lssn: int, last: int = 9) -> LedgerMetadata:
    return an_open_ledger(lssn).closed(last, 100)


def an_open_segment(lssn: int) -> Segment:
    return Segment(lssn, "me", 10 + lssn, 1, 0)


def a_segment(lssn: int) -> Segment:
    return replace(
        an_open_segment(lssn), is_completed=True, last_entry_id=9, record_count=10, length_bytes=100
    )


SEGMENTS = (a_segment(1), a_segment(2), an_open_segment(3))
LEDGERS: dict[int, LedgerMetadata | None] = {
    11: a_ledger(1),
    12: a_ledger(2),
    13: an_open_ledger(3),
}


def faults(
    *,
    segments: tuple[Segment, ...] = SEGMENTS,
    ledgers: dict[int, LedgerMetadata | None] | None = None,
    record: StreamRecord = RECORD,
    head: StreamHead = HEAD,
) -> list[SegmentFault]:
    return find_faults(STREAM, record, head, segments, {**LEDGERS, **(ledgers or {})})


def changed(lssn: int, **fields: object) -> tuple[Segment, ...]:
    return tuple(replace(s, **fields) if s.lssn == lssn else s for s in SEGMENTS)  # type: ignore[arg-type]


def test_a_stream_in_order_has_no_fault() -> None:
    assert faults() == []
    empty = Segment(1, "me", 11, 1, 0, is_completed=True)
    assert faults(segments=(empty, *SEGMENTS[1:]), ledgers={11: None}) == []
    archived = changed(1, residence=Residence.ARCHIVE)
    assert faults(segments=archived, ledgers={11: None}) == []
    two_open = (SEGMENTS[0], an_open_segment(2), SEGMENTS[2])
    assert faults(segments=two_open, ledgers={12: an_open_ledger(2)}) == [], "it rolls"


@pytest.mark.parametrize(
    ("found", "lssn", "remedy", "text"),
    [
        (faults(ledgers={13: a_ledger(3)}), 3, Remedy.TAKE_OVER, "closed at entry 9"),
        (faults(head=replace(HEAD, is_sealed=True)), 3, Remedy.TAKE_OVER, "sealed"),
        (faults(ledgers={12: an_open_ledger(2)}), 2, Remedy.CLOSE_LEDGER, "its ledger is open"),
        (faults(segments=changed(1, length_bytes=99)), 1, Remedy.ADOPT_LENGTH, "99 bytes"),
        (faults(ledgers={12: a_ledger(2, 12)}), 2, Remedy.ADOPT_END, "ledger at 12"),
        (faults(ledgers={11: a_ledger(1, 12)}), 1, Remedy.NONE, "later segments number"),
        (faults(ledgers={12: a_ledger(2, 7)}), 2, Remedy.NONE, "bookies may still have them"),
        (faults(ledgers={11: None}), 1, Remedy.NONE, "there is no archive"),
        (faults(ledgers={13: None}), 3, Remedy.NONE, "there is no archive"),
        (
            faults(segments=changed(1, residence=Residence.HOT_AND_ARCHIVE), ledgers={11: None}),
            1,
            Remedy.READ_ARCHIVE,
            "verified archive",
        ),
        (faults(segments=SEGMENTS[1:]), 1, Remedy.NONE, "no metadata"),
        (
            faults(ledgers={12: replace(a_ledger(5), ledger_id=12)}),
            2,
            Remedy.NONE,
            "made for segment 5 of ns/s",
        ),
    ],
)
def test_each_disagreement_is_found_with_its_remedy(
    found: list[SegmentFault], lssn: int, remedy: Remedy, text: str
) -> None:
    [fault] = found
    assert (fault.lssn, fault.remedy) == (lssn, remedy)
    assert text in fault.text


def test_an_old_segment_in_progress_is_a_fault() -> None:
    segments = (an_open_segment(1), *SEGMENTS[1:])
    [fault] = faults(segments=segments, ledgers={11: an_open_ledger(1)})
    assert (fault.lssn, fault.remedy) == (1, Remedy.TAKE_OVER)


def test_segments_that_are_being_purged_are_not_examined() -> None:
    record = replace(RECORD, purging_lssn=2)
    assert faults(segments=SEGMENTS[1:], ledgers={11: None}, record=record) == []

"""Segment metadata: legal changes, rejected contradictions, merging of views, encoding."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError
from rhumbline.core.protocol.segments import (
    Residence,
    Segment,
    SegmentEnd,
    decode_segment,
    encode_segment,
    merged,
)

COUNT = st.integers(0, 2**40)


@st.composite
def ends(draw: st.DrawFn) -> SegmentEnd:
    if draw(st.booleans()):
        return SegmentEnd(-1, 0, 0, 0, False)
    return SegmentEnd(draw(COUNT), draw(COUNT), draw(COUNT), draw(COUNT), draw(st.booleans()))


def completed(lssn: int, end: SegmentEnd, previous: Segment | None) -> Segment:
    fresh = Segment(lssn=lssn, ledger_id=lssn + 100, epoch=lssn, created_ms=5)
    return fresh.completed(end, previous=previous, completed_ms=9)


@given(st.lists(ends(), min_size=1, max_size=10))
def test_completions_continue_sequence_ids_and_carry_the_txid(chain: list[SegmentEnd]) -> None:
    previous: Segment | None = None
    records = txid = 0
    for number, end in enumerate(chain, start=1):
        segment = completed(number, end, previous)
        assert segment.start_sequence_id == records
        records += end.record_count
        txid = max(txid, end.last_txid)
        assert segment.last_txid == txid
        assert segment.end_sequence_id == records
        assert segment.is_empty is (end.last_entry_id == -1)
        assert decode_segment(number, encode_segment(segment)) == segment
        previous = segment


def test_completion_needs_the_completed_predecessor() -> None:
    first = Segment(lssn=1, ledger_id=1, epoch=1, created_ms=0)
    second = Segment(lssn=2, ledger_id=2, epoch=1, created_ms=0)
    third = Segment(lssn=3, ledger_id=3, epoch=1, created_ms=0)
    end = SegmentEnd(0, 1, 1, 1, False)
    with pytest.raises(AssertionError, match="completed in order"):
        second.completed(end, previous=first, completed_ms=0)
    done = first.completed(end, previous=None, completed_ms=0)
    with pytest.raises(AssertionError, match="contiguous"):
        third.completed(end, previous=done, completed_ms=0)
    with pytest.raises(AssertionError, match="completed once"):
        done.completed(end, previous=None, completed_ms=0)


def test_a_stale_view_does_not_reopen_a_segment() -> None:
    fresh = Segment(lssn=1, ledger_id=1, epoch=1, created_ms=0)
    done = fresh.completed(SegmentEnd(3, 9, 4, 4, False), previous=None, completed_ms=1)
    moved = done.with_residence(Residence.HOT_AND_ARCHIVE)
    assert merged(None, fresh) == fresh
    assert merged(fresh, done) == done
    assert merged(done, fresh) == done
    assert merged(done, moved) == moved


def test_another_segment_under_the_same_number_is_corruption() -> None:
    fresh = Segment(lssn=1, ledger_id=1, epoch=1, created_ms=0)
    with pytest.raises(CorruptionError):
        merged(fresh, Segment(lssn=1, ledger_id=2, epoch=1, created_ms=0))
    short = fresh.completed(SegmentEnd(3, 9, 4, 4, False), previous=None, completed_ms=1)
    long = fresh.completed(SegmentEnd(4, 9, 5, 5, False), previous=None, completed_ms=1)
    with pytest.raises(CorruptionError):
        merged(short, long)


@pytest.mark.parametrize(
    "change",
    [
        {"lssn": 0},
        {"lssn": 2},
        {"ledger_id": -1},
        {"ledger_id": "7"},
        {"last_entry_id": -2},
        {"is_completed": 1},
        {"record_count": 5},
        {"ends_stream": True},
        {"residence": "nowhere"},
        {"surprise": 1},
    ],
)
def test_an_almost_valid_node_is_rejected(change: dict[str, object]) -> None:
    value = json.loads(encode_segment(Segment(lssn=1, ledger_id=1, epoch=1, created_ms=0)))
    with pytest.raises(CorruptionError):
        decode_segment(1, json.dumps(value | change).encode())


def test_a_newer_format_is_reported() -> None:
    value = json.loads(encode_segment(Segment(lssn=1, ledger_id=1, epoch=1, created_ms=0)))
    with pytest.raises(ForeignDataError, match="newer"):
        decode_segment(1, json.dumps(value | {"v": 2}).encode())


@given(st.binary(max_size=60))
def test_random_bytes_are_rejected_as_a_segment(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode_segment(1, data)

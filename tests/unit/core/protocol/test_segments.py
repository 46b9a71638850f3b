"""Segment metadata: legal changes, rejected contradictions, merging of views, encoding."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError
from rhumbline.core.protocol.segments import (
    NO_LEDGER,
    SEGMENTS_IN_PROGRESS_MAX,
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
    fresh = Segment(lssn=lssn, stream_id="a", ledger_id=lssn + 100, epoch=lssn, created_ms=5)
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
    first = Segment(lssn=1, stream_id="a", ledger_id=1, epoch=1, created_ms=0)
    second = Segment(lssn=2, stream_id="a", ledger_id=2, epoch=1, created_ms=0)
    third = Segment(lssn=3, stream_id="a", ledger_id=3, epoch=1, created_ms=0)
    end = SegmentEnd(0, 1, 1, 1, False)
    with pytest.raises(AssertionError, match="completed in order"):
        second.completed(end, previous=first, completed_ms=0)
    done = first.completed(end, previous=None, completed_ms=0)
    with pytest.raises(AssertionError, match="contiguous"):
        third.completed(end, previous=done, completed_ms=0)
    with pytest.raises(AssertionError, match="completed once"):
        done.completed(end, previous=None, completed_ms=0)


def test_a_stale_view_does_not_reopen_a_segment() -> None:
    fresh = Segment(lssn=1, stream_id="a", ledger_id=1, epoch=1, created_ms=0)
    done = fresh.completed(SegmentEnd(3, 9, 4, 4, False), previous=None, completed_ms=1)
    moved = done.with_residence(Residence.HOT_AND_ARCHIVE)
    assert merged(None, fresh) == fresh
    assert merged(fresh, done) == done
    assert merged(done, fresh) == done
    assert merged(done, moved) == moved


def test_another_segment_under_the_same_number_is_corruption() -> None:
    fresh = Segment(lssn=1, stream_id="a", ledger_id=1, epoch=1, created_ms=0)
    with pytest.raises(CorruptionError):
        merged(fresh, Segment(lssn=1, stream_id="a", ledger_id=2, epoch=1, created_ms=0))
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
    value = json.loads(
        encode_segment(Segment(lssn=1, stream_id="a", ledger_id=1, epoch=1, created_ms=0))
    )
    with pytest.raises(CorruptionError):
        decode_segment(1, json.dumps(value | change).encode())


def test_a_newer_format_is_reported() -> None:
    value = json.loads(
        encode_segment(Segment(lssn=1, stream_id="a", ledger_id=1, epoch=1, created_ms=0))
    )
    with pytest.raises(ForeignDataError, match="newer"):
        decode_segment(1, json.dumps(value | {"v": 2}).encode())


@given(st.binary(max_size=60))
def test_random_bytes_are_rejected_as_a_segment(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode_segment(1, data)


def test_the_node_of_a_segment_is_one_line_of_json() -> None:
    fresh = Segment(lssn=1, stream_id="a", ledger_id=7, epoch=3, created_ms=5)
    assert json.loads(encode_segment(fresh)) == {
        "v": 1, "lssn": 1, "stream_id": "a", "ledger_id": 7, "epoch": 3, "created_ms": 5,
        "is_completed": False, "completed_ms": 0, "last_entry_id": -1, "last_txid": 0,
        "record_count": 0, "length_bytes": 0, "start_sequence_id": 0, "ends_stream": False,
        "producers_lssn": 0, "producers_entry": -1, "residence": "hot",
    }  # fmt: skip
    assert [residence.value for residence in Residence] == ["hot", "hot+archive", "archive"]


def test_a_completion_records_the_end_of_the_ledger() -> None:
    fresh = Segment(lssn=1, stream_id="a", ledger_id=7, epoch=3, created_ms=5)
    assert not fresh.is_empty and not fresh.is_completed and not fresh.is_archive_only
    done = fresh.completed(SegmentEnd(4, 90, 6, 8, False, 2), previous=None, completed_ms=11)
    assert done == Segment(
        lssn=1, stream_id="a", ledger_id=7, epoch=3, created_ms=5, is_completed=True,
        completed_ms=11, last_entry_id=4, last_txid=8, record_count=6, length_bytes=90,
        start_sequence_id=0, ends_stream=False, producers_lssn=1, producers_entry=2,
    )  # fmt: skip
    assert done.first_dlsn == (1, 0, 0)
    assert done.end_sequence_id == 6


def test_a_segment_without_records_carries_the_end_and_the_snapshot_on() -> None:
    first = Segment(lssn=1, stream_id="a", ledger_id=7, epoch=3, created_ms=5).completed(
        SegmentEnd(4, 90, 6, 8, True, 2), previous=None, completed_ms=11
    )
    second = Segment(lssn=2, stream_id="a", ledger_id=8, epoch=3, created_ms=12)
    idle = second.completed(SegmentEnd(0, 9, 0, 0, False), previous=first, completed_ms=13)
    assert (idle.producers_lssn, idle.producers_entry) == (1, 2)
    assert (idle.last_txid, idle.start_sequence_id, idle.ends_stream) == (8, 6, True)
    busy = second.completed(SegmentEnd(0, 9, 1, 9, False), previous=first, completed_ms=13)
    assert (busy.producers_lssn, busy.producers_entry) == (0, -1)
    snapshot = second.completed(SegmentEnd(3, 9, 0, 0, False, 0), previous=first, completed_ms=13)
    assert (snapshot.producers_lssn, snapshot.producers_entry) == (2, 0)
    empty = Segment(lssn=1, stream_id="a", ledger_id=7, epoch=3, created_ms=5).completed(
        SegmentEnd(-1, 0, 0, 0, False), previous=None, completed_ms=11
    )
    assert (empty.producers_lssn, empty.producers_entry, empty.is_empty) == (0, -1, True)


DONE = {
    "lssn": 1, "stream_id": "a", "ledger_id": 0, "epoch": 0, "created_ms": 0, "is_completed": True,
    "last_entry_id": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"last_entry_id": -1},
        {"ends_stream": True},
        {"residence": Residence.ARCHIVE, "ledger_id": -1},
        {"residence": Residence.HOT_AND_ARCHIVE},
        {"last_entry_id": -1, "is_completed": False},
    ],
)
def test_the_smallest_fields_are_consistent(fields: dict[str, object]) -> None:
    assert Segment(**(DONE | fields)).lssn == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {"ledger_id": -1},
        {"ledger_id": -2, "residence": Residence.ARCHIVE},
        {"epoch": -1},
        {"last_txid": -1},
        {"record_count": -1},
        {"length_bytes": -1},
        {"start_sequence_id": -1},
        {"last_entry_id": -2},
        {"lssn": 0},
        {"stream_id": ""},
        {"producers_lssn": -1},
        {"producers_entry": -2},
        {"last_entry_id": -1, "record_count": 1},
        {"is_completed": False},
        {"is_completed": False, "last_entry_id": -1, "ends_stream": True},
        {"is_completed": False, "last_entry_id": -1, "residence": Residence.HOT_AND_ARCHIVE},
    ],
)
def test_inconsistent_fields_are_corruption(fields: dict[str, object]) -> None:
    with pytest.raises(CorruptionError, match="inconsistent"):
        Segment(**(DONE | fields))  # type: ignore[arg-type]


def test_only_the_residence_of_a_completed_segment_changes() -> None:
    done = Segment(**DONE)  # type: ignore[arg-type]
    moved = done.with_residence(Residence.ARCHIVE)
    assert moved.is_archive_only and not done.is_archive_only
    assert merged(moved, done) == done
    with pytest.raises(AssertionError, match="STR-7"):
        Segment(lssn=1, stream_id="a", ledger_id=1, epoch=1, created_ms=0).with_residence(
            Residence.ARCHIVE
        )


@pytest.mark.parametrize(
    "change", [{"lssn": 2}, {"ledger_id": 2}, {"epoch": 2}, {"stream_id": "b"}]
)
def test_a_view_of_another_segment_is_corruption(change: dict[str, object]) -> None:
    fields: dict[str, Any] = {"lssn": 1, "stream_id": "a", "ledger_id": 1, "epoch": 1}
    fields["created_ms"] = 0
    with pytest.raises(CorruptionError, match="another segment"):
        merged(Segment(**fields), Segment(**(fields | change)))


def test_a_node_is_decoded_for_its_own_number_only() -> None:
    done = Segment(**(DONE | {"lssn": 4, "residence": Residence.ARCHIVE}))  # type: ignore[arg-type]
    assert decode_segment(4, encode_segment(done)) == done
    with pytest.raises(CorruptionError, match="segment 5: its node names segment 4"):
        decode_segment(5, encode_segment(done))


def test_a_restored_segment_without_a_ledger_lies_in_the_archive() -> None:
    restored = Segment(**(DONE | {"ledger_id": NO_LEDGER, "residence": Residence.ARCHIVE}))  # type: ignore[arg-type]
    assert json.loads(encode_segment(restored))["ledger_id"] == -1
    assert SEGMENTS_IN_PROGRESS_MAX == 2, "rule STR-7"

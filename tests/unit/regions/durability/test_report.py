"""The report counts ledgers, entries, bytes and streams by verdict, and says why."""

from dataclasses import replace

import pytest

from rhumbline.core.protocol.bookie_id import BookieId, check_bookie_id
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.regions.durability.copy_states import ClusterCopies, CopyState, Member
from rhumbline.regions.durability.judgement import CopyVerdict, Judgement
from rhumbline.regions.durability.judgement import judge as judge_layout
from rhumbline.regions.durability.ledger_index import LedgerIndex
from rhumbline.regions.durability.ledger_layout import LedgerLayout
from rhumbline.regions.durability.report import (
    CLOSED,
    OPEN,
    Judge,
    StreamDurability,
    Tally,
    as_document,
    entries_by_r,
    tally,
)

A, B, C = (check_bookie_id(f"{name}@00000001") for name in "abc")


def cluster(**states: CopyState) -> ClusterCopies:
    return ClusterCopies(
        {
            bookie: Member(
                state := states.get(bookie[0], CopyState.UP),
                (f"region-{bookie[0]}", None, None, None),
                state.is_live,
                state is CopyState.UP,
            )
            for bookie in (A, B, C)
        }
    )


def ledger(
    ledger_id: int, bookies: tuple[BookieId, ...], stream: str, end: int | None
) -> LedgerMetadata:
    e = len(bookies)
    return LedgerMetadata(
        ledger_id, e, e, min(e, 2), (Fragment(0, bookies),),
        state=LedgerState.OPEN if end is None else LedgerState.CLOSED,
        last_entry_id=-1 if end is None else end - 1, length=10 * (end or 0),
        custom={"rhumbline.namespace": b"main", "rhumbline.stream": stream.encode()},
    ).with_r(0, min(e, 2))  # fmt: skip


def index_of(*ledgers: LedgerMetadata) -> LedgerIndex:
    index = LedgerIndex()
    index.begin_scan()
    for metadata in ledgers:
        index.note(metadata, Version("1"))
    index.end_scan(2)
    return index


INDEX = index_of(
    ledger(1, (A, B, C), "orders", 7),
    ledger(2, (A, B, C), "orders", None),
    ledger(3, (A, B), "heat", 5),
    ledger(4, (C,), "logs", 3),
)


def test_ledgers_entries_bytes_and_streams_are_counted_by_verdict() -> None:
    report = tally(INDEX, cluster(b=CopyState.DOWN, c=CopyState.LOST), every_stream=True)
    assert report.bookies[CopyState.UP] == report.bookies[CopyState.DOWN] == 1
    assert report.ledgers[CLOSED] == dict.fromkeys(CopyVerdict, 0) | {
        CopyVerdict.DOUBTFUL: 1,
        CopyVerdict.AT_RISK: 1,
        CopyVerdict.LOST: 1,
    }
    assert report.ledgers[OPEN][CopyVerdict.DOUBTFUL] == 1
    assert report.entries[CopyVerdict.DOUBTFUL] == 7, "those of the open ledger are not known"
    assert report.bytes[CopyVerdict.DOUBTFUL] == 70
    assert report.entries[CopyVerdict.AT_RISK] == 5
    assert report.entries_without_copy() == report.entries[CopyVerdict.LOST] == 3
    assert report.entries_that_may_be_lost() == 10
    assert (report.ledgers_at_risk(), report.ledgers_at_risk(OPEN)) == (4, 1)
    assert report.ledgers_that_may_lose() == 3
    assert entries_by_r(INDEX.groups()) == {1: 3, 2: 12}
    assert report.one_failure_from_loss["bookie"] == {OPEN: 1, CLOSED: 2}
    assert report.writes_blocked == 1
    assert report.ends_undecidable == 1
    assert report.ledgers_unreadable == 2
    assert report.streams_at_risk() == ["main/heat", "main/logs", "main/orders"]
    assert report.streams_that_may_lose() == ["main/logs", "main/orders"]
    assert report.causes == {B: (CopyState.DOWN, 3), C: (CopyState.LOST, 3)}
    assert report.streams["main/orders"] == StreamDurability(
        2, CopyVerdict.DOUBTFUL, 2, 2, True, False
    )


def test_streams_that_are_well_are_left_out_unless_asked_for() -> None:
    index = index_of(ledger(1, (A, B, C), "orders", 7))
    assert tally(index, cluster()).streams == {}
    assert tally(index, cluster(), every_stream=True).streams == {
        "main/orders": StreamDurability(1)
    }


def test_open_ledgers_one_failure_from_blocking_are_counted() -> None:
    report = tally(index_of(ledger(1, (A, B, C), "orders", None)), cluster(c=CopyState.DOWN))
    assert report.one_failure_from_blocking == {"bookie": 1, "region": 1}
    assert report.writes_blocked == 0
    assert report.ledgers[OPEN][CopyVerdict.REDUCED] == 1
    assert report.streams["main/orders"].is_one_bookie_from_blocking


def test_the_document_has_one_key_for_each_verdict() -> None:
    document = as_document(tally(INDEX, cluster()))
    verdicts = ["whole", "reduced", "at_risk", "doubtful", "unavailable", "lost"]
    assert isinstance(document["ledgers"], dict)
    assert list(document["ledgers"]["open"]) == list(document["ledgers"]["closed"]) == verdicts


def test_a_judge_judges_again_only_what_depends_on_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[LedgerLayout] = []

    def counted(layout: LedgerLayout, now: ClusterCopies) -> Judgement:
        judged.append(layout)
        return judge_layout(layout, now)

    monkeypatch.setattr("rhumbline.regions.durability.report.judge", counted)
    groups = INDEX.groups()
    judge = Judge(cluster())
    for group in groups:
        judge.judge(group)
    assert len(judged) == 4
    judge.update(cluster(), groups)
    for group in groups:
        judge.judge(group)
    assert len(judged) == 4
    judge.update(cluster(c=CopyState.DOWN), groups)
    judged.clear()
    for group in groups:
        judge.judge(group)
    again = [sorted(layout.bookies()) for layout in judged]
    assert again == [[A, B, C], [A, B, C], [C]], "the open ledger, and those on c"
    fresh = tally(INDEX, cluster(c=CopyState.DOWN))
    sums = Tally(judge)
    for group in groups:
        sums.add(group)
    assert replace(sums.report, ledgers_unreadable=2) == fresh


def test_copies_in_a_failed_data_directory_do_not_count() -> None:
    index = index_of(ledger(1, (A, B), "heat", 5), ledger(2, (A, B), "cold", 5))
    lacking = {bookie: frozenset((1,)) for bookie in (A, B, C)}
    index.mark_lacking(lacking)
    found = tally(index, ClusterCopies(cluster().members, lacking))
    assert found.ledgers[CLOSED][CopyVerdict.UNAVAILABLE] == 1
    assert found.ledgers[CLOSED][CopyVerdict.WHOLE] == 1
    assert found.bookies[CopyState.INCOMPLETE] == 3
    assert found.causes == {A: (CopyState.INCOMPLETE, 1), B: (CopyState.INCOMPLETE, 1)}
    assert found.streams_that_may_lose() == ["main/heat"]
    index.mark_lacking({})
    assert tally(index, cluster()).ledgers[CLOSED][CopyVerdict.WHOLE] == 2


def test_an_open_ledger_can_be_written_although_earlier_copies_are_lost() -> None:
    index = index_of(ledger(1, (A, B, C), "orders", None))
    lacking = {bookie: frozenset((1,)) for bookie in (A, B, C)}
    index.mark_lacking(lacking)
    found = tally(index, ClusterCopies(cluster().members, lacking))
    assert found.writes_blocked == 0
    assert found.ledgers_at_risk(OPEN) == 1

"""Verdicts of a recovery are compared with their definitions over all sets of answers."""

from itertools import permutations, product

import pytest

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.ensemble_change import (
    ConflictOutcome,
    changed_ensemble,
    resolve_conflict,
)
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.core.protocol.recovery import (
    AnswerKind,
    BookieAnswer,
    EntryTally,
    Evidence,
    FenceTally,
    Verdict,
    closed_by_recovery,
    quorums_from,
)

BOOKIES = tuple(BookieId(f"b{i}@0000000{i}") for i in range(4))
FRAGMENT = Fragment(10, BOOKIES[:3])
CASES = [
    (Quorum(3, 3, 2, 1), "aaa"),
    (Quorum(3, 3, 2, 2), "abc"),
    (Quorum(3, 3, 2, 2), "aab"),
    (Quorum(3, 3, 3, 1), "abc"),
    (Quorum(3, 3, 1, 1), "abc"),
    (Quorum(3, 2, 2, 1), "abc"),
]


def satisfies(quorum: Quorum, regions: str, members: list[int]) -> bool:
    return (
        len(members) >= quorum.ack_quorum
        and len(dict.fromkeys(regions[i] for i in members)) >= quorum.min_regions
    )


@pytest.mark.parametrize(("quorum", "regions"), CASES)
def test_entry_is_absent_only_if_no_writer_can_ever_be_acknowledged(
    quorum: Quorum, regions: str
) -> None:
    view = QuorumView(quorum, list(regions))
    for entry_id in range(10, 13):
        write_set = quorum.write_set(entry_id)
        for said in product(AnswerKind, repeat=len(write_set)):
            answers = dict(zip(write_set, said, strict=True))
            for order in permutations(write_set):
                tally = EntryTally(1, entry_id, FRAGMENT, view)
                verdict = None
                heard: list[int] = []
                for index in order:
                    heard.append(index)
                    verdict = tally.on_answer(index, answers[index])
                    if verdict is not None:
                        break
                never = [i for i in heard if answers[i] is AnswerKind.NEVER]
                rest = [i for i in write_set if i not in never]
                if answers[heard[-1]] is AnswerKind.HAVE:
                    assert verdict is Verdict.RECOVER
                elif not satisfies(quorum, regions, rest):
                    assert verdict is Verdict.ABSENT
                else:
                    assert verdict is Verdict.INCOMPLETE
                    assert len(heard) == len(write_set)
                evidence = tally.evidence(verdict)
                assert [a.index for a in evidence.answers] == heard
                assert evidence.entry_id == entry_id


@pytest.mark.parametrize(("quorum", "regions"), CASES)
def test_b12_fencing_is_complete_when_no_write_set_can_be_acknowledged_by_the_rest(
    quorum: Quorum, regions: str
) -> None:
    view = QuorumView(quorum, list(regions))
    for said in product(AnswerKind, repeat=3):
        for order in permutations(range(3)):
            tally = FenceTally(1, FRAGMENT, [view])
            heard: list[int] = []
            verdict = None
            for index in order:
                heard.append(index)
                verdict = tally.on_answer(index, said[index], lac=20 + index)
                if verdict is not None:
                    break
            fenced = [i for i in heard if said[i] is not AnswerKind.UNKNOWN]
            open_sets = [
                start
                for start in range(3)
                if satisfies(
                    quorum, regions, [i for i in quorum.write_set(start) if i not in fenced]
                )
            ]
            assert verdict is (Verdict.INCOMPLETE if open_sets else Verdict.COMPLETE)
            assert tally.lac == max([9, *(20 + i for i in fenced)])


def test_fencing_must_be_complete_under_every_r_in_force() -> None:
    views = [QuorumView(Quorum(3, 3, 2, r), list("aab")) for r in (2, 1)]
    tally = FenceTally(1, FRAGMENT, views)
    assert tally.on_answer(2, AnswerKind.NEVER) is None  # complete for R=2 without b, not for R=1
    assert tally.on_answer(0, AnswerKind.HAVE, 5) is Verdict.COMPLETE
    assert tally.lac == 9, "never below the fragment's start (bug B2)"
    assert [q.min_regions for q in tally.evidence(Verdict.COMPLETE).quorums] == [2, 1]


def metadata() -> LedgerMetadata:
    return LedgerMetadata(7, 3, 3, 2, (Fragment(0, BOOKIES[:3]),))


def test_quorums_from_an_entry_on_include_later_ones() -> None:
    ledger = metadata().with_r(0, 2).with_r(5, 1).with_r(9, 2)
    assert [q.min_regions for q in quorums_from(ledger, 0)] == [2, 1]
    assert [q.min_regions for q in quorums_from(ledger, 6)] == [1, 2]
    assert [q.min_regions for q in quorums_from(ledger, 9)] == [2]


def test_final_metadata_of_a_recovery_has_its_fragments_and_its_r() -> None:
    snapshot = metadata().with_r(0, 2).in_recovery()
    other = (BOOKIES[0], BOOKIES[1], BOOKIES[3])
    closed = closed_by_recovery(
        snapshot, [Fragment(4, other)], last_entry_id=6, length=70, min_regions=(4, 1)
    )
    assert closed.fragments == (Fragment(0, BOOKIES[:3]), Fragment(4, other))
    assert closed.r_ranges() == ((0, 2), (4, 1))
    assert (closed.last_entry_id, closed.length) == (6, 70)


def test_lost_compare_and_set_is_decided_by_the_stored_metadata() -> None:
    mine = metadata()
    other = (BOOKIES[3], *BOOKIES[1:3])
    assert resolve_conflict(mine, mine.closed(1, 2), {0: BOOKIES[0]}) is ConflictOutcome.CLOSED
    assert resolve_conflict(mine, mine.in_recovery(), {0: BOOKIES[0]}) is ConflictOutcome.FENCED
    assert resolve_conflict(mine, mine, {0: BOOKIES[0]}) is ConflictOutcome.RETRY
    assert (
        resolve_conflict(mine, mine.with_bookies_of(0, other), {0: BOOKIES[0]})
        is ConflictOutcome.SETTLED
    )
    assert (
        resolve_conflict(mine, mine.with_fragment(3, other), {0: BOOKIES[0]})
        is ConflictOutcome.FOREIGN
    )


def test_ensemble_change_starts_after_the_lac() -> None:
    other = (BOOKIES[3], *BOOKIES[1:3])
    changed = changed_ensemble(metadata(), last_add_confirmed=4, bookies=other)
    assert changed.last_fragment == Fragment(5, other)
    assert changed.fragments[0] == Fragment(0, BOOKIES[:3])


def test_evidence_of_fencing_names_every_answer_in_order_of_arrival() -> None:
    quorum = Quorum(3, 3, 2, 2)
    tally = FenceTally(7, FRAGMENT, [QuorumView(quorum, ["a", "b", None])])
    assert tally.lac == 9
    assert tally.on_answer(1, AnswerKind.UNKNOWN, 50) is None
    assert tally.on_answer(2, AnswerKind.HAVE, 20) is None
    assert tally.on_answer(0, AnswerKind.NEVER) is Verdict.COMPLETE
    assert tally.evidence(Verdict.COMPLETE) == Evidence(
        ledger_id=7,
        entry_id=None,
        verdict=Verdict.COMPLETE,
        fragment=FRAGMENT,
        regions=("a", "b", None),
        quorums=(quorum,),
        answers=(
            BookieAnswer(1, BOOKIES[1], AnswerKind.UNKNOWN, 50),
            BookieAnswer(2, BOOKIES[2], AnswerKind.HAVE, 20),
            BookieAnswer(0, BOOKIES[0], AnswerKind.NEVER, -1),
        ),
        lac=20,
    )


def test_evidence_of_an_entry_names_its_fragment_and_answers() -> None:
    quorum = Quorum(3, 3, 2, 1)
    tally = EntryTally(7, 11, FRAGMENT, QuorumView(quorum, ["a", "b", None]))
    assert tally.on_answer(2, AnswerKind.UNKNOWN) is None
    assert tally.on_answer(1, AnswerKind.HAVE) is Verdict.RECOVER
    assert tally.evidence(Verdict.RECOVER) == Evidence(
        ledger_id=7,
        entry_id=11,
        verdict=Verdict.RECOVER,
        fragment=FRAGMENT,
        regions=("a", "b", None),
        quorums=(quorum,),
        answers=(
            BookieAnswer(2, BOOKIES[2], AnswerKind.UNKNOWN, -1),
            BookieAnswer(1, BOOKIES[1], AnswerKind.HAVE, -1),
        ),
        lac=-1,
    )


def test_a_bookie_answers_each_question_once() -> None:
    view = QuorumView(Quorum(3, 3, 2), "aaa")
    fence, entry = FenceTally(7, FRAGMENT, [view]), EntryTally(7, 10, FRAGMENT, view)
    fence.on_answer(1, AnswerKind.UNKNOWN)
    entry.on_answer(1, AnswerKind.UNKNOWN)
    with pytest.raises(AssertionError, match="once"):
        fence.on_answer(1, AnswerKind.UNKNOWN)
    with pytest.raises(AssertionError, match="once"):
        entry.on_answer(1, AnswerKind.UNKNOWN)


def test_recovery_without_adds_changes_only_the_end() -> None:
    snapshot = metadata().with_r(0, 2).in_recovery()
    assert closed_by_recovery(snapshot, [], last_entry_id=3, length=9) == snapshot.closed(3, 9)

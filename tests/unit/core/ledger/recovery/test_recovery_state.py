"""The state of a recovery decides without bookies, and never closes a ledger without proof."""

import pytest

from rhumbline.core.ledger.recovery.recovery_life import (
    LEDGER_RECOVERY,
    RecoveryEvent,
    RecoveryLife,
)
from rhumbline.core.ledger.recovery.recovery_state import RecoveryState
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    InvariantBrokenError,
    RecoveryIncompleteError,
)
from rhumbline.core.protocol.ledger_metadata import NO_ENTRY, Fragment
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.recovery import AnswerKind, BookieAnswer, Evidence, Verdict

BOOKIES = tuple(BookieId(f"b{i}:1") for i in range(3))
FRAGMENT = Fragment(0, BOOKIES)


def recovery(*, may_ask: bool = False) -> RecoveryState:
    times = iter(range(1000))
    state = RecoveryState(7, may_ask=may_ask, now=lambda: float(next(times)))
    state.begin()
    return state


def evidence(verdict: Verdict, entry_id: int | None = None, lac: int = NO_ENTRY) -> Evidence:
    """Return evidence in which only the first bookie has responded."""
    answers = (
        BookieAnswer(0, BOOKIES[0], AnswerKind.NEVER),
        BookieAnswer(1, BOOKIES[1], AnswerKind.UNKNOWN),
    )
    quorum = Quorum(3, 3, 2, 1)
    return Evidence(7, entry_id, verdict, FRAGMENT, (None,) * 3, (quorum,), answers, lac)


def events_of(state: RecoveryState) -> list[str]:
    return [line.split(" by ")[1].split()[0] for line in state.machine.story().splitlines()]


def test_nothing_follows_when_the_end_is_recorded() -> None:
    assert not any(state is RecoveryLife.CLOSED for state, _ in LEDGER_RECOVERY.transitions)


def test_only_an_end_leads_to_the_compare_and_set() -> None:
    before = [old for old, event in LEDGER_RECOVERY.transitions if event is RecoveryEvent.CLOSE]
    assert before == [RecoveryLife.ENDING, RecoveryLife.CONFIRMING]


def test_first_gap_ends_the_ledger() -> None:
    state = recovery()
    state.on_fenced(evidence(Verdict.COMPLETE, lac=4))
    assert state.on_entry(evidence(Verdict.RECOVER, 5))
    state.on_copied(5, 60)
    assert not state.on_entry(evidence(Verdict.ABSENT, 6))
    assert (state.confirmed, state.last, state.length) == (4, 5, 60)
    assert not state.must_ask
    state.close(is_confirmed=False)
    state.end(is_adopted=False)
    assert repr(state) == "<ledger recovery 7: CLOSED>"
    assert events_of(state) == ["BEGIN", "FENCE", "END", "CLOSE", "RECORD"]
    assert "2.000 s: COPYING -> ENDING by END (at entry 6)" in state.machine.story()


def test_doubts_give_up_without_an_operator() -> None:
    state = recovery()
    with pytest.raises(RecoveryIncompleteError, match="too few of b0:1, b1:1, b2:1 were fenced"):
        state.on_fenced(evidence(Verdict.INCOMPLETE))
    state = recovery()
    state.on_fenced(evidence(Verdict.COMPLETE))
    with pytest.raises(RecoveryIncompleteError, match="entry 0 may exist"):
        state.on_entry(evidence(Verdict.INCOMPLETE, 0))
    assert state.machine.state is RecoveryLife.COPYING
    assert list(state.silent) == [BOOKIES[1], BOOKIES[2]]


def test_another_attempt_forgets_what_the_last_one_found() -> None:
    state = recovery(may_ask=True)
    state.on_fenced(evidence(Verdict.INCOMPLETE, lac=4))
    assert list(state.silent) == [BOOKIES[1], BOOKIES[2]]
    state.highest_seen = 9
    state.retry(BookieUnavailableError("b1 is away"))
    state.begin()
    assert (state.confirmed, state.last, state.highest_seen) == (NO_ENTRY, NO_ENTRY, NO_ENTRY)
    assert not state.silent
    assert not state.must_ask
    assert events_of(state) == ["BEGIN", "FENCE_PARTLY", "RETRY", "BEGIN"]


def test_operator_is_asked_about_the_lowest_entry_of_which_a_copy_is_left() -> None:
    state = recovery(may_ask=True)
    state.on_fenced(evidence(Verdict.COMPLETE, lac=4))
    state.highest_seen = 6
    assert not state.on_entry(evidence(Verdict.INCOMPLETE, 5))
    assert not state.on_last_entry(evidence(Verdict.INCOMPLETE, 4))
    assert state.on_last_entry(evidence(Verdict.RECOVER, 3))
    assert state.must_ask
    end = state.ask([Region("a"), None])
    assert (end.last_entry_id, end.confirmed, end.highest_seen, end.doubtful_from) == (3, 4, 6, 4)
    assert end.silent == ("b2:1 (a)", "b1:1 (region unknown)")  # in the order of the write set
    assert end.is_writer_fenced
    state.close(is_confirmed=True)
    state.end(is_adopted=True)
    assert events_of(state)[-3:] == ["ASK", "CLOSE", "ADOPT"]


def test_end_without_proof_breaks_an_invariant() -> None:
    state = recovery(may_ask=True)
    state.on_fenced(evidence(Verdict.COMPLETE, lac=4))
    state.on_entry(evidence(Verdict.INCOMPLETE, 5))
    with pytest.raises(InvariantBrokenError, match=r"an end without proof .*REC-19") as e:
        state.close(is_confirmed=False)
    assert e.value.story.splitlines()[-2:] == [
        "2.000 s: COPYING -> ENDING by DOUBT (at entry 5)",
        "3.000 s: ENDING -> CLOSING by CLOSE (at entry 4)",
    ]


def test_end_below_a_confirmed_entry_breaks_an_invariant() -> None:
    state = recovery()
    state.on_fenced(evidence(Verdict.COMPLETE, lac=4))
    state.last = 3
    with pytest.raises(InvariantBrokenError, match="REC-6"):
        state.on_entry(evidence(Verdict.ABSENT, 5))


def test_tail_is_copied_without_gaps() -> None:
    state = recovery()
    state.on_fenced(evidence(Verdict.COMPLETE, lac=4))
    with pytest.raises(AssertionError, match="REC-11"):
        state.on_copied(6, 60)

"""The evidence of a recovery is judged: who was fenced, who denied, and where it starts."""

from rhumbline.chaos.exploration.processes.client_process import error_in
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.ledger_metadata import NO_ENTRY, Fragment
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.recovery import AnswerKind, BookieAnswer, Evidence, Verdict

BOOKIES = (BookieId("b0"), BookieId("b1"))
REGIONS = {"b0": "a", "b1": "b"}


def fencing(lac: int, *lacs: int) -> Evidence:
    answers = tuple(
        BookieAnswer(index, BOOKIES[index], AnswerKind.NEVER, known)
        for index, known in enumerate(lacs)
    )
    fragment = Fragment(3, BOOKIES)
    quorums = (Quorum(2, 2, 2, 2),)
    return Evidence(7, None, Verdict.COMPLETE, fragment, ("a", "b"), quorums, answers, lac)


def test_a_recovery_starts_behind_the_highest_confirmed_entry() -> None:
    assert error_in(fencing(2, NO_ENTRY), REGIONS) is None, "entries below the fragment are"
    assert error_in(fencing(5, NO_ENTRY, 5), REGIONS) is None
    assert "behind -1" in str(error_in(fencing(NO_ENTRY, NO_ENTRY), REGIONS))
    assert "although 5" in str(error_in(fencing(4, 5, 4), REGIONS))


def test_fencing_is_incomplete_while_the_others_satisfy_p() -> None:
    assert "could acknowledge" in str(error_in(fencing(2), REGIONS))

"""The findings of a recovery, and the decisions that follow from them.

All methods are synchronous: ``ledger_recovery`` sends the requests and waits. Which answers of the
bookies allow which verdict is decided in ``core/protocol/recovery.py``.
"""

from collections.abc import Callable, Sequence

from ...protocol.bookie_id import BookieId, Region
from ...protocol.errors import PermissionDeniedError, RecoveryIncompleteError, RhumblineError
from ...protocol.ledger_metadata import NO_ENTRY
from ...protocol.recovery import (
    AnswerKind,
    BookieAnswer,
    Evidence,
    ProvableEnd,
    Verdict,
    silent_bookie,
)
from ...runtime.state_machine import StateMachine
from .recovery_life import LEDGER_RECOVERY, RecoveryEvent, RecoveryLife


class RecoveryState:
    """The state of one recovery. ``begin`` forgets what an earlier attempt found.

    ``may_ask``: an operator decides if the end cannot be proven (rule REC-19); otherwise
    RecoveryIncompleteError is raised. ``now`` returns loop time in seconds.
    """

    def __init__(self, ledger_id: int, *, may_ask: bool, now: Callable[[], float]) -> None:
        self.machine = StateMachine(LEDGER_RECOVERY, str(ledger_id), now=now, check=self._check)
        self._ledger_id = ledger_id
        self._may_ask = may_ask
        self._forget()

    def _forget(self) -> None:
        self.confirmed = NO_ENTRY
        """All entries up to this one are confirmed (rule REC-6)."""
        self.last = NO_ENTRY
        """The last entry of the ledger, as far as it is known."""
        self.length = 0
        """The payload bytes up to and including ``last``."""
        self.highest_seen = NO_ENTRY
        """The highest entry that a bookie returned when it was fenced."""
        self.refusal: RhumblineError | None = None
        """The error of a bookie that refused to be fenced by this client; None if none did."""
        self.silent: dict[BookieId, None] = {}
        """The bookies whose responses are missing in a decision that was not possible."""
        self._is_fenced = True
        self._is_end_proven = True
        self._is_confirmed = False

    def find_closed(self) -> None:
        """Notes that nothing is left to do."""
        self.machine.take(RecoveryEvent.FIND_CLOSED)

    def begin(self) -> None:
        """Begins to fence."""
        self._forget()
        self.machine.take(RecoveryEvent.BEGIN)

    def retry(self, error: Exception) -> None:
        """Begins another attempt after a pause."""
        self.machine.take(RecoveryEvent.RETRY, f"{type(error).__name__}: {error}")

    def on_fenced(self, evidence: Evidence) -> None:
        """Takes the verdict on fencing (rules REC-4, REC-6).

        Raises RecoveryIncompleteError, and PermissionDeniedError if bookies refused to be fenced
        and none was, which the next attempt would not change (rule SEC-32).
        """
        self.confirmed = self.last = evidence.lac
        if evidence.verdict is Verdict.COMPLETE:
            self.machine.take(RecoveryEvent.FENCE, f"confirmed up to {evidence.lac}")
            return
        if self.refusal is not None and not any(map(_is_fenced, evidence.answers)):
            raise PermissionDeniedError(f"ledger {self._ledger_id}: {self.refusal}")
        self._note_silent(evidence)
        if not self._may_ask:
            raise RecoveryIncompleteError(
                f"ledger {self._ledger_id}: too few of {', '.join(evidence.fragment.bookies)} were "
                "fenced"
            )
        self._is_fenced = False
        self.machine.take(RecoveryEvent.FENCE_PARTLY, f"confirmed up to {evidence.lac}")

    def on_entry(self, evidence: Evidence) -> bool:
        """Takes the verdict on the next entry. Raises RecoveryIncompleteError.

        Returns True if it was found, and must be copied. False ends the ledger: the first proven
        gap does (rule REC-11), or the first doubt if an operator decides.
        """
        detail = f"at entry {evidence.entry_id}"
        if evidence.verdict is Verdict.RECOVER:
            return True
        if evidence.verdict is Verdict.ABSENT:
            self.machine.take(RecoveryEvent.END, detail)
            return False
        self._note_silent(evidence)
        if not self._may_ask:
            raise RecoveryIncompleteError(
                f"ledger {self._ledger_id}: entry {evidence.entry_id} may exist, but no bookie "
                "that could hold it responds"
            )
        self._is_end_proven = False
        self.machine.take(RecoveryEvent.DOUBT, detail)
        return False

    def on_copied(self, entry_id: int, length: int) -> None:
        """Takes an entry that was sent again, with the ledger's length up to it."""
        assert entry_id == self.last + 1, "entries are copied in order, without gaps (REC-11)"
        self.last, self.length = entry_id, length

    def on_last_entry(self, evidence: Evidence) -> bool:
        """Takes the verdict on the last entry, which is read for its length if none was copied.

        Returns True if it was found. Otherwise it was acknowledged, but no copy is left, and the
        entry before it becomes the last one if an operator decides. Raises RecoveryIncompleteError.
        """
        if evidence.verdict is Verdict.RECOVER:
            return True
        self._note_silent(evidence)
        if not self._may_ask:
            raise RecoveryIncompleteError(
                f"ledger {self._ledger_id}: its last entry {self.last} cannot be read now"
            )
        self._is_end_proven = False
        self.last -= 1
        return False

    @property
    def must_ask(self) -> bool:
        """True if the ledger may be closed only with an operator's confirmation (rule REC-19)."""
        return not (self._is_fenced and self._is_end_proven)

    def ask(self, regions: Sequence[Region | None]) -> ProvableEnd:
        """Returns what an operator has to confirm; ``regions`` are those of ``silent``."""
        self.machine.take(RecoveryEvent.ASK, f"no response from {', '.join(self.silent)}")
        return ProvableEnd(
            last_entry_id=self.last,
            confirmed=self.confirmed,
            highest_seen=max(self.last, self.highest_seen),
            doubtful_from=self.last + 1,
            silent=tuple(map(silent_bookie, self.silent, regions)),
            is_writer_fenced=self._is_fenced,
        )

    def close(self, *, is_confirmed: bool) -> None:
        """Begins to close the ledger; ``is_confirmed``: an operator decided on the end."""
        self._is_confirmed = is_confirmed
        self.machine.take(RecoveryEvent.CLOSE, f"at entry {self.last}")

    def end(self, *, is_adopted: bool) -> None:
        """Ends the recovery: its own end is recorded, or that of another was adopted."""
        self.machine.take(RecoveryEvent.ADOPT if is_adopted else RecoveryEvent.RECORD)

    def _note_silent(self, evidence: Evidence) -> None:
        answered = {answer.index for answer in evidence.answers if _is_fenced(answer)}
        quorum = evidence.quorums[0]
        asked = (
            range(quorum.ensemble_size)
            if evidence.entry_id is None
            else quorum.write_set(evidence.entry_id)
        )
        for index in asked:
            if index not in answered:
                self.silent[evidence.fragment.bookies[index]] = None

    def _check(self) -> None:
        state = self.machine.state
        if state is RecoveryLife.CLOSING:
            assert self._is_confirmed or not self.must_ask, "an end without proof (REC-4, REC-19)"
        if self._is_end_proven:
            assert self.last >= self.confirmed, "confirmed entries are part of the ledger (REC-6)"
        assert self._may_ask or not self.must_ask, "doubts without an operator (REC-19)"
        assert self.last > NO_ENTRY or self.length == 0, "a length without an entry (REC-16)"

    def __repr__(self) -> str:
        return repr(self.machine)


def _is_fenced(answer: BookieAnswer) -> bool:
    return answer.kind is not AnswerKind.UNKNOWN

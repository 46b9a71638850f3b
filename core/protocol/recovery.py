"""What a recoverer may conclude from the bookies' answers (protocol rules 1.7, 1.8 with P).

Pure: it counts answers and decides as soon as the answers allow it, never waiting for "all"
(bugs B10, B11). Each decision comes with the evidence for it, so that a checker can recompute it.

Answers are three-valued. "Never" counts only when it answered a *fencing* read, which every read
of a recovery is (bug B1); everything that is not a clear yes or no is "unknown" and proves nothing
(bugs B13, B16, B17).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from .bookie_id import BookieId
from .ledger_metadata import NO_ENTRY, Fragment, LedgerMetadata
from .quorum import Quorum, QuorumView


class AnswerKind(Enum):
    """What one bookie said to one fencing read."""

    HAVE = "have"
    NEVER = "never"
    UNKNOWN = "unknown"


class Verdict(Enum):
    """What the answers amount to."""

    COMPLETE = "complete"  # fencing: nobody can be acknowledged any more
    RECOVER = "recover"  # entry: a valid copy was found
    ABSENT = "absent"  # entry: was not and can never be acknowledged
    INCOMPLETE = "incomplete"  # everybody answered or failed, and it is not enough


@dataclass(frozen=True, slots=True)
class BookieAnswer:
    """One bookie's answer. ``lac`` is what it knew as confirmed (fencing only)."""

    index: int
    bookie: BookieId
    said: AnswerKind
    lac: int = NO_ENTRY


@dataclass(frozen=True, slots=True)
class Evidence:
    """A decision and the answers that it was made from, in order of arrival.

    ``entry_id`` is None for "fencing complete" (then ``lac`` is the largest seen). ``fragment`` is
    the one that was asked, with ``regions`` of its bookies and every quorum that was applied.
    """

    ledger_id: int
    entry_id: int | None
    verdict: Verdict
    fragment: Fragment
    regions: tuple[str | None, ...]
    quorums: tuple[Quorum, ...]
    answers: tuple[BookieAnswer, ...]
    lac: int = NO_ENTRY


class FenceTally:
    """Answers to the fencing read of the last fragment: until nobody can acknowledge any more.

    ``views`` holds one view for each R that is in force from the fragment's start on: fencing must
    be complete under all of them (bug B12: a set of bookies, not a number of answers).
    """

    __slots__ = ("_answers", "_asked", "_fenced", "_fragment", "_ledger_id", "_views", "lac")

    def __init__(self, ledger_id: int, fragment: Fragment, views: Sequence[QuorumView]) -> None:
        assert views
        self._ledger_id = ledger_id
        self._fragment = fragment
        self._views = views
        self._answers: list[BookieAnswer] = []
        self._asked = (1 << len(fragment.bookies)) - 1
        self._fenced = 0
        # Entries below the last fragment were all confirmed when it was made (bug B2).
        self.lac = fragment.first_entry_id - 1

    def on_answer(self, index: int, said: AnswerKind, lac: int = NO_ENTRY) -> Verdict | None:
        """Counts one bookie's answer; HAVE and NEVER both mean that it is fenced now."""
        bit = 1 << index
        assert self._asked & bit, "one answer a bookie"
        self._asked &= ~bit
        self._answers.append(BookieAnswer(index, self._fragment.bookies[index], said, lac))
        if said is not AnswerKind.UNKNOWN:
            self._fenced |= bit
            self.lac = max(self.lac, lac)
        if all(view.is_fencing_complete(self._fenced) for view in self._views):
            return Verdict.COMPLETE
        return None if self._asked else Verdict.INCOMPLETE

    def evidence(self, verdict: Verdict) -> Evidence:
        """The record of the decision."""
        return Evidence(
            self._ledger_id,
            None,
            verdict,
            self._fragment,
            self._views[0].regions,
            tuple(view.quorum for view in self._views),
            tuple(self._answers),
            self.lac,
        )


class EntryTally:
    """Answers to the fencing reads of one entry: does it belong to the ledger or not?"""

    __slots__ = ("_answers", "_asked", "_fragment", "_ledger_id", "_never", "_view", "entry_id")

    def __init__(self, ledger_id: int, entry_id: int, fragment: Fragment, view: QuorumView) -> None:
        assert fragment.first_entry_id <= entry_id
        self._ledger_id = ledger_id
        self.entry_id = entry_id
        self._fragment = fragment
        self._view = view
        self._answers: list[BookieAnswer] = []
        self._asked = view.write_mask(entry_id)
        self._never = 0

    def on_answer(self, index: int, said: AnswerKind) -> Verdict | None:
        """Counts one bookie's answer to a fencing read of this entry."""
        bit = 1 << index
        assert self._asked & bit, "one answer a bookie of the write set"
        self._asked &= ~bit
        self._answers.append(BookieAnswer(index, self._fragment.bookies[index], said))
        if said is AnswerKind.HAVE:
            return Verdict.RECOVER
        if said is AnswerKind.NEVER:
            self._never |= bit
            if self._view.is_absent(self.entry_id, self._never):
                return Verdict.ABSENT
        return None if self._asked else Verdict.INCOMPLETE

    def evidence(self, verdict: Verdict) -> Evidence:
        """The record of the decision."""
        return Evidence(
            self._ledger_id,
            self.entry_id,
            verdict,
            self._fragment,
            self._view.regions,
            (self._view.quorum,),
            tuple(self._answers),
        )


def quorums_from(metadata: LedgerMetadata, entry_id: int) -> list[Quorum]:
    """Every quorum in force for ``entry_id`` or a later one, each once."""
    firsts = [entry_id, *(first for first, _ in metadata.r_ranges() if first > entry_id)]
    return list(dict.fromkeys(metadata.quorum_at(first) for first in firsts))


def closed_by_recovery(
    snapshot: LedgerMetadata,
    fragments: Sequence[Fragment],
    *,
    last_entry_id: int,
    length: int,
    min_regions: tuple[int, int] | None = None,
) -> LedgerMetadata:
    """The value of the one final write of a recovery (protocol rule 1.8, step 6).

    ``fragments``: what this recovery changed for its re-adds, known to nobody before (bug B3).
    ``min_regions``: (first re-added entry, R) when the re-adds were made under another R.
    """
    changed = snapshot
    for fragment in fragments:
        changed = changed.with_fragment(fragment.first_entry_id, fragment.bookies)
    if min_regions is not None:
        changed = changed.with_r(*min_regions)
    return changed.closed(last_entry_id, length)

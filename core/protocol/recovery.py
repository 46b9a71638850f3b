"""Decisions of a ledger recovery, from the bookies' answers (rules PLC-5, PLC-6, REC-4..REC-11).

The tallies here count answers and decide as soon as the answers allow it; they never wait for all
bookies (bugs B10, B11). Each decision carries its evidence, so that a checker can recompute it.

Answers are three-valued. "Never" counts only as the answer to a *fencing* read, and recovery makes
no other reads (bug B1). An answer that is not a clear yes or no is "unknown" and proves nothing
(bugs B13, B16, B17).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from .bookie_id import BookieId
from .errors import CorruptionError
from .ledger_metadata import NO_ENTRY, Fragment, LedgerMetadata
from .metadata_record import fields_to_store
from .quorum import Quorum, QuorumView


class AnswerKind(Enum):
    """One bookie's three-valued answer to a fencing read."""

    HAVE = "have"
    NEVER = "never"
    UNKNOWN = "unknown"


class Verdict(Enum):
    """A decision that the answers allow."""

    COMPLETE = "complete"  # fencing: no writer can be acknowledged any more
    RECOVER = "recover"  # entry: a valid copy was found
    ABSENT = "absent"  # entry: was not acknowledged and never can be
    INCOMPLETE = "incomplete"  # every bookie answered or failed, and that is not enough


@dataclass(frozen=True, slots=True)
class BookieAnswer:
    """One bookie's answer. ``lac`` is the LAC that it knew (fencing only)."""

    index: int
    bookie: BookieId
    kind: AnswerKind
    lac: int = NO_ENTRY


@dataclass(frozen=True, slots=True)
class Evidence:
    """A decision and the answers that it is based on, in order of arrival (rule REC-18).

    ``entry_id`` is None for "fencing complete"; ``lac`` is then the largest one seen. ``fragment``
    is the fragment whose bookies were read, with their ``regions`` and every quorum applied.
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
    """Answers to the fencing read of the last fragment, until no writer can be acknowledged.

    ``views`` holds one view for each R in force from the fragment's start on: fencing must be
    complete under all of them (rule REC-5). It depends on the set of fenced bookies, not on their
    number (bug B12).
    """

    __slots__ = ("_answers", "_fenced", "_fragment", "_ledger_id", "_pending", "_views", "lac")

    def __init__(self, ledger_id: int, fragment: Fragment, views: Sequence[QuorumView]) -> None:
        assert views
        self._ledger_id = ledger_id
        self._fragment = fragment
        self._views = views
        self._answers: list[BookieAnswer] = []
        self._pending = (1 << len(fragment.bookies)) - 1
        self._fenced = 0
        # All entries below the last fragment were confirmed before it was created (bug B2).
        self.lac = fragment.first_entry_id - 1

    def on_answer(self, index: int, kind: AnswerKind, lac: int = NO_ENTRY) -> Verdict | None:
        """Count one bookie's answer; HAVE and NEVER both mean that it is fenced now."""
        bit = 1 << index
        assert self._pending & bit, "a bookie answers once"
        self._pending &= ~bit
        self._answers.append(BookieAnswer(index, self._fragment.bookies[index], kind, lac))
        if kind is not AnswerKind.UNKNOWN:
            self._fenced |= bit
            self.lac = max(self.lac, lac)
        if all(view.is_fencing_complete(self._fenced) for view in self._views):
            return Verdict.COMPLETE
        return None if self._pending else Verdict.INCOMPLETE

    def evidence(self, verdict: Verdict) -> Evidence:
        """Return the record of a decision."""
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
    """Answers to the fencing reads of one entry: they decide if it belongs to the ledger."""

    __slots__ = ("_answers", "_fragment", "_ledger_id", "_never", "_pending", "_view", "entry_id")

    def __init__(self, ledger_id: int, entry_id: int, fragment: Fragment, view: QuorumView) -> None:
        assert fragment.first_entry_id <= entry_id
        self._ledger_id = ledger_id
        self.entry_id = entry_id
        self._fragment = fragment
        self._view = view
        self._answers: list[BookieAnswer] = []
        self._pending = view.write_mask(entry_id)
        self._never = 0

    def on_answer(self, index: int, kind: AnswerKind) -> Verdict | None:
        """Count one bookie's answer to a fencing read of this entry."""
        bit = 1 << index
        assert self._pending & bit, "a bookie of the write set answers once"
        self._pending &= ~bit
        self._answers.append(BookieAnswer(index, self._fragment.bookies[index], kind))
        if kind is AnswerKind.HAVE:
            return Verdict.RECOVER
        if kind is AnswerKind.NEVER:
            self._never |= bit
            if self._view.is_absent(self.entry_id, self._never):
                return Verdict.ABSENT
        return None if self._pending else Verdict.INCOMPLETE

    def evidence(self, verdict: Verdict) -> Evidence:
        """Return the record of a decision."""
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
    """Return every quorum in force for ``entry_id`` or a later entry, each once."""
    firsts = [entry_id, *(first for first, _ in metadata.r_ranges() if first > entry_id)]
    return list(dict.fromkeys(metadata.quorum_at(first) for first in firsts))


def closed_by_recovery(
    snapshot: LedgerMetadata,
    fragments: Sequence[Fragment],
    *,
    last_entry_id: int,
    length: int,
    min_regions: tuple[int, int] | None = None,
    provable_end: "ProvableEnd | None" = None,
) -> LedgerMetadata:
    """Return the metadata that recovery writes once, at its end (rule REC-15).

    ``fragments``: the ensembles that this recovery chose for its re-adds, which are not stored
    before (bug B3). ``min_regions``: (first re-added entry, R) if the re-adds used another R.
    ``provable_end``: the audit record if an operator decided the end (rule REC-19).
    """
    changed = snapshot
    for fragment in fragments:
        changed = changed.with_fragment(fragment.first_entry_id, fragment.bookies)
    if min_regions is not None:
        changed = changed.with_r(*min_regions)
    if provable_end is not None:
        custom = {**changed.custom, PROVABLE_END_KEY: provable_end.encode()}
        changed = replace(changed, custom=custom)
    return changed.closed(last_entry_id, length)


# --- ends without proof ---------------------------------------------------------------------------

PROVABLE_END_KEY = "rhumbline.provable-end"
"""Custom metadata key of a ledger; present only if its end was not proven by a recovery."""


@dataclass(frozen=True, slots=True)
class ProvableEnd:
    """The findings of a recovery in a ledger whose end cannot be proven (rule REC-19).

    With the operator's confirmation they are the audit record in the ledger's custom metadata.
    Their description is part of the segment's metadata and of its archive.
    """

    last_entry_id: int
    """The end: the last entry of which a copy was found, with no undecided entry before it that is
    not known to be acknowledged. NO_ENTRY if there is none."""
    confirmed: int
    """The highest LAC that was found: entries up to it were certainly acknowledged."""
    highest_seen: int
    """The highest entry of which a copy is known to exist; NO_ENTRY if there is none."""
    doubtful_from: int
    """The first entry beyond the end that may have been acknowledged."""
    silent: tuple[str, ...]
    """The bookies whose missing responses cause the doubt, each as ``id (region)``."""
    is_writer_fenced: bool
    """False if bookies that did not respond could still acknowledge entries of the old writer."""
    closed_ms: int = 0
    """Time of day in ms at which the operator confirmed."""
    reason: str = ""
    """The reason that the operator gave."""

    @property
    def lost_count(self) -> int:
        """The number of entries beyond the end that were certainly acknowledged."""
        return max(0, self.confirmed - self.last_entry_id)

    def describe(self) -> str:
        """Return one line for readers, archives and logs."""
        end = "before its first entry" if self.last_entry_id == NO_ENTRY else (
            f"at entry {self.last_entry_id}"
        )  # fmt: skip
        text = f"closed {end} by an operator; entry {self.doubtful_from} and later ones may have "
        text += f"been acknowledged; no response from {', '.join(self.silent) or 'no bookie'}"
        if self.lost_count:
            text += f"; {self.lost_count} entries were certainly acknowledged and are lost"
        return f"{text}; reason: {self.reason}" if self.reason else text

    def encode(self) -> bytes:
        """Return the value for the custom metadata of the ledger."""
        return json.dumps(fields_to_store(self), separators=(",", ":")).encode()


def provable_end_of(custom: Mapping[str, bytes]) -> ProvableEnd | None:
    """Return the audit record in a ledger's custom metadata, or None. Raises CorruptionError."""
    data = custom.get(PROVABLE_END_KEY)
    if data is None:
        return None
    try:
        fields: dict[str, Any] = json.loads(data)
        return ProvableEnd(**{**fields, "silent": tuple(fields["silent"])})
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptionError(f"bad {PROVABLE_END_KEY}: {data[:80]!r}") from error


def silent_bookie(bookie: BookieId, region: str | None) -> str:
    """Return the name of a bookie in an audit record."""
    return f"{bookie} ({region or 'region unknown'})"

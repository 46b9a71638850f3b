"""A writer's changes to its ledger's metadata after bookies failed (rules LED-12..LED-17)."""

from collections.abc import Mapping, Sequence
from enum import Enum

from .bookie_id import BookieId
from .ledger_metadata import LedgerMetadata, LedgerState

FRAGMENTS_MAX = 64
"""Fragments that one ledger may have; at the limit its stream rolls to a new one (rule LED-17)."""

METADATA_BYTES_MAX = 32 * 1024
"""Largest metadata that a writer writes, in bytes; readers and stores accept more."""


class ConflictOutcome(Enum):
    """The outcome for a writer whose compare-and-set lost against another process (rule LED-16)."""

    RETRY = "retry"  # still open, and a failed bookie is still at its ensemble index
    SETTLED = "settled"  # no failed bookie is left to replace: adopt the stored value
    CLOSED = "closed"  # another process closed the ledger
    FENCED = "fenced"  # another process recovers the ledger
    FOREIGN = (
        "foreign"  # another process added a fragment, which only the open ledger's writer may do
    )


def resolve_conflict(
    known: LedgerMetadata, stored: LedgerMetadata, failed: Mapping[int, BookieId]
) -> ConflictOutcome:
    """Decide what to do after a lost compare-and-set, from the metadata stored now (bug B4)."""
    if stored.state is LedgerState.CLOSED:
        return ConflictOutcome.CLOSED
    if stored.state is LedgerState.IN_RECOVERY:
        return ConflictOutcome.FENCED
    if stored.last_fragment.first_entry_id != known.last_fragment.first_entry_id:
        return ConflictOutcome.FOREIGN
    if any(stored.last_fragment.bookies[index] == bookie for index, bookie in failed.items()):
        return ConflictOutcome.RETRY
    return ConflictOutcome.SETTLED


def replaced_indices(old: Sequence[BookieId], new: Sequence[BookieId]) -> tuple[int, ...]:
    """Return the ensemble indices whose bookie differs between ``old`` and ``new``."""
    assert len(old) == len(new)
    return tuple(
        index for index, (before, after) in enumerate(zip(old, new, strict=True)) if before != after
    )


def changed_ensemble(
    metadata: LedgerMetadata, *, last_add_confirmed: int, bookies: tuple[BookieId, ...]
) -> LedgerMetadata:
    """Return the metadata with a new ensemble for every entry above the LAC.

    The caller confirms no entry between reading its LAC and the end of the compare-and-set.
    Otherwise the metadata would assign to the new bookies entries that only the old ones hold
    (rule LED-13, bug B7).
    """
    assert metadata.state is LedgerState.OPEN, "only a live writer changes the ensemble"
    return metadata.with_fragment(last_add_confirmed + 1, bookies)

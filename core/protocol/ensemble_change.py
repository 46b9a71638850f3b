"""What a writer may do to its ledger's metadata after bookies failed (protocol rule 1.4). Pure."""

from collections.abc import Mapping, Sequence
from enum import Enum

from .bookie_id import BookieId
from .ledger_metadata import LedgerMetadata, LedgerState

FRAGMENTS_MAX = 64
"""Ensemble changes that one ledger may see; then it is closed and its stream rolls."""

METADATA_BYTES_MAX = 32 * 1024
"""Largest metadata that a writer makes; readers and stores take more."""


class Next(Enum):
    """What a writer does after another writer of the metadata was faster."""

    RETRY = "retry"  # still open, and a failed bookie still sits where it sat
    SETTLED = "settled"  # nothing is left to replace: take the stored value
    CLOSED = "closed"  # somebody closed the ledger
    FENCED = "fenced"  # somebody recovers the ledger
    FOREIGN = "foreign"  # its newest fragment is not ours: only we may change that while it is open


def reconsider(
    mine: LedgerMetadata, stored: LedgerMetadata, failed: Mapping[int, BookieId]
) -> Next:
    """Evaluates a lost compare-and-set again on what is stored now (bug B4)."""
    if stored.state is LedgerState.CLOSED:
        return Next.CLOSED
    if stored.state is LedgerState.IN_RECOVERY:
        return Next.FENCED
    if stored.last_fragment.first_entry_id != mine.last_fragment.first_entry_id:
        return Next.FOREIGN
    if any(stored.last_fragment.bookies[index] == bookie for index, bookie in failed.items()):
        return Next.RETRY
    return Next.SETTLED


def replaced_indices(old: Sequence[BookieId], new: Sequence[BookieId]) -> tuple[int, ...]:
    """Indices at which another bookie sits now."""
    assert len(old) == len(new)
    return tuple(index for index, (was, now) in enumerate(zip(old, new, strict=True)) if was != now)


def changed_ensemble(
    metadata: LedgerMetadata, *, last_add_confirmed: int, bookies: tuple[BookieId, ...]
) -> LedgerMetadata:
    """The ledger with other bookies for everything that is not confirmed yet.

    The caller lets no entry be confirmed between reading its LAC and the end of the
    compare-and-set: otherwise entries that only the old bookies hold would be recorded as the new
    ones' (bug B7).
    """
    assert metadata.state is LedgerState.OPEN, "only a live writer changes the ensemble"
    return metadata.with_fragment(last_add_confirmed + 1, bookies)

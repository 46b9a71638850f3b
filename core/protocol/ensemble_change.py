"""A writer's changes to its ledger's metadata after bookies failed (rules LED-12..LED-17)."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import combinations

from .bookie_id import BookieId
from .ledger_metadata import LedgerMetadata, LedgerState
from .quorum import Quorum

FRAGMENTS_MAX = 64
"""Fragments that one ledger may have; at the limit its stream rolls to a new one (rule LED-17)."""

METADATA_BYTES_MAX = 32 * 1024
"""Largest metadata that a writer writes, in bytes; readers and stores accept more."""

EVERY_SUBSET_MAX = 6
"""Largest number of indices for which every subset is tried if not all can be replaced."""


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


# --- which members to replace -------------------------------------------------------------------


def largest_replacements(
    quorum: Quorum, regions: Sequence[str | None], wanted: int, spare: Mapping[str | None, int]
) -> Iterator[tuple[int, ...]]:
    """Yield sets of the ``wanted`` indices (a mask) that might be replaced, larger ones first.

    ``regions`` are those of the members, ``spare`` counts the bookies by region that are not
    members. Sets that certainly have no legal replacement are left out. Of more than
    ``EVERY_SUBSET_MAX`` indices, only one set of each size is yielded, and each single one. It is
    the set whose regions keep most other members, so for E = WQ no larger set can be replaced.
    """
    indices = [index for index in range(quorum.ensemble_size) if wanted >> index & 1]
    most = min(len(indices), sum(spare.values()))
    if len(indices) <= EVERY_SUBSET_MAX:
        for size in range(most, 0, -1):
            for chosen in combinations(indices, size):
                if is_replaceable(quorum, regions, chosen, spare):
                    yield chosen
        return
    easiest = _easiest_first(regions, indices, spare)
    sizes = [tuple(sorted(easiest[:size])) for size in range(most, 1, -1)]
    for chosen in [*sizes, *((index,) for index in easiest if most)]:
        if is_replaceable(quorum, regions, chosen, spare):
            yield chosen


def fewest_replacements(
    quorum: Quorum, regions: Sequence[str | None], spare: Mapping[str | None, int]
) -> Iterator[tuple[int, ...]]:
    """Yield sets of indices whose replacement might make the ensemble legal, smaller ones first.

    Of more than ``EVERY_SUBSET_MAX`` members, each set adds the index to the one before that
    leaves the write sets short of the fewest regions. For E = WQ the first set is the smallest.
    """
    e = quorum.ensemble_size
    most = min(e, sum(spare.values()))
    if e <= EVERY_SUBSET_MAX:
        for size in range(1, most + 1):
            for chosen in reversed(list(combinations(range(e), size))):
                if is_replaceable(quorum, regions, chosen, spare):
                    yield chosen
        return
    shortage = _Shortage(quorum, regions, spare)
    for _ in range(most):
        shortage.replace_best()
        if shortage.total == 0:
            yield tuple(index for index in range(e) if shortage.chosen >> index & 1)


def is_replaceable(
    quorum: Quorum,
    regions: Sequence[str | None],
    chosen: Sequence[int],
    spare: Mapping[str | None, int],
) -> bool:
    """Return False if no replacement of the ``chosen`` indices is legal; exact for E = WQ.

    For E > WQ each write set is judged alone, as if it could get all the spare bookies.
    """
    if len(chosen) > sum(spare.values()):
        return False
    shortage = _Shortage(quorum, regions, spare)
    return shortage.of_all(sum(1 << index for index in chosen)) == 0


def _easiest_first(
    regions: Sequence[str | None], indices: Sequence[int], spare: Mapping[str | None, int]
) -> list[int]:
    """Order indices: those whose region keeps a member, then those whose region has a spare one."""
    left = {name: regions.count(name) for name in dict.fromkeys(regions)}
    easy, spared, hard = [], [], []
    for index in indices:
        name = regions[index]
        left[name] -= 1
        if name is None or left[name] > 0:
            easy.append(index)
        elif spare.get(name, 0) > 0:
            spared.append(index)
        else:
            hard.append(index)
    return [*easy, *spared, *hard]


class _Shortage:
    """The number of regions that write sets lack at least, once some members are replaced."""

    def __init__(
        self, quorum: Quorum, regions: Sequence[str | None], spare: Mapping[str | None, int]
    ) -> None:
        e, wq = quorum.ensemble_size, quorum.write_quorum
        self.chosen = 0
        self._e = e
        self._r = quorum.min_regions if quorum.min_regions > 1 else 0
        self._windows = [quorum.write_mask(start) for start in range(e if e > wq else 1)]
        names = {name: None for name in (*regions, *spare) if name is not None}
        self._members = [
            (
                sum(1 << index for index, region in enumerate(regions) if region == name),
                spare.get(name, 0) > 0,
            )
            for name in names
        ]
        self._short = [self._of(window, 0) for window in self._windows]

    @property
    def total(self) -> int:
        """The regions that are missing, summed over the write sets."""
        return sum(self._short)

    def of_all(self, chosen: int) -> int:
        """Return the total if these members are replaced."""
        return sum(self._of(window, chosen) for window in self._windows) if self._r else 0

    def replace_best(self) -> None:
        """Choose the further index that leaves the smallest total; the lowest one of a tie."""
        left = [index for index in range(self._e) if not self.chosen >> index & 1]
        self.chosen |= 1 << max(left, key=self._gain)
        self._short = [self._of(window, self.chosen) for window in self._windows]

    def _gain(self, index: int) -> int:
        chosen = self.chosen | 1 << index
        return sum(
            before - self._of(window, chosen)
            for window, before in zip(self._windows, self._short, strict=True)
            if window >> index & 1
        )

    def _of(self, window: int, chosen: int) -> int:
        kept = window & ~chosen
        have = new = 0
        for mask, is_spare in self._members:
            if mask & kept:
                have += 1
            elif is_spare:
                new += 1
        return max(0, self._r - have - min(new, (window & chosen).bit_count()))

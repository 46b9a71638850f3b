"""Quorum arithmetic: the predicate P and every decision that follows from it (rules PLC-3..PLC-8).

``P(S) = |S| >= AQ and S lies in at least R regions``. P is monotonic: adding a member to S never
makes it false. Safety follows from one fact: a set that satisfies P intersects every set whose
complement in the write set does not satisfy P. With R = 1 this is BookKeeper's threshold quorum.

A bookie whose region is unknown is counted pessimistically (rule PLC-7). For an *acknowledgement*
it lies in no region. For *coverage* (could the other bookies have acknowledged an entry?) it lies
in a region of its own.

Members are ensemble *indices*, and sets of members are bit masks (bit i is index i), so that the
hot path is integer arithmetic and a dictionary lookup.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .errors import IllegalQuorumError

ENSEMBLE_SIZE_MAX = 64


@dataclass(frozen=True, slots=True)
class Quorum:
    """The four numbers of a ledger: E bookies, WQ copies, AQ acknowledgements from R regions.

    R, ``min_regions`` here, is the setting ``min_regions_for_durability``. Raises
    IllegalQuorumError unless 1 <= R <= AQ <= WQ <= E <= ENSEMBLE_SIZE_MAX.
    """

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    min_regions: int = 1

    def __post_init__(self) -> None:
        e, wq, aq, r = self.ensemble_size, self.write_quorum, self.ack_quorum, self.min_regions
        faults = [
            text
            for broken, text in (
                (e > ENSEMBLE_SIZE_MAX, f"E={e} is above {ENSEMBLE_SIZE_MAX}"),
                (wq > e, f"WQ={wq} is above E={e}"),
                (aq > wq, f"AQ={aq} is above WQ={wq}"),
                (aq < 1, f"AQ={aq} is below 1"),
                (r > aq, f"R={r} is above AQ={aq}: {aq} copies cannot lie in {r} regions"),
                (r < 1, f"R={r} is below 1"),
            )
            if broken
        ]
        if faults:
            raise IllegalQuorumError("; ".join(faults))

    def __str__(self) -> str:
        return f"{self.ensemble_size}/{self.write_quorum}/{self.ack_quorum}/R{self.min_regions}"

    def write_set(self, entry_id: int) -> tuple[int, ...]:
        """Return the indices that store ``entry_id``: (entry_id + w) mod E for w in 0..WQ-1."""
        assert entry_id >= 0
        e = self.ensemble_size
        return tuple((entry_id + w) % e for w in range(self.write_quorum))

    def entries_of(self, index: int, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield (first, last) of each run of consecutive entries that a member stores.

        The member at ``index`` stores WQ consecutive entries out of every E. The runs lie between
        ``first`` and ``last``, both included.
        """
        e, wq = self.ensemble_size, self.write_quorum
        begin = first - (first - (index - wq + 1)) % e
        for start in range(begin, last + 1, e):
            run = max(start, first), min(start + wq - 1, last)
            if run[0] <= run[1]:
                yield run

    def write_mask(self, entry_id: int) -> int:
        """Return the write set of ``entry_id`` as a bit mask."""
        return sum(1 << index for index in self.write_set(entry_id))


class QuorumView:
    """The quorum of one fragment: E members with their regions, and all decisions about them.

    ``regions[i]`` is the region of ensemble index i, or None if it is unknown. Decisions are cached
    by mask; of the 2^E masks only a few occur in practice.
    """

    __slots__ = ("_acked", "_covered", "full_masks", "quorum", "regions")

    def __init__(self, quorum: Quorum, regions: Sequence[str | None]) -> None:
        assert len(regions) == quorum.ensemble_size
        self.quorum = quorum
        self.regions: tuple[str | None, ...] = tuple(regions)
        # One write set for each start index; if E = WQ they are all the same.
        starts = range(quorum.ensemble_size if quorum.ensemble_size > quorum.write_quorum else 1)
        self.full_masks: tuple[int, ...] = tuple(quorum.write_mask(start) for start in starts)
        self._acked: dict[int, bool] = {}
        self._covered: dict[int, bool] = {}

    def write_mask(self, entry_id: int) -> int:
        """Return the bit mask of the write set of ``entry_id``."""
        return self.full_masks[entry_id % len(self.full_masks)]

    def is_acked(self, mask: int) -> bool:
        """True if an entry stored by ``mask`` may be acknowledged; unknown regions do not count."""
        known = self._acked.get(mask)
        if known is None:
            known = self._acked[mask] = self._satisfies(mask, unknown_counts=False)
        return known

    def could_ack(self, mask: int) -> bool:
        """True if ``mask`` could have acknowledged an entry; each unknown region counts as one."""
        known = self._covered.get(mask)
        if known is None:
            known = self._covered[mask] = self._satisfies(mask, unknown_counts=True)
        return known

    def must_change_ensemble(self, failed: int) -> bool:
        """True if a write set cannot be acknowledged without the failed members (bug B19)."""
        return any(not self.is_acked(full & ~failed) for full in self.full_masks)

    def is_fencing_complete(self, fenced: int) -> bool:
        """True if the unfenced rest of each write set cannot acknowledge (rule PLC-5, bug B12)."""
        return all(not self.could_ack(full & ~fenced) for full in self.full_masks)

    def is_absent(self, entry_id: int, never: int) -> bool:
        """True if ``entry_id`` was not acknowledged and never can be (rule PLC-6).

        ``never``: the members that are fenced *and* proved that they never had the entry.
        """
        return not self.could_ack(self.write_mask(entry_id) & ~never)

    def is_absence_possible(self, entry_id: int, undecided: int) -> bool:
        """True if absence would be proven once all members but ``undecided`` answered "never"."""
        return not self.could_ack(self.write_mask(entry_id) & undecided)

    def is_legal(self) -> bool:
        """True if every write set can be acknowledged once all its members have responded."""
        return all(self.is_acked(full) for full in self.full_masks)

    def is_robust(self) -> bool:
        """True if every write set can still be acknowledged with any one region lost."""
        return all(self.survives_loss_of({name}) for name in self.known_regions())

    def is_fragile(self) -> bool:
        """True if some write set cannot be acknowledged without one particular bookie.

        The loss of that bookie stops writes and makes recovery wait for it.
        """
        return any(
            not self.is_acked(full & ~(1 << index))
            for full in self.full_masks
            for index in range(self.quorum.ensemble_size)
            if full >> index & 1
        )

    def survives_loss_of(self, lost: set[str]) -> bool:
        """True if every write set can still be acknowledged without the regions in ``lost``."""
        lost_mask = self.mask_of_regions(lost)
        return all(self.is_acked(full & ~lost_mask) for full in self.full_masks)

    def mask_of_regions(self, names: set[str]) -> int:
        """Return the bit mask of the members that lie in one of the regions ``names``."""
        return sum(1 << i for i, region in enumerate(self.regions) if region in names)

    def known_regions(self) -> list[str]:
        """Return the regions of the members, each once, in order of index."""
        return list(dict.fromkeys(region for region in self.regions if region is not None))

    def regions_of(self, mask: int) -> list[str]:
        """Return the known regions of the members in ``mask``, each once, in order of index."""
        return list(
            dict.fromkeys(
                region
                for index, region in enumerate(self.regions)
                if mask >> index & 1 and region is not None
            )
        )

    def _satisfies(self, mask: int, *, unknown_counts: bool) -> bool:
        if mask.bit_count() < self.quorum.ack_quorum:
            return False
        if self.quorum.min_regions <= 1:
            return True  # BookKeeper's rule: only the count matters
        count = len(self.regions_of(mask))
        if unknown_counts:
            count += sum(
                1
                for index, region in enumerate(self.regions)
                if region is None and mask >> index & 1
            )
        return count >= self.quorum.min_regions

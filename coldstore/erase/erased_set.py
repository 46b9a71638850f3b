"""Record sets from which some records were erased (rule ARC-66). Pure.

The checksum of the set before the erasure is kept, so that the content digest of the segment, which
its manifest, the chain and the metadata of the cluster hold, still verifies.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from ...core.protocol.errors import CorruptionError

_SLOTS_END = 2**31


@dataclass(frozen=True, slots=True)
class ErasedSet:
    """A record set of a segment, and which of its records were erased.

    Raises CorruptionError if the ranges are not in order and within the set.
    """

    entry_id: int
    slot: int
    """Slot of its first record, erased or not."""
    count: int
    """Number of its records before the erasure."""
    raw_crc: int
    """CRC32C of its uncompressed body before the erasure."""
    erased: tuple[tuple[int, int], ...]
    """Half-open ranges of slots, ascending."""

    def __post_init__(self) -> None:
        at = self.slot
        for begin, end in self.erased:
            if not at <= begin < end <= self.slot + self.count:
                raise CorruptionError(
                    f"erased slots {begin} to {end - 1} of entry {self.entry_id} are not among "
                    f"{at} to {self.slot + self.count - 1}"
                )
            at = end
        if not self.erased:
            raise CorruptionError(f"no slot of entry {self.entry_id} was erased")

    @property
    def erased_count(self) -> int:
        """The number of erased records."""
        return sum(end - begin for begin, end in self.erased)

    def holds(self, entry_id: int, slot: int) -> bool:
        """True if the record at a position is or was in this set."""
        return self.entry_id == entry_id and self.slot <= slot < self.slot + self.count

    def keeps(self, begin: int, end: int) -> bool:
        """True if the slots [begin, end) are in this set, and none of them was erased."""
        is_inside = self.slot <= begin < end <= self.slot + self.count
        return is_inside and not any(one < end and begin < other for one, other in self.erased)

    def without(self, slots: Iterable[int]) -> "ErasedSet":
        """Return the set from which these slots were erased as well."""
        found = {slot for begin, end in self.erased for slot in range(begin, end)}
        return replace(self, erased=half_open_ranges(found.union(slots)))

    def encoded(self) -> list[Any]:
        """Return the set as manifests and relocations hold it."""
        ranges = [list(one) for one in self.erased]
        return [self.entry_id, self.slot, self.count, self.raw_crc, ranges]

    @classmethod
    def decode(cls, fields: Sequence[Any]) -> "ErasedSet":
        """Return the set that ``encoded`` describes. Raises CorruptionError."""
        try:
            entry_id, slot, count, raw_crc, ranges = fields
            return cls(entry_id, slot, count, raw_crc, tuple((a, b) for a, b in ranges))
        except (TypeError, ValueError) as error:
            raise CorruptionError(f"not an erased record set: {error}") from error


def half_open_ranges(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return numbers, such as slots, as half-open ranges, ascending."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return tuple(found)


class ErasedRecords:
    """The positions of the erased records of a segment."""

    def __init__(self, sets: Iterable[ErasedSet] = ()) -> None:
        self._ranges = sorted((one.entry_id, *ends) for one in sets for ends in one.erased)
        sizes = (end - begin for _, begin, end in self._ranges)
        self._before = list(accumulate(sizes, initial=0))

    @property
    def count(self) -> int:
        """The number of erased records."""
        return self._before[-1]

    def before(self, entry_id: int, slot: int) -> int:
        """Return the number of erased records before a position."""
        number = bisect_left(self._ranges, (entry_id, slot, 0))
        found = self._before[number]
        if number:
            entry, _, end = self._ranges[number - 1]
            if entry == entry_id and end > slot:  # the position was erased itself
                found -= end - slot
        return found

    def ranges_in(
        self, entry_id: int, begin: int = 0, end: int = _SLOTS_END
    ) -> Iterator[tuple[int, int]]:
        """Yield the erased ranges of slots of an entry that begin in [begin, end)."""
        number = bisect_left(self._ranges, (entry_id, begin, 0))
        while number < len(self._ranges) and self._ranges[number][:2] < (entry_id, end):
            yield self._ranges[number][1:]
            number += 1

    def entry_ids(self) -> list[int]:
        """Return the id of the entry of each erased record, ascending."""
        return [entry for entry, begin, end in self._ranges for _ in range(begin, end)]


def find_set(sets: Sequence[ErasedSet], entry_id: int, slot: int) -> ErasedSet | None:
    """Return the set of ``sets``, in order of position, that holds a position."""
    number = bisect_right(sets, (entry_id, slot), key=lambda one: (one.entry_id, one.slot))
    found = sets[number - 1] if number else None
    return found if found is not None and found.holds(entry_id, slot) else None

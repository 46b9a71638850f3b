"""Possible numbers of copies in each region, ranked without listing all of them.

Each region has a floor (copies that stay) and a limit (floor and available bookies). Two facts make
the best counts easy to find:

- a copy in a region that has others may always move to a region that has none: no write set gets
  fewer regions, or more copies of one region. So the best counts use as many regions as possible;
- filling the emptiest region first gives the smallest maximum and the largest minimum at once, and
  with them the best ``level_bound``, since that grows with evenness.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.protocol.quorum import Quorum
from .layout_rank import Level, evenness, level_bound

_STEPS_PER_VECTOR = 6
"""Steps of listing counts, for each that is wanted."""

Vector = tuple[int, tuple[int, ...]]
"""Copies in unknown regions, and copies in each known region."""


@dataclass(frozen=True, slots=True)
class CountSpace:
    """All ways to distribute the E copies of a layout over regions.

    ``floors`` and ``limits`` are those of the known regions, in the order of their names;
    ``unknown`` is the floor and the limit of the copies whose region is unknown.
    """

    quorum: Quorum
    floors: tuple[int, ...]
    limits: tuple[int, ...]
    unknown: tuple[int, int]

    def regions_max(self) -> int:
        """Return the largest number of known regions that a distribution can use."""
        free = self.quorum.ensemble_size - sum(self.floors) - self.unknown[0]
        used = sum(1 for floor in self.floors if floor > 0)
        unused = sum(
            1 for floor, limit in zip(self.floors, self.limits, strict=True) if floor == 0 < limit
        )
        return used + min(free, unused)

    def is_best_unknown(self) -> bool:
        """True if it is best to use no known region, and possible.

        Without R, a write set that needs all its members depends on each of their regions; only
        an ensemble without known regions depends on none that is known.
        """
        quorum = self.quorum
        return (
            quorum.write_quorum == quorum.ack_quorum
            and quorum.min_regions == 1
            and not any(self.floors)
            and self.unknown[1] >= quorum.ensemble_size
        )

    def unknown_counts(self) -> range:
        """Return the possible numbers of copies in unknown regions, if all regions are used."""
        e = self.quorum.ensemble_size
        low, high = self.unknown
        if self.regions_max() < sum(1 for limit in self.limits if limit > 0):
            return range(low, low + 1)  # each free copy goes to another unused region
        least = sum(
            max(floor, min(1, limit)) for floor, limit in zip(self.floors, self.limits, strict=True)
        )
        return range(max(low, e - sum(self.limits)), min(high, e - least) + 1)

    def most_even(self, unknown: int) -> list[int] | None:
        """Return the most even counts of the known regions; None if there are too few bookies."""
        free = self.quorum.ensemble_size - sum(self.floors) - unknown
        counts = list(self.floors)
        if free < 0 or free > sum(self.limits) - sum(counts):
            return None
        for _ in range(free):
            index = min(
                (i for i, limit in enumerate(self.limits) if counts[i] < limit),
                key=counts.__getitem__,
            )
            counts[index] += 1
        return counts

    def most_even_variants(self, unknown: int, near: int | None) -> list[list[int]]:
        """Return equally even counts in which each region gets a copy more equally often.

        There are at most as many as regions. The region at position ``near`` always gets the copy.
        """
        counts = self.most_even(unknown)
        if counts is None:
            return []
        room = [i for i, limit in enumerate(self.limits) if counts[i] < limit]
        if not room:
            return [counts]
        level = min(counts[i] for i in room)
        equal = [
            i
            for i, limit in enumerate(self.limits)
            if self.floors[i] <= level < limit and counts[i] <= level + 1
        ]
        more = sum(1 for i in equal if counts[i] > level)
        always = [near] if more and near is not None and near in equal else []
        others = [i for i in equal if i not in always]
        found = []
        for start in range(max(1, len(others))):
            turn = [*others[start:], *others[:start]][: more - len(always)]
            chosen = {*always, *turn}
            found.append(
                [level + (i in chosen) if i in equal else count for i, count in enumerate(counts)]
            )
        return found

    def rank_bounds(self) -> list[tuple[Level, int, int]]:
        """Return (level, unevenness, unknown) of the most even counts, sorted."""
        found = []
        for unknown in self.unknown_counts():
            counts = self.most_even(unknown)
            level = None if counts is None else level_bound(self.quorum, counts)
            if counts is not None and level is not None:
                found.append((level, evenness(counts)[1], unknown))
        return sorted(found)

    def vectors(
        self, spread: int, vectors_max: int, near: tuple[int, int] | None = None
    ) -> tuple[list[Vector], bool]:
        """Return counts with most regions and ``spread`` from the least to the fullest region.

        The second value is False if more than ``vectors_max`` exist; the rest is left out. ``near``
        gives the exact count of one region, as (its position, count).
        """
        used = self.regions_max()
        size = len(self.limits)
        found: list[Vector] = []
        if used == 0:
            return [(self.quorum.ensemble_size, (0,) * size)], True
        floors, limits = list(self.floors), list(self.limits)
        if near is not None:
            if not floors[near[0]] <= near[1] <= limits[near[0]]:
                return [], True
            floors[near[0]] = limits[near[0]] = near[1]
        steps = _STEPS_PER_VECTOR * vectors_max
        for unknown in self.unknown_counts():
            total = self.quorum.ensemble_size - unknown
            for least in range(1, total // used + 1):
                most = least + spread
                if max(floors) > most or total > sum(min(limit, most) for limit in limits):
                    continue
                group = _Bounded(floors, limits, (least, most), size - used)
                found += [(unknown, counts) for counts in group.find(total, steps)]
                steps = group.steps_left
                if len(found) > vectors_max or steps <= 0:
                    return found[:vectors_max], False
        return found, True


class _Bounded:
    """The counts, ``zeros`` of them 0, the others from and to exactly ``ends``."""

    def __init__(
        self, floors: Sequence[int], limits: Sequence[int], ends: tuple[int, int], zeros: int
    ) -> None:
        self._least, self._most = ends
        self._zeros = zeros
        self._floors = floors
        self._low = [max(floor, self._least) for floor in floors]
        self._high = [min(limit, self._most) for limit in limits]
        size = len(limits)
        # From each position on: the largest and the smallest sum.
        self._sum_max = [0] * (size + 1)
        self._sum_min = [0] * (size + 1)
        for i in reversed(range(size)):
            self._sum_max[i] = self._sum_max[i + 1] + self._high[i]
            is_used = floors[i] > 0 or zeros == 0
            self._sum_min[i] = self._sum_min[i + 1] + (self._low[i] if is_used else 0)
        # The last positions that can hold the smallest and the largest count.
        self._least_at = max((i for i in range(size) if self._low[i] == self._least), default=-1)
        self._most_at = max((i for i in range(size) if self._high[i] == self._most), default=-1)
        self._counts = [0] * size
        self._found: list[tuple[int, ...]] = []
        self.steps_left = 0

    def find(self, total: int, steps_max: int) -> list[tuple[int, ...]]:
        """Return counts of this sum in ascending order; not all if no ``steps_left``."""
        self.steps_left = steps_max
        self._extend(0, total, self._zeros, False, False)
        return self._found

    def _extend(self, i: int, left: int, zeros: int, has_least: bool, has_most: bool) -> None:
        used = len(self._counts) - i - zeros
        spread = self._most - self._least
        least = max(self._sum_min[i], used * self._least + (0 if has_most else spread))
        most = min(self._sum_max[i], used * self._most - (0 if has_least else spread))
        if not least <= left <= most:
            return
        if i == len(self._counts):
            if has_least and has_most:
                self._found.append(tuple(self._counts))
            return
        if (not has_least and i > self._least_at) or (not has_most and i > self._most_at):
            return
        if self.steps_left <= 0:
            return
        self.steps_left -= 1
        if zeros and self._floors[i] == 0:
            self._counts[i] = 0
            self._extend(i + 1, left, zeros - 1, has_least, has_most)
        first = max(self._low[i], left - self._sum_max[i + 1])
        last = min(self._high[i], left - self._sum_min[i + 1])
        for count in range(first, last + 1):
            self._counts[i] = count
            self._extend(
                i + 1,
                left - count,
                zeros,
                has_least or count == self._least,
                has_most or count == self._most,
            )

"""Search for region layouts: the region of each ensemble index (rules PLC-9, PLC-15).

A layout is a tuple of E region names (None: unknown). Layouts are ranked by these criteria, in
order: legal (required), robust, not fragile, more regions, more even spread, more copies near the
writer. The caller chooses among equal ones at random.

If E = WQ, only the number of bookies from each region matters, and the best numbers are known
without a search. If E > WQ, the order matters too: it is constructed where that is possible, and
searched otherwise. That search is exact, as long as its steps suffice (``is_exhaustive``). It does
not miss an existing legal layout, as BookKeeper's greedy search does.
"""

from collections.abc import Mapping, Sequence
from typing import overload

from ..core.protocol.quorum import Quorum
from .cyclic_order import find_order, interleaved_order, stepped_order
from .layout_rank import LEVELS, Layout, Level, evenness, level_bound, level_of
from .region_counts import CountSpace
from .search_budget import STEPS_MAX, SearchBudget

EQUAL_MAX = 128
"""Largest number of equally good layouts that are offered; of more, one for each region is."""

_FIRST_ORDER_STEPS = 400
"""Steps of the search for an order before one is constructed."""

_STEPS_OF_COUNTS = 5
"""Steps of listing the counts of one rank."""

_Counts = dict[str | None, int]


class BestLayouts(Sequence[Layout]):
    """The layouts of the best rank that was found, at most one for each distribution of counts.

    ``is_exhaustive`` is False if a better rank, or another layout of this one, may exist;
    ``steps_left`` are those that the search did not need. Each layout is put in order when it is
    used.
    """

    def __init__(
        self, arranger: "_Arranger", counts: Sequence[_Counts], level: Level, budget: SearchBudget
    ) -> None:
        self.is_exhaustive = not budget.was_exceeded
        self.steps_left = budget.left
        self._arranger = arranger
        self._counts = counts
        self._level = level

    def __len__(self) -> int:
        return len(self._counts)

    @overload
    def __getitem__(self, index: int) -> Layout: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Layout]: ...
    def __getitem__(self, index: int | slice) -> Layout | Sequence[Layout]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._arranger.arrange(self._counts[index], self._level)


def best_layouts(
    quorum: Quorum,
    available: Mapping[str | None, int],
    near: str | None,
    steps_max: int = STEPS_MAX,
) -> BestLayouts:
    """Return the layouts of the best possible rank, one for each distribution of counts.

    ``available`` is the number of bookies by region. The result is empty if no layout is legal.
    """
    return _LayoutSearch(quorum, available, near, SearchBudget(steps_max)).run()


class _LayoutSearch:
    """One search; tries the possible ranks from the best one downwards."""

    def __init__(
        self,
        quorum: Quorum,
        available: Mapping[str | None, int],
        near: str | None,
        budget: SearchBudget,
    ) -> None:
        e = quorum.ensemble_size
        self._names = sorted((name for name, count in available.items() if count > 0), key=str)
        self._known = [name for name in self._names if name is not None]
        self._near = self._known.index(near) if near in self._known else None
        self._e = e
        self._quorum = quorum
        self._budget = budget
        self._space = CountSpace(
            quorum,
            (0,) * len(self._known),
            tuple(min(available[name], e) for name in self._known),
            (0, min(available.get(None, 0), e)),
        )
        self._arranger = _Arranger(quorum, budget)

    def run(self) -> BestLayouts:
        if self._space.is_best_unknown():
            return self._result([dict.fromkeys(self._names, 0) | {None: self._e}], LEVELS[1])
        bounds = self._space.rank_bounds()
        for level in LEVELS:
            reachable = [bound for bound in bounds if bound[0] <= level]
            if not reachable:
                continue
            found = self._first_of_level(level, min(spread for _, spread, _ in reachable))
            if not found:
                found = self._most_even(level, [unknown for _, _, unknown in reachable])
            if found:
                return self._result(found, level)
        return self._result([], LEVELS[-1])

    def _result(self, found: list[_Counts], level: Level) -> BestLayouts:
        return BestLayouts(self._arranger, found, level, self._budget)

    def _first_of_level(self, level: Level, least: int) -> list[_Counts]:
        """Return all counts of the best rank at this level; [] if there is none in the budget."""
        for spread in range(least, self._e):
            for near in self._near_counts(spread):
                found = self._of_rank(level, spread, near)
                if found:
                    return found
                if not self._budget.take(_STEPS_OF_COUNTS):
                    return []
        return []

    def _near_counts(self, spread: int) -> list[int | None]:
        if self._near is None:
            return [None]
        most = self._e // self._space.regions_max() + spread
        return list(range(min(self._space.limits[self._near], most), -1, -1))

    def _of_rank(self, level: Level, spread: int, near: int | None) -> list[_Counts]:
        """Return all counts that can be put in an order of this rank; of many, the most even."""
        fixed = None if self._near is None or near is None else (self._near, near)
        vectors, is_complete = self._space.vectors(spread, EQUAL_MAX, fixed)
        found: list[_Counts] = []
        reached: dict[tuple[int, tuple[int, ...]], bool] = {}  # by counts without names
        for unknown, vector in vectors:
            key = unknown, tuple(sorted(vector))
            counts = self._named(unknown, vector)
            if key not in reached:
                reached[key] = self._arranger.can_reach(counts, level)
            if reached[key]:
                found.append(counts)
        if not is_complete:
            even = self._most_even(level, list(self._space.unknown_counts()))
            if even and self._rank_of(even[0]) == (-self._space.regions_max(), spread, near or 0):
                return even
            self._budget.was_exceeded = True
        found.sort(key=self._trial_key)
        return found

    def _rank_of(self, counts: _Counts) -> tuple[int, int, int]:
        near = 0 if self._near is None else counts[self._known[self._near]]
        return (*evenness(counts[name] for name in self._known), near)

    def _trial_key(self, counts: _Counts) -> tuple[bool, tuple[int, ...]]:
        """Return the order of equal counts: first those whose regions might each be lost."""
        quorum, wq = self._quorum, self._quorum.write_quorum
        known = [counts[name] for name in self._known if counts[name]]
        most = max((-(-count * wq // self._e) for count in known), default=0)
        may_be_robust = wq - most >= quorum.ack_quorum and (
            quorum.min_regions <= 1 or len(known) > quorum.min_regions
        )
        return not may_be_robust, tuple(counts.values())

    def _most_even(self, level: Level, unknown_counts: Sequence[int]) -> list[_Counts]:
        """Return the most even counts that are known to reach the level, without a search."""
        found: list[tuple[tuple[int, int], list[_Counts]]] = []
        for unknown in unknown_counts:
            variants = self._space.most_even_variants(unknown, self._near)
            named = [self._named(unknown, vector) for vector in variants]
            reaching = [counts for counts in named if self._arranger.can_reach(counts, level)]
            if reaching:
                near = 0 if self._near is None else variants[0][self._near]
                found.append(((evenness(variants[0])[1], -near), reaching))
        return min(found, key=lambda pair: pair[0])[1] if found else []

    def _named(self, unknown: int, vector: Sequence[int]) -> _Counts:
        known = dict(zip(self._known, vector, strict=True))
        return {name: unknown if name is None else known[name] for name in self._names}


class _Arranger:
    """Puts counts in an order of a given level; counts that differ in names only are one case."""

    def __init__(self, quorum: Quorum, budget: SearchBudget) -> None:
        self._quorum = quorum
        self._budget = budget
        self._orders: dict[tuple[Level, tuple[int, ...], int], Layout | None] = {}

    def can_reach(self, counts: _Counts, level: Level) -> bool:
        """Return whether an order of this level was found; that is exact within the budget."""
        key = self._key(counts, level)
        if key not in self._orders:
            self._orders[key] = self._find(counts, level)
        return self._orders[key] is not None

    def arrange(self, counts: _Counts, level: Level) -> Layout:
        """Return an order of the level, which ``can_reach``: the most spread one if it is soon
        found."""
        flat = interleaved_order(counts)
        if self._reaches(flat, level):
            return flat
        first = find_order(self._quorum, counts, level, SearchBudget(_FIRST_ORDER_STEPS))
        if first is not None:
            return first
        known = self._orders[self._key(counts, level)]
        assert known is not None
        # The known order is of counts with other names: rename from the fullest to the emptiest.
        renamed = dict(zip(_by_count(_count(known)), _by_count(counts), strict=False))
        return tuple(None if name is None else renamed[name] for name in known)

    def _find(self, counts: _Counts, level: Level) -> Layout | None:
        bound = level_bound(self._quorum, [n for name, n in counts.items() if name is not None])
        self._budget.take(1 + self._quorum.ensemble_size // 4)
        if bound is None or bound > level:
            return None
        if self._quorum.ensemble_size == self._quorum.write_quorum:
            return interleaved_order(counts)
        for layout in (interleaved_order(counts), stepped_order(self._quorum, counts)):
            if self._reaches(layout, level):
                return layout
        return find_order(self._quorum, counts, level, self._budget)

    def _reaches(self, layout: Layout, level: Level) -> bool:
        return level_of(self._quorum, layout, level) is not None

    def _key(self, counts: _Counts, level: Level) -> tuple[Level, tuple[int, ...], int]:
        known = sorted(count for name, count in counts.items() if name is not None and count)
        return level, tuple(known), counts.get(None, 0)


def _count(layout: Layout) -> _Counts:
    return {name: layout.count(name) for name in dict.fromkeys(layout)}


def _by_count(counts: _Counts) -> list[str]:
    names = [name for name in counts if name is not None]
    return sorted(names, key=lambda name: (-counts[name], name))

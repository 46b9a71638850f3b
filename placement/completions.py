"""Search for replacements: layouts that keep most indices of an ensemble (rule PLC-16).

If E = WQ, only the numbers of copies by region matter, and the best ones are known without a
search. If E > WQ, a search with bounds decides each vacant index. It starts from a good completion
that is built index by index, so if its steps do not suffice, the best one so far is legal, if that
one was (``is_exhaustive`` is False then).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from ..core.protocol.quorum import Quorum
from .layout_rank import Layout, Level, Rank, evenness, level_bound, level_of
from .layouts import EQUAL_MAX
from .region_counts import CountSpace, Vector
from .search_budget import STEPS_MAX, SearchBudget


class BestCompletions(Sequence[Layout]):
    """The completions of the best rank that was found; ``is_exhaustive`` if none is better."""

    def __init__(self, layouts: Sequence[Layout], is_exhaustive: bool) -> None:
        self.is_exhaustive = is_exhaustive
        self._layouts = layouts

    def __len__(self) -> int:
        return len(self._layouts)

    @overload
    def __getitem__(self, index: int) -> Layout: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Layout]: ...
    def __getitem__(self, index: int | slice) -> Layout | Sequence[Layout]:
        return self._layouts[index]


def best_completions(
    quorum: Quorum,
    fixed: Sequence[str | None],
    vacant: Sequence[int],
    available: Mapping[str | None, int],
    steps_max: int = STEPS_MAX,
) -> BestCompletions:
    """Return the best legal layouts that keep ``fixed`` except at the indices in ``vacant``.

    Among equal ones, those that change the region of the fewest indices are the best. At most
    ``EQUAL_MAX`` are returned.
    """
    usable = {name: min(available[name], len(vacant)) for name in sorted(available, key=str)}
    usable = {name: count for name, count in usable.items() if count > 0}
    if sum(usable.values()) < len(vacant):
        return BestCompletions([], is_exhaustive=True)
    if quorum.ensemble_size == quorum.write_quorum:
        return BestCompletions(_by_counts(quorum, fixed, vacant, usable), is_exhaustive=True)
    budget = SearchBudget(steps_max)
    found = _CompletionSearch(quorum, fixed, vacant, usable, budget).run()
    return BestCompletions(found, not budget.was_exceeded)


# --- E = WQ -------------------------------------------------------------------------------------


def _by_counts(
    quorum: Quorum,
    fixed: Sequence[str | None],
    vacant: Sequence[int],
    usable: Mapping[str | None, int],
) -> list[Layout]:
    """Return the best completions if the order does not matter; regions are assigned by name."""
    gone = set(vacant)
    kept = [name for index, name in enumerate(fixed) if index not in gone]
    known = sorted({name for name in (*kept, *usable) if name is not None})
    floors = tuple(kept.count(name) for name in known)
    space = CountSpace(
        quorum,
        floors,
        tuple(floor + usable.get(name, 0) for name, floor in zip(known, floors, strict=True)),
        (kept.count(None), kept.count(None) + usable.get(None, 0)),
    )
    names = sorted([*known, None], key=str)
    best: list[Layout] = []
    least: int | None = None
    choices = []
    for unknown, vector in _best_vectors(space):
        added: dict[str | None, int] = {None: unknown - space.unknown[0]}
        for region, count, floor in zip(known, vector, floors, strict=True):
            added[region] = count - floor
        choices.append([name for name in names for _ in range(added[name])])
    for choice in sorted(choices, key=lambda choice: [str(name) for name in choice]):
        layout = list(fixed)
        for index, name in zip(vacant, choice, strict=True):
            layout[index] = name
        moved = sum(1 for index in vacant if fixed[index] != layout[index])
        if least is None or moved < least:
            best, least = [tuple(layout)], moved
        elif moved == least:
            best.append(tuple(layout))
    return best


def _best_vectors(space: CountSpace) -> list[Vector]:
    """Return the best (copies in unknown regions, copies by region), more in the first regions."""
    if space.is_best_unknown():
        return [(space.quorum.ensemble_size, (0,) * len(space.limits))]
    bounds = space.rank_bounds()
    if not bounds:
        return []
    level, spread, unknown = bounds[0]
    vectors, is_complete = space.vectors(spread, EQUAL_MAX)
    if not is_complete:
        return [(unknown, tuple(vector)) for vector in space.most_even_variants(unknown, None)]
    return [vector for vector in vectors if level_bound(space.quorum, vector[1]) == level]


# --- E > WQ -------------------------------------------------------------------------------------


class _CompletionSearch:
    """A search over the regions of the vacant indices that drops what cannot be among the best.

    For each write set it keeps how many copies of each region it holds, how many regions, and how
    many indices are still vacant.
    """

    def __init__(
        self,
        quorum: Quorum,
        fixed: Sequence[str | None],
        vacant: Sequence[int],
        usable: Mapping[str | None, int],
        budget: SearchBudget,
    ) -> None:
        e, wq = quorum.ensemble_size, quorum.write_quorum
        self._quorum = quorum
        self._fixed = fixed
        self._vacant = list(vacant)
        self._left = dict(usable)
        self._budget = budget
        self._layout = list(fixed)
        self._windows = [[(index - back) % e for back in range(wq)] for index in range(e)]
        self._inside: list[dict[str, int]] = [{} for _ in range(e)]
        self._empty = [0] * e
        self._counts: dict[str, int] = {}
        self._spare = wq - quorum.ack_quorum
        self._step_cost = 1 + wq // 5
        gone = set(vacant)
        for index, name in enumerate(fixed):
            if index in gone:
                for window in self._windows[index]:
                    self._empty[window] += 1
            elif name is not None:
                self._add(index, name)
        unused = [name for name in usable if name is not None and name not in self._counts]
        self._regions = len(self._counts) + min(len(vacant), len(unused))
        self._best: list[Layout] = []
        self._best_rank: Rank | None = None

    def run(self) -> list[Layout]:
        """Return the best completions; [] if none is legal."""
        level = self._level_of_kept()
        if level is None:
            return []
        built: list[Layout] = []
        for layout in self._built():
            found = self._rank(layout)
            if found is not None and (self._best_rank is None or found < self._best_rank):
                self._best_rank = found
                built = [layout]
        self._extend(0, 0, level)
        return self._best or built

    def _level_of_kept(self) -> Level | None:
        """Return the level of the write sets without vacant indices; None if one is not legal."""
        level: Level = (0, int(self._spare < 1))
        for window, empty in enumerate(self._empty):
            if empty == 0:
                found = self._level_of_window(window)
                if found is None:
                    return None
                level = max(level[0], found[0]), max(level[1], found[1])
        return level

    def _level_of_window(self, window: int) -> Level | None:
        """Return the best level that one write set may have once it is complete."""
        inside, empty, r = self._inside[window], self._empty[window], self._quorum.min_regions
        is_robust, is_sturdy = True, self._spare > 0
        if r > 1:
            regions = len(inside) + empty
            if regions < r:
                return None
            if regions == r:
                is_robust = False
                is_sturdy = is_sturdy and (empty > 0 or 1 not in inside.values())
        if is_robust and inside and max(inside.values()) > self._spare:
            is_robust = False
        return int(not is_robust), int(not is_sturdy)

    def _rank(self, layout: Layout) -> Rank | None:
        """Return the rank of a completion; None if it is not legal or worse than the best."""
        worst = (1, 1) if self._best_rank is None else (self._best_rank[0], self._best_rank[1])
        level = level_of(self._quorum, layout, worst)
        if level is None:
            return None
        known = Counter(name for name in layout if name is not None)
        moved = sum(1 for index in self._vacant if layout[index] != self._fixed[index])
        return (*level, *evenness(known.values()), moved)

    # --- completions to start from --------------------------------------------------------------

    def _built(self) -> Iterator[Layout]:
        """Yield complete layouts: with the former regions, and with those that are missing."""
        former = self._with_former_regions()
        yield former
        urgent = self._most_urgent()
        yield urgent
        yield self._improved(urgent)

    def _with_former_regions(self) -> Layout:
        """Fill each index with its former region, as far as that has bookies."""
        left, layout = dict(self._left), list(self._fixed)
        others = []
        for index in self._vacant:
            if left.get(layout[index], 0) > 0:
                left[layout[index]] -= 1
            else:
                others.append(index)
        for index in others:
            name = max(left, key=left.__getitem__)
            left[name] -= 1
            layout[index] = name
        return tuple(layout)

    def _most_urgent(self) -> Layout:
        """Fill each index with the region that is missing in most of its write sets."""
        left, layout = self._left, list(self._fixed)
        for index in self._vacant:
            windows = self._windows[index]

            def urgency(name: str | None, windows: Sequence[int] = windows) -> tuple[int, int, int]:
                if name is None:
                    return 0, 0, 0
                missing = sum(1 for window in windows if name not in self._inside[window])
                return missing, -self._counts.get(name, 0), left[name]

            self._put(index, max((name for name in left if left[name] > 0), key=urgency))
            layout[index] = self._layout[index]
        for index in self._vacant:
            self._take_back(index, layout[index])
        return tuple(layout)

    def _improved(self, layout: Layout) -> Layout:
        """Change or exchange single regions while that makes the layout better."""
        best, best_rank = list(layout), self._rank(layout)
        left = Counter(self._left)
        left.subtract(layout[index] for index in self._vacant)
        cost = 1 + len(layout) // 8
        for index in self._vacant:
            for name in self._left:
                if name == best[index] or left[name] <= 0:
                    continue
                if self._budget.left < 2 * cost or not self._budget.take(cost):
                    return tuple(best)
                changed = [*best[:index], name, *best[index + 1 :]]
                found = self._rank(tuple(changed))
                if found is not None and (best_rank is None or found < best_rank):
                    left[best[index]] += 1
                    left[name] -= 1
                    best, best_rank = changed, found
        return tuple(best)

    # --- the search -----------------------------------------------------------------------------

    def _extend(self, position: int, moved: int, level: Level) -> None:
        if position == len(self._vacant):
            self._compare((*level, *evenness(self._counts.values()), moved))
            return
        index = self._vacant[position]
        for name in self._left:
            if self._left[name] == 0:
                continue
            if not self._budget.take(self._step_cost):
                return
            self._put(index, name)
            moved_now = moved + (name != self._fixed[index])
            level_now = self._level_after(index, level)
            if level_now is not None and self._may_be_best(position, moved_now, level_now):
                self._extend(position + 1, moved_now, level_now)
            self._take_back(index, name)

    def _compare(self, found: Rank) -> None:
        if self._best_rank is not None and found > self._best_rank:
            return
        if found != self._best_rank:
            self._best = []
        self._best_rank = found
        self._best.append(tuple(self._layout))
        if len(self._best) >= EQUAL_MAX:
            self._budget.left = 0

    def _level_after(self, index: int, level: Level) -> Level | None:
        """Return the best level that is left once ``index`` is filled; None if none is."""
        for window in self._windows[index]:
            found = self._level_of_window(window)
            if found is None:
                return None
            level = max(level[0], found[0]), max(level[1], found[1])
        return level

    def _may_be_best(self, position: int, moved: int, level: Level) -> bool:
        """Return whether a completion of what is decided may be as good as the best one."""
        if self._best_rank is None:
            return True
        free = len(self._vacant) - position - 1
        least = min(
            (self._counts.get(n, 0) + min(self._left.get(n, 0), free) for n in self._counts),
            default=0,
        )
        spread = max(0, max(self._counts.values(), default=0) - least)
        return (*level, -self._regions, spread, moved) <= self._best_rank

    # --- write sets -----------------------------------------------------------------------------

    def _put(self, index: int, name: str | None) -> None:
        self._left[name] -= 1
        self._layout[index] = name
        for window in self._windows[index]:
            self._empty[window] -= 1
        if name is not None:
            self._add(index, name)

    def _take_back(self, index: int, name: str | None) -> None:
        self._left[name] += 1
        for window in self._windows[index]:
            self._empty[window] += 1
        if name is not None:
            self._counts[name] -= 1
            if self._counts[name] == 0:
                del self._counts[name]
            for window in self._windows[index]:
                inside = self._inside[window]
                if inside[name] == 1:
                    del inside[name]
                else:
                    inside[name] -= 1

    def _add(self, index: int, name: str) -> None:
        self._counts[name] = self._counts.get(name, 0) + 1
        for window in self._windows[index]:
            inside = self._inside[window]
            inside[name] = inside.get(name, 0) + 1

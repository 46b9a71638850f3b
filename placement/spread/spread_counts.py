"""The copies in each region that share the fewest domains, for E = WQ (rules PLC-15, PLC-28).

If E = WQ, there is one write set, so only the number of copies in each region matters. Each further
copy in a region shares at least as much as the one before, so moving one copy at a time from one
region to another ends at the best numbers.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from ..layout_rank import Layout
from ..search_budget import SearchBudget
from .domain_choice import choices
from .domain_tree import Domain, DomainTree, Shared, added


class SpreadCounts:
    """Moves copies between regions as long as that makes a layout better."""

    def __init__(
        self,
        tree: DomainTree,
        vacant: Sequence[int],
        rest: Callable[[Layout], tuple[int, ...] | None],
        random: Random,
        budget: SearchBudget,
    ) -> None:
        """``rest`` gives the part of the rank after the shared copies: evenness, then others.

        It is None for a layout that must not be used.
        """
        self._kept = tree.kept
        self._vacant = vacant
        self._rest = rest
        self._budget = budget
        self._names = [name for name in tree.root.children if name is not None]
        self._costs = {name: _costs(tree, name, len(vacant), random) for name in self._names}

    def best_from(self, layout: Layout) -> Layout:
        """Return a layout that differs in vacant indices, and shares the fewest copies."""
        while True:
            better = self._step(layout)
            if better == layout:
                return layout
            layout = better

    def _step(self, layout: Layout) -> Layout:
        """Return the best layout with one copy in another region; the same one if none is."""
        best, best_rank = layout, self._rank(layout)
        taken = Counter(layout[index] for index in self._vacant)
        sources = {layout[index]: index for index in self._vacant if layout[index] is not None}
        for name in self._names:
            if taken[name] + 1 >= len(self._costs[name]):
                continue  # no bookie of the region is left
            for source, index in sources.items():
                if source == name:
                    continue
                if not self._budget.take(1 + len(layout) // 8):
                    return best
                moved = (*layout[:index], name, *layout[index + 1 :])
                moved_rank = self._rank(moved)
                if moved_rank is not None and (best_rank is None or moved_rank < best_rank):
                    best, best_rank = moved, moved_rank
        return best

    def _rank(self, layout: Layout) -> tuple[int, ...] | None:
        rest = self._rest(layout)
        if rest is None:
            return None
        counts = Counter(layout[index] for index in self._vacant)
        shared = self._kept
        for name in self._names:
            shared = added(shared, self._costs[name][counts[name]])
        even = sum(count * count for count in Counter(layout).values())
        return (*shared, rest[0], even, *rest[1:])


def _costs(tree: DomainTree, name: str, copies_max: int, random: Random) -> list[Shared]:
    """Return the copies that share a domain by the number of new copies in the region."""
    region = tree.root.children[name]
    found = [tuple(0 for _ in tree.kept)]
    taken: list[tuple[Domain, tuple[int, ...]]] = []
    while len(taken) < copies_max and region.free > 0:
        cost, leaf = next(choices(tree, region, 0, random))
        found.append(added(found[-1], cost))
        taken.append((leaf, tree.take(leaf, 0)))
    for leaf, before in reversed(taken):
        tree.give_back(leaf, before)
    return found

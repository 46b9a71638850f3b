"""Search for the domains of the members, given their regions or what these must reach (PLC-28).

The search fills index after index, with the domain first that shares the fewest copies, and drops
what cannot become better than the best ensemble so far. Domains that differ in nothing but their
labels are one case. The first ensemble costs no backtracking, so that there always is one.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from random import Random

from ...core.protocol.placement import Path
from ..search_budget import SearchBudget
from .domain_choice import choices
from .domain_tree import Domain, DomainTree, Shared, added

Rank = tuple[int, ...]
"""The copies that share a domain at each level, then what the caller adds; smaller is better."""


class Goal:
    """The aim of a search: the regions that an index may get, the rank, and when it may stop."""

    __slots__ = (
        "admits",
        "complete",
        "enough",
        "is_limited",
        "least",
        "permit_steps",
        "permits",
        "regions",
    )

    def __init__(
        self,
        regions: Callable[[int], Sequence[str | None]],
        *,
        permits: Callable[[Sequence[str | None], int], bool],
        complete: Callable[[Sequence[str | None]], Rank | None],
        least: Rank,
        enough: Rank,
        admits: Callable[[Sequence[Path | None], int], bool] | None = None,
        permit_steps: int = 0,
    ) -> None:
        self.regions = regions
        """The regions that an index may get."""
        self.permits = permits
        """True if the layout may still be completed after an index was filled."""
        self.complete = complete
        """The part of the rank after the shared copies, of a whole layout; None if it is wrong."""
        self.least = least
        """A lower bound of that part."""
        self.is_limited = admits is not None
        self.admits = admits if admits is not None else _always
        """True if the locations may still be completed after an index was filled."""
        self.permit_steps = permit_steps
        """The steps that one call of ``permits`` counts."""
        self.enough = enough
        """The search stops at an ensemble of this rank."""


def _always(paths: Sequence[Path | None], position: int) -> bool:
    del paths, position
    return True


class SpreadSearch:
    """One search for the leaves of the vacant indices of an ensemble."""

    def __init__(
        self,
        tree: DomainTree,
        layout: Sequence[str | None],
        vacant: Sequence[int],
        random: Random,
        goal: Goal,
        budget: SearchBudget,
    ) -> None:
        self.paths: tuple[Path | None, ...] = ()
        self.layout: tuple[str | None, ...] = ()
        self.rank: Rank | None = None
        self._tree = tree
        self._filled = list(layout)
        self._vacant = list(vacant)
        self._random = random
        self._goal = goal
        self._budget = budget
        self._chosen: list[Path | None] = [None] * len(layout)
        self._bound = tree.bound()
        self._step_cost = 6
        self._work = self._extend(0, tree.kept)

    def run(self, best: Rank | None = None) -> bool:
        """Search for an ensemble that is better than ``best``; return whether one was found.

        If the budget is exceeded, ``resume`` continues; until then the tree belongs to the search.
        """
        self.rank = best
        if best is None or best > self._goal.enough:
            next(self._work, None)
        return bool(self.paths)

    def resume(self, budget: SearchBudget) -> None:
        """Continue with further steps."""
        self._budget = budget
        next(self._work, None)

    def close(self) -> None:
        """End the search: the tree is as it was before."""
        self._work.close()

    def _extend(self, position: int, shared: Shared) -> Generator[None]:
        """Try all members from a position on; yields when no steps are left."""
        if position == len(self._vacant):
            self._compare(shared)
            return
        goal, tree = self._goal, self._tree
        index = self._vacant[position]
        for region in self._regions(position):
            for cost, leaf in choices(tree, region, index, self._random):
                now = added(shared, cost)
                if not self._may_be_better(now):
                    continue
                while (self.rank is not None or goal.is_limited) and not self._budget.take(
                    self._step_cost
                ):
                    yield
                self._chosen[index] = leaf.path
                if not goal.admits(self._chosen, position):
                    continue
                before = tree.take(leaf, index)
                try:
                    yield from self._extend(position + 1, now)
                finally:
                    tree.give_back(leaf, before)
                if self.paths and self.rank is not None and self.rank <= goal.enough:
                    return

    def _regions(self, position: int) -> Iterator[Domain]:
        """Yield the regions that an index may get; the layout holds the one that was yielded."""
        goal, index = self._goal, self._vacant[position]
        for name in goal.regions(index):
            region = self._tree.root.children.get(name)
            if region is None or region.free == 0:
                continue
            self._filled[index] = name
            if self.rank is not None:
                self._budget.take(goal.permit_steps)
            if goal.permits(self._filled, position):
                yield region
        self._filled[index] = None

    def _compare(self, shared: Shared) -> None:
        if self.rank is not None:
            self._budget.take(2 * len(self._filled) // 3)
        rest = self._goal.complete(self._filled)
        if rest is None:
            return
        rank = (*shared, *rest)
        if self.rank is None or rank < self.rank:
            self.rank = rank
            self.paths = tuple(self._chosen)
            self.layout = tuple(self._filled)

    def _may_be_better(self, shared: Shared) -> bool:
        if self.rank is None:
            return True
        least = tuple(map(max, shared, self._bound))
        return (*least, *self._goal.least) < self.rank

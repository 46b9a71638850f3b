"""The members of an ensemble: bookies in the best regions that share the fewest domains (PLC-28).

Regions come first: robust, not fragile, more regions. Ensembles that are equal in this are compared
by the copies that share a zone, a rack and a host, and only then by evenness and nearness. A layout
of regions is filled first. If that leaves copies that share a domain and need not, the regions of
the indices are searched as well; the result is remembered for an unchanged set of bookies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from ...core.protocol.errors import NotEnoughBookiesError
from ...core.protocol.placement import (
    NO_RULE,
    BookieInfo,
    Path,
    SpreadRule,
    shared_copies,
    shortage,
)
from ...core.protocol.quorum import Quorum
from ..layout_rank import LEVELS, Layout, level_of, rank
from ..search_budget import SearchBudget
from .domain_tree import DomainTree
from .known_candidates import KnownCandidates
from .spread_counts import SpreadCounts
from .spread_search import Goal, Rank, SpreadSearch
from .stepped_members import stepped_paths
from .tree_changes import TreeChanges

_DIRECT_STEPS = 40
_FILL_STEPS = 150
"""Steps of filling one layout of regions: at first, and if it is known that more can be reached."""

_KNOWN_MAX = 256

_COUNTED = 3  # leading parts of a rank of regions, which come before the shared copies


@dataclass(frozen=True, slots=True)
class _Found:
    """An ensemble: its rank, its regions, and the locations of its new members."""

    rank: Rank
    layout: Layout
    paths: tuple[Path | None, ...]


class MemberChoice:
    """Chooses members; remembers for which bookies the regions had to be searched.

    A search whose steps did not suffice continues with the next choice among the same bookies.
    """

    def __init__(self) -> None:
        self.searches = 0
        self._known: dict[tuple[object, ...], _Found] = {}
        self._unfinished: tuple[tuple[object, ...], _Found, SpreadSearch] | None = None

    def new(
        self,
        quorum: Quorum,
        layouts: Sequence[Layout],
        candidates: KnownCandidates,
        near: str | None,
        random: Random,
        budget: SearchBudget,
        rule: SpreadRule = NO_RULE,
    ) -> tuple[BookieInfo, ...]:
        """Choose the members of a new ensemble; ``layouts`` are the best ones of regions.

        Raises NotEnoughBookiesError if none was found that obeys ``rule``.
        """
        members: list[BookieInfo | None] = [None] * quorum.ensemble_size
        search = _Members(quorum, members, candidates.tree(quorum), near, random)
        layout = random.choice(layouts)
        enough = search.least_rank(layout)
        found = search.fill(layout, enough, _DIRECT_STEPS)
        if found.rank > enough:
            found = search.stepped(found, enough)
        if found.rank > enough:
            key = (quorum, near, search.tree.contents())
            known = self._best_known(key, found)
            if known is None:
                own_tree = DomainTree(quorum, candidates.by_id)  # an unfinished search keeps it
                known = self._search(
                    key, _Members(quorum, members, own_tree, near, random), found, enough, budget
                )
            elif self._unfinished is not None and self._unfinished[0] == key:
                known = self._continue(budget)
            for again in (layout, known.layout):
                if found.rank > known.rank:
                    found = min(found, search.fill(again, known.rank, _FILL_STEPS), key=_rank)
            found = min(found, known, key=_rank)
        if rule:
            found = search.obeying(found, rule, budget)
        return search.draw(found)

    def _best_known(self, key: tuple[object, ...], found: _Found) -> _Found | None:
        known = self._known.get(key)
        if known is not None and found.rank < known.rank:  # a search that is not finished
            known = self._known[key] = found
        return known

    def _search(
        self,
        key: tuple[object, ...],
        members: "_Members",
        found: _Found,
        enough: Rank,
        budget: SearchBudget,
    ) -> _Found:
        self.searches += 1
        known, search = members.improve(found, enough, budget)
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[key] = known
        if budget.was_exceeded and search is not None:
            self._unfinished = key, known, search
        return known

    def _continue(self, budget: SearchBudget) -> _Found:
        """Continue the unfinished search; return the best ensemble that is known now."""
        assert self._unfinished is not None
        key, _, search = self._unfinished
        search.resume(budget)
        known = self._known[key]
        if search.paths and search.rank is not None and search.rank < known.rank:
            known = self._known[key] = _found(search)
        if not budget.was_exceeded:
            self._unfinished = None
        return known

    def replacements(
        self,
        quorum: Quorum,
        layouts: Sequence[Layout],
        ensemble: Sequence[BookieInfo],
        vacant: Sequence[int],
        candidates: KnownCandidates,
        random: Random,
        budget: SearchBudget,
        rule: SpreadRule = NO_RULE,
    ) -> tuple[BookieInfo, ...]:
        """Choose others for the ``vacant`` indices; ``layouts`` are the best completions.

        The regions before are kept if nothing else counts.
        """
        members = [None if i in vacant else info for i, info in enumerate(ensemble)]
        former = [info.region for info in ensemble]
        tree = candidates.tree(quorum)
        changes = TreeChanges(tree)
        try:
            changes.remove([info.bookie for info in ensemble], candidates)
            changes.keep([None if info is None else info.path for info in members])
            search = _Members(quorum, members, tree, None, random, former)
            layout = random.choice(layouts)
            enough = search.least_rank(layout)
            found = search.fill(layout, enough, _DIRECT_STEPS)
            if found.rank > enough:
                found, unfinished = search.improve(found, enough, budget)
                if unfinished is not None:
                    unfinished.close()
            if rule:
                found = search.obeying(found, rule, budget)
            return search.draw(found)
        finally:
            changes.undo()


def _rank(found: _Found) -> Rank:
    return found.rank


class _Members:
    """The search for the members of one ensemble."""

    def __init__(
        self,
        quorum: Quorum,
        members: Sequence[BookieInfo | None],
        tree: DomainTree,
        near: str | None,
        random: Random,
        former: Sequence[str | None] = (),
    ) -> None:
        """``tree`` has the members that stay, and only the bookies that may be chosen."""
        self.tree = tree
        self._quorum = quorum
        self._members = members
        self._kept = [None if info is None else info.region for info in members]
        self._vacant = [index for index, info in enumerate(members) if info is None]
        self._near = near
        self._former = former
        self._random = random

    def least_rank(self, layout: Layout) -> Rank:
        """Return a rank that no ensemble is better than; ``layout`` is a best one of regions."""
        return (*self.tree.bound(), *self._rest(layout))

    def _rest(self, layout: Sequence[str | None]) -> Rank:
        """Return the part of the rank that comes after the shared copies."""
        value = rank(self._quorum, layout, self._near)
        assert value is not None, "only legal layouts are searched"
        moved = 0
        if self._former:
            moved = sum(1 for index in self._vacant if layout[index] != self._former[index])
        return (*value[_COUNTED:], moved)

    def fill(self, layout: Layout, enough: Rank, steps: int) -> _Found:
        """Choose the locations of the new members for one layout of regions."""
        rest = self._rest(layout)
        goal = Goal(
            lambda index: (layout[index],),
            permits=lambda *_: True,
            complete=lambda _: rest,
            least=rest,
            enough=enough,
        )
        search = SpreadSearch(
            self.tree, self._kept, self._vacant, self._random, goal, SearchBudget(steps)
        )
        search.run()
        search.close()
        return _found(search)

    def stepped(self, found: _Found, enough: Rank) -> _Found:
        """Place the members WQ apart, if that is better than ``found``."""
        if self._quorum.ensemble_size == self._quorum.write_quorum:
            return found
        worst = level_of(self._quorum, found.layout)
        assert worst is not None
        for paths in stepped_paths(self.tree, found.layout, self._random):
            layout = tuple(path[0] for path in paths)
            if level_of(self._quorum, layout, worst) is not None:
                shared = shared_copies(self._quorum, paths)
                stepped = _Found((*shared, *self._rest(layout)), layout, paths)
                found = min(found, stepped, key=_rank)
            if found.rank <= enough:
                break
        return found

    def improve(
        self, found: _Found, enough: Rank, budget: SearchBudget
    ) -> tuple[_Found, SpreadSearch | None]:
        """Search for an ensemble with other regions that is better than ``found``.

        Returns the better one, and the search, which can continue if the budget was exceeded.
        """
        needed = rank(self._quorum, found.layout, None)
        assert needed is not None
        if self._quorum.ensemble_size == self._quorum.write_quorum:

            def rest(layout: Layout) -> Rank | None:
                value = rank(self._quorum, layout, None)
                if value is None or value[:_COUNTED] != needed[:_COUNTED]:
                    return None
                return self._rest(layout)

            counts = SpreadCounts(self.tree, self._vacant, rest, self._random, budget)
            layout = counts.best_from(found.layout)
            return min(found, self.fill(layout, enough, _FILL_STEPS), key=_rank), None
        regions = _RegionRules(
            self._quorum, self._kept, self._vacant, list(self.tree.root.children), needed[:_COUNTED]
        )
        goal = Goal(
            regions.names,
            permits=regions.permits,
            permit_steps=regions.steps,
            complete=lambda layout: self._rest(layout) if regions.are_met(layout) else None,
            least=self._rest(found.layout),
            enough=enough,
        )
        search = SpreadSearch(self.tree, self._kept, self._vacant, self._random, goal, budget)
        return (_found(search) if search.run(found.rank) else found), search

    def obeying(self, found: _Found, rule: SpreadRule, budget: SearchBudget) -> _Found:
        """Return ``found`` if it obeys the rule, else the best ensemble that does (rule PLC-29).

        The regions may then be less robust, but are legal. Raises NotEnoughBookiesError.
        """
        rules = _WriteSetRules(
            self._quorum,
            [None if info is None else info.path for info in self._members],
            self._vacant,
            rule,
        )
        if rules.are_obeyed(found.paths):
            return found
        best = level_of(self._quorum, found.layout)
        assert best is not None
        for level in LEVELS[LEVELS.index(best) :]:
            regions = _RegionRules(
                self._quorum, self._kept, self._vacant, list(self.tree.root.children), (*level, 0)
            )
            goal = Goal(
                regions.names,
                permits=regions.permits,
                permit_steps=regions.steps,
                complete=lambda layout: self._rest(layout),
                least=(-1,),
                enough=(*self.tree.bound(), -1),
                admits=rules.permits,
            )
            search = SpreadSearch(self.tree, self._kept, self._vacant, self._random, goal, budget)
            is_found = search.run()
            search.close()
            if is_found:
                return _found(search)
        wanted = ", ".join(f"{number} {name}s" for name, number in rule.items())
        have = ", ".join(f"{count} {name}s" for name, count in self.tree.domain_counts().items())
        cut = "; not all ensembles were tried" if budget.was_exceeded else ""
        raise NotEnoughBookiesError(
            f"no ensemble of {self._quorum} has each write set in at least {wanted}; the bookies "
            f"are in {have}{cut}"
        )

    def draw(self, found: _Found) -> tuple[BookieInfo, ...]:
        """Draw the bookies of the locations that were found."""
        drawn = self.tree.draw(found.paths, self._random)
        return tuple(
            info for index, old in enumerate(self._members) if (info := old or drawn[index])
        )


def _found(search: SpreadSearch) -> _Found:
    assert search.rank is not None
    return _Found(search.rank, search.layout, search.paths)


class _RegionRules:
    """The regions of a layout as good as the best ones: level of each write set, and number."""

    def __init__(
        self,
        quorum: Quorum,
        kept: Sequence[str | None],
        vacant: Sequence[int],
        names: Sequence[str | None],
        needed: Rank,
    ) -> None:
        e, wq = quorum.ensemble_size, quorum.write_quorum
        self.steps = 1 + e // 16 + wq * wq // 16
        self._quorum = quorum
        self._window_quorum = Quorum(wq, wq, quorum.ack_quorum, quorum.min_regions)
        self._needed = needed
        self._names = names
        self._known: dict[tuple[str | None, ...], bool] = {}
        self._open: dict[tuple[str | None, ...], bool] = {}
        position_of = {index: position for position, index in enumerate(vacant)}
        self._left = [len(vacant) - position - 1 for position in range(len(vacant))]
        self._kept = [name for index, name in enumerate(kept) if index not in position_of]
        self._vacant = vacant
        self._complete: list[list[tuple[int, ...]]] = [[] for _ in vacant]
        for start in range(e):
            window = tuple((start + back) % e for back in range(wq))
            last = max((position_of[index] for index in window if index in position_of), default=-1)
            if last >= 0:
                self._complete[last].append(window)

    def names(self, index: int) -> Sequence[str | None]:
        """Return the regions that may be tried for an index."""
        del index
        return self._names

    def permits(self, layout: Sequence[str | None], position: int) -> bool:
        """Return whether the write sets that are complete now have the level, and enough regions
        can still be reached."""
        used = {name for name in self._kept if name is not None}
        used.update(name for i in self._vacant[: position + 1] if (name := layout[i]) is not None)
        if len(used) + self._left[position] < -self._needed[2]:
            return False
        for window in self._complete[position]:
            members = tuple(layout[index] for index in window)
            known = self._known.get(members)
            if known is None:
                level = level_of(self._window_quorum, members, (self._needed[0], self._needed[1]))
                known = self._known[members] = level is not None
            if not known:
                return False
        return True

    def are_met(self, layout: Sequence[str | None]) -> bool:
        """Return whether a whole layout is as good as the best ones."""
        value = rank(self._quorum, layout, None)
        return value is not None and value[:_COUNTED] <= self._needed


class _WriteSetRules:
    """The rule on the domains of each write set that has a new member."""

    def __init__(
        self,
        quorum: Quorum,
        kept: Sequence[Path | None],
        vacant: Sequence[int],
        rule: SpreadRule,
    ) -> None:
        self._rule = rule
        self._kept = kept
        position_of = {index: position for position, index in enumerate(vacant)}
        self._complete: list[list[tuple[int, ...]]] = [[] for _ in vacant]
        for start in range(quorum.ensemble_size):
            members = quorum.write_set(start)
            last = max((position_of[i] for i in members if i in position_of), default=-1)
            if last >= 0:
                self._complete[last].append(members)

    def permits(self, paths: Sequence[Path | None], position: int) -> bool:
        """Return whether the write sets obey the rule that are complete at a position."""
        return all(
            shortage(self._rule, [p for i in members if (p := self._kept[i] or paths[i])]) is None
            for members in self._complete[position]
        )

    def are_obeyed(self, paths: Sequence[Path | None]) -> bool:
        """Return whether all write sets with a new member obey the rule."""
        return all(self.permits(paths, position) for position in range(len(self._complete)))

"""The candidates of choices, with all that placement derives from them alone.

Sorting 1,000 bookies, counting their domains and building a tree of them takes milliseconds, and
consecutive choices mostly have the same candidates.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.placement import LEVELS, SPREAD_LEVELS, BookieInfo, Path, levels_below
from ...core.protocol.quorum import Quorum
from .bookie_weights import weight_cap
from .domain_tree import DomainTree

_CACHE_SIZE_MAX = 4
_TREES_MAX = 4


class KnownCandidates:
    """The bookies that may be chosen, each with another id."""

    def __init__(self, candidates: Sequence[BookieInfo]) -> None:
        self.infos = list(candidates)
        self.by_id = sorted(candidates, key=lambda info: info.bookie)
        counts = Counter(info.region for info in candidates)
        self.counts: dict[str | None, int] = {
            name: counts[name] for name in sorted(counts, key=str)
        }
        """Number of bookies by region, sorted by its name."""
        self._of = {info.bookie: info for info in self.by_id}
        self._sizes: dict[str | None, list[int]] = {}
        for info in self.by_id:
            self._sizes.setdefault(info.region, []).append(info.free_bytes)
        for sizes in self._sizes.values():
            sizes.sort()
        paths = {info.path for info in self.by_id}
        self._domains: list[set[Path]] = [
            {path[: depth + 1] for path in paths} for depth in range(len(LEVELS))
        ]
        self._is_used = [
            any(path[depth] is not None for path in paths) for depth in range(len(LEVELS))
        ]
        self._trees: dict[tuple[int, int], DomainTree] = {}

    def tree(self, quorum: Quorum) -> DomainTree:
        """Return the tree of all candidates. The caller restores it after changes."""
        key = quorum.ensemble_size, quorum.write_quorum
        tree = self._trees.get(key)
        if tree is None:
            if len(self._trees) >= _TREES_MAX:
                self.close()
            tree = self._trees[key] = DomainTree(quorum, self.by_id)
        return tree

    def close(self) -> None:
        """Drop the trees, so that no garbage collection is needed for them."""
        for tree in self._trees.values():
            tree.close()
        self._trees.clear()

    def among(self, bookies: Iterable[BookieId]) -> list[BookieInfo]:
        """Return the candidates among some bookies, once each."""
        return [info for bookie in dict.fromkeys(bookies) if (info := self._of.get(bookie))]

    def counts_without(self, bookies: Iterable[BookieId]) -> dict[str | None, int]:
        """Return the number of other candidates by region; regions without any are left out."""
        counts = dict(self.counts)
        for info in self.among(bookies):
            counts[info.region] -= 1
        return {name: count for name, count in counts.items() if count > 0}

    def without(self, region: str | None, gone: Collection[BookieInfo]) -> list[BookieInfo]:
        """Return the other candidates of a region, sorted by id."""
        return [info for info in self.by_id if info.region == region and info not in gone]

    def keeps_weights(self, region: str | None, gone: Collection[BookieInfo]) -> bool:
        """Return whether the weights of a region's bookies are the same without some of them."""
        sizes = self._sizes[region]
        left = list(sizes)
        for info in gone:
            del left[bisect_left(left, info.free_bytes)]
        if not left:
            return True
        before, after = weight_cap(sizes), weight_cap(left)
        return before == after or min(before, after) >= left[-1]

    def crowded_levels(self, quorum: Quorum, members: Sequence[Path]) -> tuple[str, ...]:
        """Return what ``crowded_levels`` of ``core/protocol/placement`` does for them."""
        return levels_below(quorum, members, self._domains_with(members))

    def _domains_with(self, members: Sequence[Path]) -> dict[str, int]:
        """Return ``domains_by_level`` of the candidates and some members."""
        found: dict[str, int] = {}
        for depth, level in enumerate(LEVELS):
            known = self._domains[depth]
            is_used = self._is_used[depth] or any(path[depth] is not None for path in members)
            if level in SPREAD_LEVELS and is_used:
                others = {path[: depth + 1] for path in members} - known
                found[level] = len(known) + len(others)
        return found


class CandidateCache:
    """The last few sets of candidates."""

    def __init__(self) -> None:
        self._known: list[KnownCandidates] = []

    def find(self, candidates: Sequence[BookieInfo]) -> KnownCandidates:
        """Return these candidates, and remember them."""
        wanted = list(candidates)
        for number, known in enumerate(self._known):
            if known.infos == wanted:
                if number:
                    self._known.insert(0, self._known.pop(number))
                return known
        if len(self._known) >= _CACHE_SIZE_MAX:
            self._known.pop().close()
        found = KnownCandidates(wanted)
        self._known.insert(0, found)
        return found

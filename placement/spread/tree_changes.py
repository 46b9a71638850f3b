"""Changes of a domain tree for one replacement, and their end (rule PLC-16).

Building a tree of 1,000 bookies takes milliseconds. A replacement needs one without the members of
its ensemble, and with the copies of those that stay. Both concern a few domains only, so the tree
of all candidates is changed there and restored afterwards. Until then it equals a tree that was
built without the members, in the order of its domains too: equal seeds give equal ensembles.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.placement import BookieInfo, Path
from .domain_tree import NOTHING_SHARED, Domain, DomainState, DomainTree, added
from .known_candidates import KnownCandidates


class TreeChanges:
    """The changes of one tree, until ``undo``."""

    def __init__(self, tree: DomainTree) -> None:
        self._tree = tree
        self._sizes = tree.sizes
        self._before: dict[Domain, DomainState] = {}
        self._is_rebuilt = False

    def remove(self, members: Iterable[BookieId], candidates: KnownCandidates) -> None:
        """Remove those of the ``members`` that are candidates: they are not chosen again."""
        regions: dict[str | None, list[BookieInfo]] = {}
        for info in candidates.among(members):
            regions.setdefault(info.region, []).append(info)
        for region, gone in regions.items():
            if candidates.keeps_weights(region, gone):
                for info in gone:
                    self._remove(info)
            else:
                self._rebuild(region, candidates.without(region, gone))

    def keep(self, members: Sequence[Path | None]) -> None:
        """Note the copies of the members that stay, by index; then count the sizes of domains."""
        tree = self._tree
        for index, path in enumerate(members):
            if path is not None:
                leaf = self._leaf(path)
                tree.kept = added(tree.kept, tree.cost(leaf, index))
                tree.occupy(leaf, index)
        tree.sizes = tree.count_sizes() if self._is_rebuilt else self._changed_sizes()

    def undo(self) -> None:
        """Restore the tree."""
        for domain, state in self._before.items():
            domain.restore(state)
        self._tree.kept = NOTHING_SHARED
        self._tree.sizes = self._sizes

    def _remove(self, info: BookieInfo) -> None:
        domain = self._tree.leaf(info.path)
        self._touch(domain)
        weight = next(weight for known, weight in domain.bookies if known.bookie == info.bookie)
        domain.bookies = [entry for entry in domain.bookies if entry[0].bookie != info.bookie]
        firsts = [known.bookie for known, _ in domain.bookies]
        while (parent := domain.parent) is not None:
            self._touch(parent)
            domain.free -= 1
            domain.weight -= weight
            if domain.free == 0:
                parent.children = {
                    label: child for label, child in parent.children.items() if child is not domain
                }
            elif firsts[0] != domain.first:
                domain.first = firsts[0]
                if parent.parent is not None:  # regions are in the order of their names
                    parent.children = dict(
                        sorted(parent.children.items(), key=lambda item: item[1].first)
                    )
            firsts = [child.first for child in parent.children.values()]
            domain = parent

    def _changed_sizes(self) -> list[Counter[int]]:
        sizes = [Counter(level) for level in self._sizes]
        for domain, before in self._before.items():
            depth = len(domain.path) - 2
            if depth >= 0:
                sizes[depth][before.copies + before.free] -= 1
                sizes[depth][domain.copies + domain.free] += 1
        return sizes

    def _rebuild(self, region: str | None, bookies: Sequence[BookieInfo]) -> None:
        """Build a region anew, because other weights hold without the members."""
        root = self._tree.root
        self._touch(root)
        self._is_rebuilt = True
        order = list(root.children)
        root.children = {name: child for name, child in root.children.items() if name != region}
        if bookies:
            self._tree.add(bookies)
        root.children = {name: root.children[name] for name in order if name in root.children}

    def _leaf(self, path: Path) -> Domain:
        """Return the domain of a location that is going to be occupied; it may be a new one."""
        domain = self._tree.root
        for label in path:
            if label not in domain.children:
                self._touch(domain)
                domain.children = dict(domain.children)
            domain = domain.child(label)
            self._touch(domain)
        return domain

    def _touch(self, domain: Domain) -> None:
        if domain not in self._before:
            self._before[domain] = domain.save()

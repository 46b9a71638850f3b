"""The failure domains of the bookies that may be chosen, as a tree with one level per label.

The tree counts the bookies that are free, and remembers which write sets each domain is in. Taking
a bookie of a leaf for an ensemble index says at once how many copies then share a domain, because
a write set that a domain is in already gains no further domain by it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.placement import LEVELS, SPREAD_LEVELS, BookieInfo, Path
from ...core.protocol.quorum import Quorum
from .bookie_weights import bookie_weights

Shared = tuple[int, ...]
"""Copies that share a domain, for each of the levels below the region."""

NOTHING_SHARED: Shared = (0,) * len(SPREAD_LEVELS)


_NO_BOOKIE = BookieId("")


class DomainState(NamedTuple):
    """The changeable part of a domain, to restore it."""

    children: "dict[str | None, Domain]"
    bookies: list[tuple[BookieInfo, int]]
    first: BookieId
    free: int
    weight: int
    covered: int
    copies: int
    shape: tuple[object, ...] | None


class Domain:
    """A domain of one level: its free bookies, and the write sets that it is in, as a mask."""

    __slots__ = (
        "_shape",
        "bookies",
        "children",
        "copies",
        "covered",
        "first",
        "free",
        "parent",
        "path",
        "weight",
    )

    def __init__(self, parent: "Domain | None", path: Path) -> None:
        self.parent = parent
        self.path = path
        self.children: dict[str | None, Domain] = {}
        """By label, in the order of their first bookies."""
        self.bookies: list[tuple[BookieInfo, int]] = []
        self.first = _NO_BOOKIE
        """The lowest id of a free bookie."""
        self.free = 0
        self.weight = 0
        self.covered = 0
        self.copies = 0
        self._shape: tuple[object, ...] | None = None

    def save(self) -> DomainState:
        """Return the state for ``restore``, and forget the shape.

        ``children`` and ``bookies`` are replaced afterwards, never changed in place.
        """
        shape, self._shape = self._shape, None
        return DomainState(
            self.children,
            self.bookies,
            self.first,
            self.free,
            self.weight,
            self.covered,
            self.copies,
            shape,
        )

    def restore(self, state: DomainState) -> None:
        """Return to a state."""
        (
            self.children,
            self.bookies,
            self.first,
            self.free,
            self.weight,
            self.covered,
            self.copies,
            self._shape,
        ) = state

    def child(self, label: str | None) -> "Domain":
        """Return the domain of this label below this one; it is created if it does not exist."""
        found = self.children.get(label)
        if found is None:
            found = self.children[label] = Domain(self, (*self.path, label))
        return found

    def shape(self, size_max: int) -> tuple[object, ...]:
        """Return a value that is equal for unused domains in which nothing but labels differs.

        Call it before a bookie is taken, or for an unused domain; it is remembered.
        """
        if self._shape is None:
            if self.children:
                below = [child.shape(size_max) for child in self.children.values()]
                self._shape = tuple(sorted(below, key=repr))
            else:
                self._shape = (min(self.free, size_max),)
        return self._shape


class DomainTree:
    """The domains of all candidates, for one ensemble size and write quorum.

    ``TreeChanges`` adapts it to the members that stay, and back, so that one tree serves any number
    of choices, one at a time.
    """

    def __init__(self, quorum: Quorum, candidates: Sequence[BookieInfo]) -> None:
        """``candidates`` are sorted by id."""
        e, wq = quorum.ensemble_size, quorum.write_quorum
        self.quorum = quorum
        self.root = Domain(None, ())
        self.windows = [sum(1 << (index - back) % e for back in range(wq)) for index in range(e)]
        self.kept = NOTHING_SHARED
        """The copies of the members that stay which share a domain."""
        by_region: dict[str | None, list[BookieInfo]] = {}
        for info in candidates:
            by_region.setdefault(info.region, []).append(info)
        for region in sorted(by_region, key=str):
            self.add(by_region[region])
        self.sizes = self.count_sizes()
        """For each level below the region, how many domains have so many bookies or copies; never
        changed in place."""
        self._bounded: tuple[Shared, list[Counter[int]], Shared] | None = None
        """``kept`` and ``sizes``, and the bound that was computed from them."""

    def add(self, bookies: Sequence[BookieInfo]) -> None:
        """Add the bookies of a region that the tree does not have, sorted by id."""
        leaves: dict[Path, Domain] = {}
        for info, weight in zip(bookies, bookie_weights(bookies), strict=True):
            path = info.path
            leaf = leaves.get(path)
            if leaf is None:
                leaf = leaves[path] = self.leaf(path)
            leaf.bookies.append((info, weight))
        for leaf in leaves.values():
            free, weight = len(leaf.bookies), sum([weight for _, weight in leaf.bookies])
            domain = leaf
            first = leaf.bookies[0][0].bookie
            while domain.parent is not None:
                domain.free += free
                domain.weight += weight
                if domain.first is _NO_BOOKIE:
                    domain.first = first
                domain = domain.parent

    def leaf(self, path: Path) -> Domain:
        """Return the narrowest domain of a location."""
        domain = self.root
        for label in path:
            below = domain.children.get(label)
            domain = domain.child(label) if below is None else below
        return domain

    def cost(self, leaf: Domain, index: int) -> Shared:
        """Return how many more copies share a domain if the leaf occupies the index."""
        window = self.windows[index]
        found = []
        domain = leaf
        for _ in SPREAD_LEVELS:
            found.append((domain.covered & window).bit_count())
            assert domain.parent is not None
            domain = domain.parent
        return tuple(reversed(found))

    def take(self, leaf: Domain, index: int) -> tuple[int, ...]:
        """Take a bookie of the leaf for an index. Returns what ``give_back`` needs."""
        domain = leaf
        while domain.parent is not None:
            domain.free -= 1
            domain = domain.parent
        return self.occupy(leaf, index)

    def give_back(self, leaf: Domain, before: tuple[int, ...]) -> None:
        """Undo the last ``take``."""
        domain = leaf
        for covered in before:
            domain.covered = covered
            domain.copies -= 1
            domain.free += 1
            assert domain.parent is not None
            domain = domain.parent

    def occupy(self, leaf: Domain, index: int) -> tuple[int, ...]:
        """Note a copy of the leaf at an index. Returns the masks before, from the leaf upwards."""
        window = self.windows[index]
        before = []
        domain = leaf
        while domain.parent is not None:
            before.append(domain.covered)
            domain.covered |= window
            domain.copies += 1
            domain = domain.parent
        return tuple(before)

    def domain_counts(self) -> dict[str, int]:
        """Return the number of domains of each level, with those of members that stay."""
        found: dict[str, int] = {}
        domains = [self.root]
        for level in LEVELS:
            domains = [child for domain in domains for child in domain.children.values()]
            found[level] = len(domains)
        return found

    def contents(self) -> tuple[tuple[Path, int], ...]:
        """Return the locations and how many bookies there are at each, at most E."""
        e = self.quorum.ensemble_size
        level = [self.root]
        for _ in LEVELS:
            level = [child for domain in level for child in domain.children.values()]
        return tuple((leaf.path, min(len(leaf.bookies), e)) for leaf in level)

    def draw(self, paths: Sequence[Path | None], random: Random) -> list[BookieInfo | None]:
        """Draw a bookie at each location by weight, each at most once."""
        left: dict[Path, list[tuple[BookieInfo, int]]] = {}
        found: list[BookieInfo | None] = []
        for path in paths:
            if path is None:
                found.append(None)
                continue
            rest = left.get(path)
            if rest is None:
                rest = left[path] = list(self.leaf(path).bookies)
            weights = [weight for _, weight in rest]
            found.append(rest.pop(random.choices(range(len(rest)), weights)[0])[0])
        return found

    def close(self) -> None:
        """End the use of the tree: without the links upwards, no garbage collection is needed."""
        level = [self.root]
        for _ in LEVELS:
            level = [child for domain in level for child in domain.children.values()]
            for domain in level:
                domain.parent = None

    def count_sizes(self) -> list[Counter[int]]:
        """Return for each level below the region how many domains have so many bookies or copies.

        Taking a bookie does not change these numbers.
        """
        level = list(self.root.children.values())
        found = []
        for _ in SPREAD_LEVELS:
            level = [child for domain in level for child in domain.children.values()]
            found.append(Counter([domain.copies + domain.free for domain in level]))
        return found

    def bound(self) -> Shared:
        """Return a lower bound of the copies that share a domain, for each level.

        A domain with k copies is in at most min(E, k * WQ) write sets, and has at most as many
        copies as it has bookies.
        """
        known = self._bounded
        if known is None or known[0] is not self.kept or known[1] is not self.sizes:
            e, wq = self.quorum.ensemble_size, self.quorum.write_quorum
            fewest = [_fewest_shared(e, wq, level) for level in self.sizes]
            known = self.kept, self.sizes, tuple(map(max, self.kept, fewest))
            self._bounded = known
        return known[2]


def _fewest_shared(e: int, wq: int, sizes: Mapping[int, int]) -> int:
    """Spread E copies over domains of these sizes so that k * WQ exceeds E by the least sum.

    ``sizes`` is the number of domains by size.
    """
    free = e // wq  # copies of a domain that need not share a write set
    left = e - sum(min(size, free) * number for size, number in sizes.items())
    if left <= 0:
        return 0
    larger = sum(number for size, number in sizes.items() if size > free)
    return min(left, larger) * ((free + 1) * wq - e) + max(0, left - larger) * wq


def added(a: Shared, b: Shared) -> Shared:
    """Return the sum at each level."""
    return tuple(x + y for x, y in zip(a, b, strict=True))

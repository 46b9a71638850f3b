"""Members that are placed WQ indices apart, domain by domain, for E > WQ (rules PLC-15, PLC-28).

A copy lies in the WQ write sets that end at its index, so copies that are WQ apart cover the cycle
end to end. The members are sorted by region, zone, rack and host and take such indices in turn, so
the copies of each domain follow each other at every level, and no write set holds more than one
copy of a domain above the others.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import gcd
from random import Random

from ...core.protocol.placement import LEVELS, Path
from ..cyclic_order import stepped_places
from ..layout_rank import Layout
from .domain_tree import Domain, DomainTree


def stepped_paths(tree: DomainTree, layout: Layout, random: Random) -> Iterator[tuple[Path, ...]]:
    """Yield locations of members with as many copies in each region as in ``layout``.

    The copies of a region are divided evenly between its domains. The order of domains that hold
    equally many, and the index of the first member, are random. If E and WQ have a common divisor,
    the indices form several rounds: then the domains of one level that fill whole rounds come
    first, for each level.
    """
    counts = Counter(layout)
    sequence: list[Path] = []
    for name in _shuffled(counts, random):
        sequence += _divided(tree.root.children[name], counts[name], random)
    places = stepped_places(tree.quorum)
    e = len(places)
    turn = random.randrange(e)
    steps = e // gcd(e, tree.quorum.write_quorum)
    for depth in range(len(LEVELS) + 1 if steps < e else 1):
        found: list[Path] = [()] * e
        for place, path in zip(places, _whole_first(sequence, depth, steps), strict=True):
            found[(place + turn) % e] = path
        yield tuple(found)


def _whole_first(sequence: Sequence[Path], depth: int, steps: int) -> list[Path]:
    """Move as many copies of each domain to the front as fill whole rounds of ``steps``."""
    if depth == 0:
        return list(sequence)
    counts = Counter(path[:depth] for path in sequence)
    taken: Counter[Path] = Counter()
    whole: list[Path] = []
    rest: list[Path] = []
    for path in sequence:
        domain = path[:depth]
        taken[domain] += 1
        (whole if taken[domain] <= counts[domain] // steps * steps else rest).append(path)
    return [*whole, *rest]


def _shuffled(counts: Counter[str | None], random: Random) -> list[str | None]:
    """Return the names with the largest counts first."""
    return sorted(counts, key=lambda name: (-counts[name], random.random()))


def _divided(domain: Domain, count: int, random: Random) -> list[Path]:
    """Return ``count`` locations below a domain, evenly taken from those below it."""
    if not domain.children:
        return [domain.path] * count
    children = [child for child in domain.children.values() if child.free > 0]
    left = {child: random.random() ** (1 / child.weight) for child in children}
    order = sorted(left, key=left.__getitem__, reverse=True)  # a draw by weight without return
    copies = dict.fromkeys(order, 0)
    for _ in range(count):
        chosen = min((c for c in order if copies[c] < c.free), key=copies.__getitem__)
        copies[chosen] += 1
    order.sort(key=lambda child: -copies[child])
    return [path for child in order for path in _divided(child, copies[child], random)]

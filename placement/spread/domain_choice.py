"""The leaves of a domain tree that one index of an ensemble may take, best ones first (PLC-28)."""

from collections.abc import Collection, Iterator
from random import Random

from .domain_tree import Domain, DomainTree, Shared


def choices(
    tree: DomainTree, region: Domain, index: int, random: Random
) -> Iterator[tuple[Shared, Domain]]:
    """Yield leaves of a region with the copies that they share, the fewest first.

    Unused domains come before used ones; of equal ones, one is drawn by the weight of its bookies.
    Of unused domains that differ in nothing but their labels, only one is yielded. All are found
    only once the first one has been used in vain.
    """
    first = _in_unused(region, random)
    lineage: list[Domain] = []
    if first is not None:
        yield tree.cost(first, index), first
        lineage = _lineage(first)
    found = [
        (tree.cost(leaf, index), leaf.copies, random.random(), leaf)
        for leaf in _representatives(tree, region, lineage, random)
        if leaf is not first
    ]
    found.sort(key=lambda choice: choice[:3])
    for cost, _, _, leaf in found:
        yield cost, leaf


def _in_unused(domain: Domain, random: Random) -> Domain | None:
    """Return a leaf in an unused domain below this one; None if there is none."""
    while domain.children:
        unused = [c for c in domain.children.values() if c.copies == 0 and c.free > 0]
        if not unused:
            return None
        domain = random.choices(unused, [child.weight for child in unused])[0]
    return domain


def _lineage(leaf: Domain) -> list[Domain]:
    found = [leaf]
    while found[-1].parent is not None:
        found.append(found[-1].parent)
    return found


def _representatives(
    tree: DomainTree, domain: Domain, preferred: Collection[Domain], random: Random
) -> Iterator[Domain]:
    """Yield the leaves that have free bookies, one of those that are alike."""
    if not domain.children:
        yield domain
        return
    alike: dict[object, list[Domain]] = {}
    for child in domain.children.values():
        if child.free == 0:
            continue
        if child.copies:
            yield from _representatives(tree, child, preferred, random)
        else:
            alike.setdefault(child.shape(tree.quorum.ensemble_size), []).append(child)
    for group in alike.values():
        named = [child for child in group if child in preferred]
        chosen = named or random.choices(group, [child.weight for child in group])
        yield from _representatives(tree, chosen[0], preferred, random)

"""A tree that is kept and changed gives the choices of one that is built for each of them."""

from collections.abc import Sequence
from random import Random

import pytest

from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import NotEnoughBookiesError
from rhumbline.core.protocol.placement import BookieInfo, Path
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.placement.region_aware import RegionAwarePlacement
from rhumbline.placement.spread.domain_tree import Domain, DomainTree, added
from rhumbline.placement.spread.known_candidates import KnownCandidates
from rhumbline.placement.spread.tree_changes import TreeChanges

QUORUMS = (Quorum(3, 3, 2, 2), Quorum(5, 5, 3, 2), Quorum(4, 2, 2, 2), Quorum(6, 3, 2, 2))


def some_bookies(random: Random) -> list[BookieInfo]:
    sizes = random.choice([(1000,), (0, 1, 5), (1000, 2000, 50_000), tuple(range(0, 9000, 7))])
    count = random.randint(3, 40)
    return [
        BookieInfo(
            BookieId(f"b{random.randrange(10**6)}-{number}@00000001"),
            Region(f"r{random.randrange(4)}"),
            random.choice([None, "rack-1", "rack-2", "rack-3"]),
            random.choice(sizes),
            None,
            f"host-{random.randrange(count)}",
            random.choice([100, 100, 6]),
        )
        for number in range(count)
    ]


def contents(domain: Domain) -> tuple[object, ...]:
    """All that a search sees of a domain, in the order in which it sees it."""
    below = [(label, contents(child)) for label, child in domain.children.items()]
    state = domain.free, domain.weight, domain.covered, domain.copies, domain.bookies
    return (domain.path, *(() if domain.path == () else state), below)


def built_without(
    quorum: Quorum, known: Sequence[BookieInfo], gone: set[BookieId], kept: Sequence[Path | None]
) -> DomainTree:
    tree = DomainTree(quorum, sorted([i for i in known if i.bookie not in gone], key=by_id))
    for index, path in enumerate(kept):
        if path is not None:
            leaf = tree.leaf(path)
            tree.kept = added(tree.kept, tree.cost(leaf, index))
            tree.occupy(leaf, index)
    tree.sizes = tree.count_sizes()
    return tree


def by_id(info: BookieInfo) -> str:
    return info.bookie


@pytest.mark.parametrize("number", range(60))
def test_a_changed_tree_equals_one_built_without_the_members(number: int) -> None:
    random = Random(number)
    known = some_bookies(random)
    quorum = random.choice(QUORUMS)
    candidates = KnownCandidates(known)
    tree = candidates.tree(quorum)
    pristine, bound = contents(tree.root), tree.bound()
    for _ in range(5):
        size = min(quorum.ensemble_size, len(known))
        members = random.sample(known, size)
        kept = [info.path if random.random() < 0.6 else None for info in members]
        if random.random() < 0.3:
            kept[0] = (Region("elsewhere"), None, None, "host-0")
        changes = TreeChanges(tree)
        changes.remove([info.bookie for info in members], candidates)
        changes.keep(kept)
        fresh = built_without(quorum, known, {info.bookie for info in members}, kept)
        assert contents(tree.root) == contents(fresh.root)
        assert (tree.kept, tree.bound()) == (fresh.kept, fresh.bound())
        changes.undo()
        assert contents(tree.root) == pristine
        assert tree.bound() == bound
    assert candidates.tree(quorum) is tree


@pytest.mark.parametrize("number", range(20))
def test_earlier_choices_do_not_change_the_next_one(number: int) -> None:
    random = Random(number)
    known = some_bookies(random)
    quorum, used = QUORUMS[0], RegionAwarePlacement()
    for step in range(6):
        outcomes: list[tuple[object, ...]] = []
        for policy in (used, RegionAwarePlacement()):
            seeded = Random(step)
            try:
                chosen = policy.new_ensemble(quorum, known, random=seeded)
                ensemble = [next(i for i in known if i.bookie == b) for b in chosen]
                after = policy.replace(quorum, ensemble, [step % 3], known, random=seeded)
                outcomes.append((chosen, after, seeded.random()))
            except NotEnoughBookiesError as error:
                outcomes.append((str(error),))
        assert outcomes[0] == outcomes[1]

"""Members share no zone, rack or host in a write set if an equally good ensemble does not."""

from collections import Counter
from random import Random

import pytest

from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import NotEnoughBookiesError
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.placement.region_aware import RegionAwarePlacement
from rhumbline.tests.support.spread_brute_force import Contest, Path, full_rank

SEARCHES_MAX = 200

SLOW = 10_575
"""The brute force takes minutes for this topology (and finds nothing better)."""


def random_quorum(random: Random, size_max: int) -> Quorum:
    e = random.randint(min(2, size_max), size_max)
    wq = random.choice([e, random.randint(1, e), min(e, 3), min(e, 2)])
    aq = random.randint(1, wq)
    return Quorum(e, wq, aq, random.choice([1, 1, random.randint(1, min(aq, 3))]))


def random_bookies(random: Random, locations_max: int) -> list[BookieInfo]:
    """Return bookies that differ in racks, and sometimes in zones, hosts or regions."""
    regions = random.choice(["a", "a", "ab", "abc"])
    has_zones, has_hosts = random.random() < 0.3, random.random() < 0.3
    places: list[Path] = []
    for region in regions:
        for zone in range(random.randint(1, 2) if has_zones else 1):
            for rack in range(random.randint(1, 5 - len(regions))):
                for host in range(random.randint(1, 2) if has_hosts else 1):
                    places.append((region, f"z{zone}", f"r{rack}", f"h{host}"))
    random.shuffle(places)
    return [
        BookieInfo(
            BookieId(f"b{index}-{number}@00000001"), Region(str(region)), rack, 1000, zone, host
        )
        for index, (region, zone, rack, host) in enumerate(places[:locations_max])
        for number in range(random.choice([1, 2, 3, 3]))
    ]


def check_new(seed: int, size_max: int, locations_max: int) -> None:
    random = Random(seed)
    quorum = random_quorum(random, size_max)
    known = random_bookies(random, locations_max)
    near = random.choice([None, Region("a")])
    policy = RegionAwarePlacement()
    paths = {info.bookie: info.path for info in known}
    found = None
    try:
        for _ in range(SEARCHES_MAX):  # each choice continues the search, exhausted or not
            before = policy.inexact_searches
            chosen = policy.new_ensemble(quorum, known, random=random, near=near)
            assert len(set(chosen)) == quorum.ensemble_size
            found = full_rank(quorum, [paths[bookie] for bookie in chosen], near)
            assert found is not None
            if policy.inexact_searches == before:
                break
    except NotEnoughBookiesError:
        pass
    better = Contest(quorum, Counter(paths.values()), near).better_than(found)
    assert better is None, (seed, quorum, near, found, better)


def check_replaced(seed: int, size_max: int, locations_max: int) -> None:
    random = Random(seed)
    quorum = random_quorum(random, size_max)
    known = random_bookies(random, locations_max)
    random.shuffle(known)
    ensemble, spare = known[: quorum.ensemble_size], known[quorum.ensemble_size :]
    if len(ensemble) < quorum.ensemble_size:
        return
    failed = sorted(random.sample(range(len(ensemble)), random.randint(1, min(3, len(ensemble)))))
    policy = RegionAwarePlacement()
    paths = {info.bookie: info.path for info in known}
    former = {index: ensemble[index].region for index in failed}
    found = None
    try:
        chosen = policy.replace(quorum, ensemble, failed, spare, random=random)
        assert len(set(chosen)) == quorum.ensemble_size
        assert all(chosen[i] == m.bookie for i, m in enumerate(ensemble) if i not in failed)
        found = full_rank(quorum, [paths[bookie] for bookie in chosen], None, former)
        assert found is not None
    except NotEnoughBookiesError:
        pass
    kept = [None if i in failed else info.path for i, info in enumerate(ensemble)]
    sizes = Counter(info.path for info in spare)
    better = Contest(quorum, sizes, None, kept, former).better_than(found)
    if quorum.ensemble_size == quorum.write_quorum and better is not None and found is not None:
        better = None if better[:8] == found[:8] else better
    assert better is None, (seed, found, better)


@pytest.mark.parametrize("number", range(150))
def test_a_new_ensemble_is_the_best_by_brute_force(number: int) -> None:
    check_new(number, 6, 5)


@pytest.mark.parametrize("number", range(150))
def test_a_replacement_is_the_best_by_brute_force(number: int) -> None:
    check_replaced(number, 6, 6)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 1200, 50))
def test_new_ensembles_of_nine_are_the_best_by_brute_force(first: int) -> None:
    for seed in range(10_000 + first, 10_000 + first + 50):
        if seed != SLOW:
            check_new(seed, 9, 6)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 1200, 100))
def test_replacements_in_nine_are_the_best_by_brute_force(first: int) -> None:
    for seed in range(first, first + 100):
        check_replaced(20_000 + seed, 9, 7)

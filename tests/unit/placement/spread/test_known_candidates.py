"""What is derived from candidates once equals what is derived for each choice."""

from random import Random

import pytest

from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.placement import BookieInfo, crowded_levels
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.placement.spread.bookie_weights import bookie_weights
from rhumbline.placement.spread.known_candidates import CandidateCache, KnownCandidates
from rhumbline.tests.unit.placement.spread.test_tree_changes import some_bookies

QUORUM = Quorum(3, 3, 2)


@pytest.mark.parametrize("number", range(40))
def test_the_crowded_levels_are_those_of_the_definition(number: int) -> None:
    random = Random(number)
    bookies = some_bookies(random)
    members = [info.path for info in random.sample(bookies, 3)]
    known = random.sample(bookies, random.randint(1, len(bookies)))
    expected = crowded_levels(QUORUM, members, [info.path for info in known])
    assert KnownCandidates(known).crowded_levels(QUORUM, members) == expected


@pytest.mark.parametrize("number", range(40))
def test_weights_that_change_without_members_are_noticed(number: int) -> None:
    random = Random(number)
    bookies = some_bookies(random)
    candidates = KnownCandidates(bookies)
    region = bookies[0].region
    there = [info for info in candidates.by_id if info.region == region]
    gone = random.sample(there, random.randint(1, len(there)))
    left = candidates.without(region, gone)
    before = dict(zip(there, bookie_weights(there), strict=True))
    if left and candidates.keeps_weights(region, gone):
        assert bookie_weights(left) == [before[info] for info in left]
    counts = candidates.counts_without([info.bookie for info in gone])
    assert counts.get(region, 0) == len(left)


def test_the_cache_knows_equal_candidates_and_forgets_the_oldest() -> None:
    cache = CandidateCache()
    sets = [[BookieInfo(BookieId(f"b{n}@00000001"), Region("a"), None, n)] for n in range(5)]
    first = cache.find(sets[0])
    assert cache.find(list(sets[0])) is first
    for several in sets[1:4]:
        cache.find(several)
    assert cache.find(sets[0]) is first
    cache.find(sets[4])
    assert cache.find(sets[0]) is first
    assert cache.find(sets[1]).counts == {"a": 1}

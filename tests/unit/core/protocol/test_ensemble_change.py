"""Members to replace are chosen as brute force would, without trying every subset."""

from collections import Counter
from itertools import combinations, product
from random import Random

import pytest

from rhumbline.core.protocol.ensemble_change import (
    fewest_replacements,
    is_replaceable,
    largest_replacements,
)
from rhumbline.core.protocol.quorum import Quorum, QuorumView

Spare = dict[str | None, int]


def has_replacement(
    quorum: Quorum, regions: list[str | None], chosen: tuple[int, ...], spare: Spare
) -> bool:
    """Try every assignment of spare bookies to the chosen indices."""
    for picked in product(spare, repeat=len(chosen)):
        if any(count > spare[name] for name, count in Counter(picked).items()):
            continue
        after = list(regions)
        for index, name in zip(chosen, picked, strict=True):
            after[index] = name
        if QuorumView(quorum, after).is_legal():
            return True
    return False


def random_case(random: Random, size_max: int) -> tuple[Quorum, list[str | None], Spare]:
    e = random.randint(1, size_max)
    wq = random.choice([e, random.randint(1, e)])
    aq = random.randint(1, wq)
    quorum = Quorum(e, wq, aq, random.randint(1, min(aq, 3)))
    regions = [random.choice(["a", "b", "c", None]) for _ in range(e)]
    return quorum, regions, {name: random.randint(0, 2) for name in ("a", "b", "d")}


def test_the_first_replaceable_set_is_that_of_a_search_through_all_subsets() -> None:
    random = Random(1)
    for _ in range(400):
        quorum, regions, spare = random_case(random, 5)
        wanted = random.getrandbits(quorum.ensemble_size)
        indices = [i for i in range(quorum.ensemble_size) if wanted >> i & 1]
        subsets = [s for n in range(len(indices), 0, -1) for s in combinations(indices, n)]
        expected = [s for s in subsets if has_replacement(quorum, regions, s, spare)]
        offered = list(largest_replacements(quorum, regions, wanted, spare))
        assert [s for s in offered if has_replacement(quorum, regions, s, spare)] == expected
        if quorum.ensemble_size == quorum.write_quorum:
            assert offered == expected, "no search in vain"


def test_the_fewest_members_that_make_an_ensemble_legal_are_offered_first() -> None:
    random = Random(2)
    for _ in range(200):
        quorum, regions, spare = random_case(random, 5)
        indices = range(quorum.ensemble_size)
        subsets = [
            s for n in range(1, len(regions) + 1) for s in reversed(list(combinations(indices, n)))
        ]
        expected = [s for s in subsets if has_replacement(quorum, regions, s, spare)]
        offered = fewest_replacements(quorum, regions, spare)
        assert [s for s in offered if has_replacement(quorum, regions, s, spare)] == expected


def test_as_many_of_many_failed_members_are_replaced_as_brute_force_can() -> None:
    """Above the bound, one set of each size is offered; for E = WQ the largest one is the best."""
    random = Random(3)
    for _ in range(60):
        regions: list[str | None] = [random.choice(["a", "b", "c", None]) for _ in range(9)]
        quorum = Quorum(9, 9, 5, random.randint(1, 4))
        spare: Spare = {name: random.randint(0, 3) for name in ("a", "d")}
        failed = random.sample(range(9), 7)
        wanted = sum(1 << index for index in failed)
        most = max(
            (
                size
                for size in range(1, 8)
                if any(
                    is_replaceable(quorum, regions, chosen, spare)
                    for chosen in combinations(failed, size)
                )
            ),
            default=0,
        )
        offered = list(largest_replacements(quorum, regions, wanted, spare))
        assert max(map(len, offered), default=0) == most
        assert all(has_replacement(quorum, regions, s, spare) for s in offered[:1])


@pytest.mark.parametrize("members", [7, 8])
def test_a_large_ensemble_becomes_legal_by_as_few_members_as_possible(members: int) -> None:
    random = Random(4)
    for _ in range(60):
        regions: list[str | None] = [random.choice(["a", "b", None]) for _ in range(members)]
        quorum = Quorum(members, members, 5, random.randint(2, 5))
        spare: Spare = {name: random.randint(0, 2) for name in ("a", "c", "d")}
        fewest = next(
            (
                size
                for size in range(1, members + 1)
                for chosen in combinations(range(members), size)
                if is_replaceable(quorum, regions, chosen, spare)
            ),
            0,
        )
        offered = next(fewest_replacements(quorum, regions, spare), ())
        assert len(offered) == max(fewest, 1 if offered else 0)


def test_many_failed_members_without_a_spare_bookie_cost_no_search() -> None:
    """Every one of the 65,535 subsets used to be searched twice: 2.7 s of the event loop."""
    regions: list[str | None] = [f"r{index % 10}" for index in range(48)]
    for quorum in (Quorum(48, 48, 25, 3), Quorum(48, 16, 9, 3)):
        assert list(largest_replacements(quorum, regions, (1 << 16) - 1, {})) == []
        assert list(fewest_replacements(quorum, regions, {})) == []


def test_the_number_of_sets_grows_with_the_members_only() -> None:
    regions: list[str | None] = [f"r{index % 10}" for index in range(64)]
    everyone = (1 << 64) - 1
    for quorum in (Quorum(64, 64, 33, 5), Quorum(64, 16, 9, 5), Quorum(64, 3, 3, 3)):
        spare: Spare = {"r0": 50, "r1": 1}
        assert len(list(largest_replacements(quorum, regions, everyone, spare))) <= 2 * 64
        assert len(list(fewest_replacements(quorum, regions, {"r0": 3, "r1": 3}))) <= 64

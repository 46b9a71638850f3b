"""Members to replace are chosen as brute force would, without trying every subset."""

from collections import Counter
from itertools import combinations, product
from random import Random

import pytest

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.ensemble_change import (
    FRAGMENTS_MAX,
    METADATA_BYTES_MAX,
    ConflictOutcome,
    changed_ensemble,
    fewest_replacements,
    is_replaceable,
    largest_replacements,
    replaced_indices,
    resolve_conflict,
)
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
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


A, B, C, D = (BookieId(f"{name}@0000000{i}") for i, name in enumerate("abcd"))


def test_replaced_indices_are_those_that_name_another_bookie() -> None:
    assert replaced_indices((A, B, C), (A, D, C)) == (1,)
    assert replaced_indices((A, B, C), (D, B, A)) == (0, 2)
    assert replaced_indices((A, B, C), (A, B, C)) == ()


def test_a_conflict_is_retried_while_any_failed_bookie_is_at_its_index() -> None:
    mine = LedgerMetadata(7, 3, 3, 2, (Fragment(0, (A, B, C)),))
    stored = mine.with_bookies_of(0, (D, B, C))
    assert resolve_conflict(mine, stored, {0: A, 1: B}) is ConflictOutcome.RETRY
    assert resolve_conflict(mine, stored, {0: A}) is ConflictOutcome.SETTLED
    assert resolve_conflict(mine, stored, {1: A, 2: B}) is ConflictOutcome.SETTLED


def test_an_empty_ledger_changes_its_first_ensemble() -> None:
    mine = LedgerMetadata(7, 3, 3, 2, (Fragment(0, (A, B, C)),))
    changed = changed_ensemble(mine, last_add_confirmed=-1, bookies=(A, B, D))
    assert changed.fragments == (Fragment(0, (A, B, D)),)
    with pytest.raises(AssertionError, match="live writer"):
        changed_ensemble(mine.in_recovery(), last_add_confirmed=-1, bookies=(A, B, D))


def test_six_members_are_searched_completely_and_seven_are_not() -> None:
    """The bound: 2^6 subsets of six members, but one set of each size of seven."""
    for size, count in ((6, 63), (7, 6 + 7)):
        quorum, regions = Quorum(size, size, 1, 1), ["a"] * size
        wanted = (1 << size) - 1
        assert len(list(largest_replacements(quorum, regions, wanted, {"a": size}))) == count
    for size, count in ((6, 63), (7, 7)):
        quorum, regions = Quorum(size, size, 1, 1), ["a"] * size
        assert len(list(fewest_replacements(quorum, regions, {"a": size}))) == count


def test_fewer_spare_bookies_limit_the_size_of_a_replacement() -> None:
    for size in (4, 8):
        quorum, regions = Quorum(size, size, 1, 1), ["a"] * size
        wanted = (1 << size) - 1
        offered = list(largest_replacements(quorum, regions, wanted, {"a": 1, "b": 1}))
        assert max(map(len, offered)) == 2
        assert {len(chosen) for chosen in offered} == {1, 2}
        assert not is_replaceable(quorum, regions, (0, 1, 2), {"a": 2})
        assert is_replaceable(quorum, regions, (0, 1), {"a": 2})


def test_members_whose_region_keeps_another_one_are_replaced_first() -> None:
    """Index 5 is alone in a region that has a spare bookie; the last of "a" and 6 have none."""
    regions: list[str | None] = ["a", "a", "a", None, "a", "c", "b"]
    quorum = Quorum(7, 7, 4, 3)
    offered = list(largest_replacements(quorum, regions, 0b1111111, {"c": 1, "d": 4}))
    assert offered[0] == (0, 1, 2, 3, 5)
    singles = [chosen for chosen in offered if len(chosen) == 1]
    assert singles == [(0,), (1,), (2,), (3,), (5,), (4,), (6,)]


def test_limits_of_metadata_are_those_of_the_specification() -> None:
    assert (FRAGMENTS_MAX, METADATA_BYTES_MAX) == (64, 32_768)


def total_shortage(
    quorum: Quorum, regions: list[str | None], chosen: set[int], spare: Spare
) -> int:
    """Sum, over the write sets, the regions that each lacks once ``chosen`` are replaced."""
    total = 0
    for start in range(quorum.ensemble_size):
        members = set(quorum.write_set(start))
        kept = {regions[i] for i in members - chosen} - {None}
        new = {name for name, count in spare.items() if count > 0 and name is not None} - kept
        total += max(0, quorum.min_regions - len(kept) - min(len(new), len(members & chosen)))
    return total


def test_each_further_member_is_the_one_that_leaves_the_least_shortage() -> None:
    random = Random(5)
    for _ in range(60):
        wq = random.randint(2, 5)
        quorum = Quorum(8, wq, wq, random.randint(2, min(wq, 4)))
        regions: list[str | None] = [random.choice(["a", "b", None]) for _ in range(8)]
        spare: Spare = {name: random.randint(0, 3) for name in ("a", "c", "d")}
        chosen: set[int] = set()
        expected = []
        for _ in range(min(8, sum(spare.values()))):
            left = [index for index in range(8) if index not in chosen]
            shortage = {i: total_shortage(quorum, regions, chosen | {i}, spare) for i in left}
            best = min(left, key=shortage.__getitem__)
            chosen.add(best)
            if shortage[best] == 0:
                expected.append(tuple(sorted(chosen)))
        assert list(fewest_replacements(quorum, regions, spare)) == expected

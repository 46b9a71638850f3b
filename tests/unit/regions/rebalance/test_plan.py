"""Tests of plans to rebalance: shares become even, and no copy gets a weaker place."""

from random import Random

import pytest

from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.regions.rebalance.plan import (
    BookieFill,
    Move,
    RebalancePlan,
    SettledCopies,
)

GIB = 1 << 30
GEO = Quorum(3, 3, 2, 2)


def bookie(name: str, region: str, rack: str | None = None) -> BookieInfo:
    return BookieInfo(BookieId(f"{name}@0000000a"), Region(region), rack)


def copies(ledger_id: int, members: list[BookieInfo], size: int = GIB) -> SettledCopies:
    return SettledCopies(ledger_id, 0, Quorum(len(members), len(members), 2), tuple(members), size)


A1, A2, B1, B2, C1 = (bookie(n, n[0]) for n in ("a1", "a2", "b1", "b2", "c1"))


def fills(
    used: dict[str, int], everyone: tuple[BookieInfo, ...] = (A1, A2, B1, B2, C1)
) -> list[BookieFill]:
    return [BookieFill(info, used.get(info.bookie[:2], 0) * GIB, 100 * GIB) for info in everyone]


def test_new_bookies_get_half_of_the_copies_of_their_region() -> None:
    plan = RebalancePlan(fills({"a1": 20, "b1": 20, "c1": 20}), 10)
    moves = [move for n in range(20) for move in plan.moves_of(copies(n, [A1, B1, C1]))]
    assert {(move.source[:2], move.target[:2]) for move in moves} == {("a1", "a2"), ("b1", "b2")}
    assert plan.used_bytes[A1.bookie] in (10 * GIB, 11 * GIB)
    assert plan.used_bytes[A2.bookie] == 20 * GIB - plan.used_bytes[A1.bookie]
    assert plan.used_bytes[C1.bookie] == 20 * GIB
    assert moves[0] == Move(0, 0, 0, A1.bookie, A2.bookie, GIB)


def test_balanced_bookies_within_the_tolerance_stay() -> None:
    plan = RebalancePlan(fills({"a1": 21, "a2": 19, "b1": 20, "b2": 20, "c1": 5}), 10)
    assert [plan.moves_of(copies(n, [A1, B1, C1])) for n in range(20)] == [[]] * 20


def test_shares_count_and_not_bytes() -> None:
    small, large = bookie("s", "a"), bookie("l", "a")
    plan = RebalancePlan(
        [BookieFill(small, 10 * GIB, 20 * GIB), BookieFill(large, 10 * GIB, 180 * GIB)], 10
    )
    for number in range(10):
        plan.moves_of(copies(number, [small, B1]))
    assert plan.used_bytes[small.bookie] == 2 * GIB


def test_a_copy_that_is_too_large_for_the_target_stays() -> None:
    plan = RebalancePlan(fills({"a1": 20, "a2": 10}), 10)
    assert plan.moves_of(copies(1, [A1, B1, C1], 10 * GIB)) == []
    assert len(plan.moves_of(copies(1, [A1, B1, C1], 5 * GIB))) == 1


def test_unknown_bookies_are_neither_source_nor_target() -> None:
    other = bookie("x", "a")
    plan = RebalancePlan([BookieFill(A1, 20 * GIB, 100 * GIB), BookieFill(A2, 0, 0)], 10)
    assert plan.moves_of(copies(1, [other, A1])) == []


def test_members_and_bookies_of_shared_racks_are_no_targets() -> None:
    left, right, new = bookie("l", "a", "r1"), bookie("r", "a", "r2"), bookie("n", "a", "r2")
    sizes = [
        BookieFill(left, 20 * GIB, 100 * GIB),
        BookieFill(right, 20 * GIB, 100 * GIB),
        BookieFill(new, 0, 100 * GIB),
    ]
    (move,) = RebalancePlan(sizes, 10).moves_of(copies(1, [left, right]))
    assert (move.source, move.target) == (right.bookie, new.bookie)


@pytest.mark.parametrize("number", range(30))
def test_plans_end_and_weaken_nothing(number: int) -> None:
    random = Random(number)
    everyone = [
        bookie(f"{region}{n}", region, f"r{random.randrange(3)}")
        for region in "abc"
        for n in range(random.randint(2, 5))
    ]
    every: list[SettledCopies] = []
    for ledger_id in range(60):
        quorum = random.choice((GEO, Quorum(4, 3, 2, 2), Quorum(2, 2, 2, 1)))
        members = random.sample(everyone[: len(everyone) - 2], quorum.ensemble_size)
        size = random.randint(1, 10) * GIB
        every.append(SettledCopies(ledger_id, 0, quorum, tuple(members), size))
    for _ in range(20):
        used = {info.bookie: 0 for info in everyone}
        for found in every:
            for member in found.members:
                used[member.bookie] += found.bytes_each
        sizes = [BookieFill(info, used[info.bookie], 500 * GIB) for info in everyone]
        plan = RebalancePlan(sizes, 5)
        worst = max(used.values())
        count = 0
        after: list[SettledCopies] = []
        for found in every:
            members = list(found.members)
            for move in plan.moves_of(found):
                count += 1
                assert members[move.index].bookie == move.source
                target = next(info for info in everyone if info.bookie == move.target)
                members[move.index] = target
            assert len({info.bookie for info in members}) == len(members)
            regions = [info.region for info in found.members]
            assert [info.region for info in members] == regions
            assert (
                QuorumView(found.quorum, regions).is_legal()
                == QuorumView(found.quorum, [info.region for info in members]).is_legal()
            )
            after.append(
                SettledCopies(found.ledger_id, 0, found.quorum, tuple(members), found.bytes_each)
            )
        assert max(plan.used_bytes.values()) <= worst
        every = after
        if not count:
            break
    else:
        raise AssertionError("the plans do not end")

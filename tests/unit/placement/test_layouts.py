"""Searches for layouts find the best rank by brute force, in bounded time."""

from collections import Counter
from itertools import product
from random import Random
from time import process_time

import pytest

from rhumbline.core.protocol.quorum import Quorum
from rhumbline.placement.layout_rank import Layout, Rank, level_bound, rank
from rhumbline.placement.layouts import EQUAL_MAX, best_layouts
from rhumbline.placement.region_counts import CountSpace
from rhumbline.placement.search_budget import OFFLINE_STEPS_MAX

Counts = dict[str | None, int]
TEN = [f"r{index}" for index in range(10)]


def random_quorum(random: Random, size_max: int) -> Quorum:
    e = random.randint(1, size_max)
    wq = random.randint(1, e)
    aq = random.randint(1, wq)
    return Quorum(e, wq, aq, random.randint(1, min(aq, 4)))


def by_brute_force(quorum: Quorum, available: Counts, near: str | None) -> dict[Layout, Rank]:
    """Return all layouts of the best rank."""
    found: dict[Layout, Rank] = {}
    for layout in product(available, repeat=quorum.ensemble_size):
        if any(count > available[name] for name, count in Counter(layout).items()):
            continue
        value = rank(quorum, layout, near)
        if value is not None:
            found[layout] = value
    best = min(found.values(), default=None)
    return {layout: value for layout, value in found.items() if value == best}


def counts_of(layout: Layout) -> frozenset[tuple[str | None, int]]:
    return frozenset(Counter(layout).items())


def test_the_layouts_are_one_for_each_count_vector_of_the_best_rank() -> None:
    random = Random(1)
    for _ in range(200):
        quorum = random_quorum(random, 5)
        available: Counts = {name: random.randint(0, 6) for name in "abcd"[: random.randint(1, 4)]}
        if random.random() < 0.2:
            available[None] = random.randint(0, 6)
        near = random.choice([None, "a", "elsewhere"])
        expected = by_brute_force(quorum, available, near)
        found = best_layouts(quorum, available, near)
        assert found.is_exhaustive
        assert len(set(map(counts_of, found))) == len(found)
        assert set(map(counts_of, found)) == set(map(counts_of, expected))
        assert all(layout in expected for layout in found)


def test_a_search_that_took_22_seconds_is_short() -> None:
    """It used to try 20,000 orders for each of hundreds of counts that cannot be sturdy."""
    quorum = Quorum(10, 6, 5, 5)
    began = process_time()
    found = best_layouts(quorum, dict(zip("abcde", (6, 6, 2, 3, 4), strict=True)), None)
    assert process_time() - began < 0.1
    assert found.is_exhaustive
    assert rank(quorum, found[0], None) == (1, 1, -5, 0, 0)


@pytest.mark.parametrize("wq", [3, 5, 7, 8, 12, 16, 31, 32, 48, 63, 64])
def test_large_ensembles_are_placed_in_bounded_time(wq: int) -> None:
    """The bound on an event loop is 5 ms; the test allows a slow machine ten times as much."""
    random = Random(wq)
    for _ in range(12):
        aq = random.randint(1, wq)
        quorum = Quorum(64, wq, aq, random.randint(1, min(aq, 10)))
        sizes = random.choice([[100], [1, 5, 20, 50], [6, 7, 8, 40]])
        available: Counts = {name: random.choice(sizes) for name in TEN}
        took = []
        for _ in range(3):
            began = process_time()
            found = best_layouts(quorum, available, "r1")
            layouts = list(found[:1])
            took.append(process_time() - began)
        assert min(took) < 0.05, (quorum, available)
        for layout in layouts:
            assert rank(quorum, layout, None) is not None
            assert all(count <= available[name] for name, count in Counter(layout).items())
        assert len(found) <= EQUAL_MAX


@pytest.mark.parametrize("quorum", [Quorum(63, 16, 12, 7), Quorum(64, 16, 9, 7), Quorum(60, 7, 5)])
def test_a_legal_layout_is_found_wherever_the_counts_permit_one(quorum: Quorum) -> None:
    """If E and WQ have no common divisor, or WQ divides E, the bound by counts is reached."""
    random = Random(1)
    for _ in range(20):
        available: Counts = {name: random.choice([1, 2, 5, 10, 50]) for name in TEN}
        found = best_layouts(quorum, available, None)
        for layout in found[:1]:
            counts = [layout.count(name) for name in TEN]
            level = rank(quorum, layout, None)
            assert level is not None
            assert level[0] == (level_bound(quorum, counts) or (1,))[0]
        if not found:
            space = CountSpace(quorum, (0,) * 10, tuple(available.values()), (0, 0))
            assert space.rank_bounds() == []


def test_a_search_that_runs_out_of_steps_says_so_and_is_legal() -> None:
    random = Random(7)
    cut = 0
    for _ in range(30):
        wq = random.randint(6, 9)
        quorum = Quorum(12, wq, random.randint(5, wq), random.randint(2, 5))
        available: Counts = {name: random.choice([1, 2, 3, 5]) for name in "abcdef"}
        short = best_layouts(quorum, available, None, steps_max=1)
        full = best_layouts(quorum, available, None, OFFLINE_STEPS_MAX)
        cut += not short.is_exhaustive
        assert bool(short) <= bool(full)
        if short:
            shorter, longer = rank(quorum, short[0], None), rank(quorum, full[0], None)
            assert shorter is not None
            assert longer is not None
            assert longer <= shorter
            assert not short.is_exhaustive or shorter == longer
    assert cut > 5


def test_many_equal_layouts_are_reduced_to_one_turn_for_each_region() -> None:
    """Of C(20, 10) choices of ten regions, twenty are offered, in which each has an equal share."""
    found = best_layouts(Quorum(10, 10, 6), {f"r{n:02}": 3 for n in range(20)}, None)
    assert len(found) == 20
    shares = Counter(name for layout in found for name in layout)
    assert set(shares.values()) == {10}

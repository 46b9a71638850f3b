"""Searches for replacements find the best completions by brute force, in bounded time."""

from collections import Counter
from itertools import product
from random import Random
from time import process_time

import pytest

from rhumbline.core.protocol.quorum import Quorum
from rhumbline.placement.completions import best_completions
from rhumbline.placement.layout_rank import Layout, rank
from rhumbline.placement.layouts import EQUAL_MAX, best_layouts

TEN = [f"r{index}" for index in range(10)]


def by_brute_force(
    quorum: Quorum, fixed: list[str | None], vacant: list[int], available: dict[str | None, int]
) -> list[Layout]:
    """Return the best completions; if E = WQ, one for each choice of regions, given by name."""
    found: dict[Layout, tuple[int, ...]] = {}
    for choice in product(sorted(available, key=str), repeat=len(vacant)):
        if any(count > available[name] for name, count in Counter(choice).items()):
            continue
        if quorum.ensemble_size == quorum.write_quorum and list(choice) != sorted(choice, key=str):
            continue
        layout = list(fixed)
        for index, name in zip(vacant, choice, strict=True):
            layout[index] = name
        value = rank(quorum, layout, None)
        if value is not None:
            moved = sum(1 for index in vacant if layout[index] != fixed[index])
            found[tuple(layout)] = *value, moved
    best = min(found.values(), default=None)
    return [layout for layout, value in found.items() if value == best]


def test_the_completions_are_those_of_brute_force_in_the_same_order() -> None:
    random = Random(1)
    for _ in range(500):
        e = random.randint(1, 7)
        wq = random.choice([e, random.randint(1, e)])
        aq = random.randint(1, wq)
        quorum = Quorum(e, wq, aq, random.randint(1, min(aq, 4)))
        names = ["a", "b", "c", "d", None][: random.randint(1, 5)]
        fixed = [random.choice(names) for _ in range(e)]
        vacant = sorted(random.sample(range(e), random.randint(1, min(3, e))))
        available = {name: random.randint(0, 3) for name in names}
        found = best_completions(quorum, fixed, vacant, available)
        assert found.is_exhaustive
        assert list(found) == by_brute_force(quorum, fixed, vacant, available)


@pytest.mark.parametrize("wq", [3, 5, 12, 16, 32, 63, 64])
def test_sixteen_of_64_members_are_replaced_in_bounded_time(wq: int) -> None:
    """The bound on an event loop is 5 ms; the test allows a slow machine ten times as much."""
    random = Random(wq)
    quorum = Quorum(64, wq, wq // 2 + 1, min(wq // 2, 6))
    fixed = best_layouts(quorum, dict.fromkeys(TEN, 90), None)[0]
    for _ in range(6):
        vacant = sorted(random.sample(range(64), 16))
        available: dict[str | None, int] = {name: random.choice([1, 3, 90]) for name in TEN}
        available["r0"] = 90
        took = []
        for _ in range(3):
            began = process_time()
            found = best_completions(quorum, fixed, vacant, available)
            took.append(process_time() - began)
        assert min(took) < 0.05
        assert found
        assert len(found) <= EQUAL_MAX
        for layout in found:
            assert rank(quorum, layout, None) is not None
            used = Counter(layout[index] for index in vacant)
            assert all(count <= available[name] for name, count in used.items())


def test_a_search_without_steps_keeps_the_former_regions_or_finds_better_ones() -> None:
    quorum = Quorum(40, 8, 5, 4)
    fixed = best_layouts(quorum, dict.fromkeys(TEN, 9), None)[0]
    vacant = list(range(0, 40, 2))
    former: dict[str | None, int] = dict(Counter(fixed[index] for index in vacant))
    found = best_completions(quorum, fixed, vacant, former, steps_max=0)
    assert not found.is_exhaustive
    value, kept = rank(quorum, found[0], None), rank(quorum, fixed, None)
    assert value is not None
    assert kept is not None
    assert value <= kept

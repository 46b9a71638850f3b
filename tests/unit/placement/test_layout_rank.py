"""Ranks from window counts equal the definitions, and bounds are never above what an order has."""

from itertools import product

from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.placement.layout_rank import LEVELS, level_bound, level_of, rank


def quorums(size_max: int) -> list[Quorum]:
    return [
        Quorum(e, wq, aq, r)
        for e in range(1, size_max + 1)
        for wq in range(1, e + 1)
        for aq in range(1, wq + 1)
        for r in range(1, aq + 1)
    ]


def by_definition(quorum: Quorum, layout: tuple[str | None, ...]) -> tuple[int, ...] | None:
    view = QuorumView(quorum, layout)
    if not view.is_legal():
        return None
    counts = [layout.count(name) for name in view.known_regions()]
    spread = max(counts, default=0) - min(counts, default=0)
    robust, near = int(not view.is_robust()), -layout.count("a")
    return robust, int(view.is_fragile()), -len(counts), spread, near


def test_ranks_equal_their_definitions_for_every_layout_of_up_to_five_members() -> None:
    for quorum in quorums(5):
        for layout in product(("a", "b", "c", None), repeat=quorum.ensemble_size):
            expected = by_definition(quorum, layout)
            assert rank(quorum, layout, "a") == expected
            for worst in LEVELS:
                is_enough = expected is not None and expected[:2] <= worst
                assert level_of(quorum, layout, worst) == (
                    expected[:2] if expected is not None and is_enough else None
                )


def test_no_order_of_counts_is_better_than_their_bound() -> None:
    for quorum in quorums(5):
        for layout in product("abc", repeat=quorum.ensemble_size):
            bound = level_bound(quorum, [layout.count(name) for name in "abc"])
            level = level_of(quorum, layout)
            if level is not None:
                assert bound is not None
                assert bound <= level
            if quorum.ensemble_size == quorum.write_quorum:
                assert bound == level, "exact if the order does not matter"

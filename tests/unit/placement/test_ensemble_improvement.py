"""Moves make an ensemble legal or better spread, are as few as possible, and end."""

import itertools

import pytest

from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.placement.completions import best_completions
from rhumbline.placement.ensemble_improvement import indices_to_move
from rhumbline.placement.layout_rank import rank

QUORUMS = [Quorum(3, 3, 2, 2), Quorum(3, 3, 2, 1), Quorum(4, 3, 2, 2), Quorum(5, 5, 3, 3)]
OFFERS: list[dict[str | None, int]] = [
    {"a": 1, "b": 1, "c": 1},
    {"c": 2},
    {"a": 2, "b": 1},
    {},
]


def moved_to_the_end(
    quorum: Quorum, layout: list[str | None], offers: dict[str | None, int]
) -> list[str | None]:
    """Repeat moves, as repair does, until there are none; a freed bookie is available again."""
    left = dict(offers)
    for _ in range(20):
        vacant = indices_to_move(quorum, layout, left)
        if not vacant:
            return layout
        after = best_completions(quorum, layout, vacant, left)[0]
        for index in vacant:
            left[after[index]] -= 1
            left[layout[index]] = left.get(layout[index], 0) + 1
        layout = list(after)
    raise AssertionError("it goes round and round")


@pytest.mark.parametrize("quorum", QUORUMS, ids=str)
def test_moves_end_and_never_make_a_layout_worse(quorum: Quorum) -> None:
    for layout in itertools.product("abc", repeat=quorum.ensemble_size):
        for offers in OFFERS:
            before = rank(quorum, layout, None)
            after = rank(quorum, moved_to_the_end(quorum, list(layout), offers), None)
            if before is not None:
                assert after is not None
                assert after[:3] <= before[:3]


def test_a_returned_region_gets_one_copy_back() -> None:
    quorum = Quorum(3, 3, 2, 2)
    assert indices_to_move(quorum, ["a", "a", "b"], {"c": 2, "a": 1}) in {(0,), (1,)}
    assert indices_to_move(quorum, ["a", "b", "c"], {"c": 2, "a": 1}) == ()


def test_an_illegal_layout_becomes_legal_by_the_fewest_moves() -> None:
    quorum = Quorum(4, 4, 3, 3)
    layout = ["a", "a", "a", "b"]
    vacant = indices_to_move(quorum, layout, {"c": 2, "b": 2})
    assert len(vacant) == 1
    after = best_completions(quorum, layout, vacant, {"c": 2, "b": 2})[0]
    assert QuorumView(quorum, after).is_legal()
    assert indices_to_move(quorum, layout, {"b": 2}) == (), "there is no third region"

"""Replicas that are silent to a reader come last in its order, whatever the policy says."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from rhumbline.core.ledger.read.replica_order import ReplicaOrder
from rhumbline.core.ledger.read_policy import ReplicaChoice
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.quorum import Quorum, QuorumView

BOOKIES = tuple(BookieId(f"b{number}@00000000") for number in range(4))
VIEW = QuorumView(Quorum(4, 2, 2, 1), ("a", "b", None, "a"))


class Reversing:
    """A read policy that reverses what it gets. It is also the pool; bookie 1 failed lately."""

    def order(self, choices: Sequence[ReplicaChoice]) -> Sequence[ReplicaChoice]:
        return list(reversed(choices))

    def failed_lately(self) -> list[BookieId]:
        return [BOOKIES[1]]


def new_order() -> ReplicaOrder:
    context: Any = SimpleNamespace(pool=Reversing(), reads=Reversing())
    return ReplicaOrder(context)


def indices(order: ReplicaOrder, *groups: Sequence[int]) -> list[int]:
    return [choice.index for choice in order.choose(BOOKIES, VIEW, *groups)]


def test_choices_have_the_regions_and_failures_of_their_bookies() -> None:
    assert new_order().choose(BOOKIES, VIEW, (0, 1)) == [
        ReplicaChoice(1, BOOKIES[1], "b", has_failed=True),
        ReplicaChoice(0, BOOKIES[0], "a", has_failed=False),
    ]


def test_policy_orders_each_group_by_itself() -> None:
    assert indices(new_order(), (0, 1), (2, 3)) == [1, 0, 3, 2]


def test_silent_replicas_come_last_until_they_respond() -> None:
    order = new_order()
    order.on_response(BOOKIES[1])
    order.add_silent(BOOKIES[1])
    order.add_silent(BOOKIES[1])
    assert indices(order, (0, 1), (2, 3)) == [0, 3, 2, 1]
    order.add_silent(BOOKIES[3])
    assert indices(order, (0, 1), (2, 3)) == [0, 2, 1, 3]
    order.on_response(BOOKIES[1])
    assert indices(order, (0, 1), (2, 3)) == [1, 0, 2, 3]


def test_replica_is_chosen_although_all_are_silent() -> None:
    order = new_order()
    for bookie in BOOKIES:
        order.add_silent(bookie)
    assert indices(order, (2, 0), (3,)) == [2, 0, 3]

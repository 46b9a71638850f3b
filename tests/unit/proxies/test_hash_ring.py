"""Hash ring: all compute the same order, shares are about equal, and few streams move."""

from collections import Counter
from itertools import islice

from rhumbline.proxies.hash_ring import HashRing, region_order

KEYS = [f"orders-{n}" for n in range(4000)]


def first(ring: HashRing, key: str) -> str:
    return next(ring.preference(key))


def test_order_of_members_does_not_matter() -> None:
    one, other = HashRing(["a", "b", "c"]), HashRing(["c", "a", "b", "a"])
    assert [list(one.preference(k)) for k in KEYS[:50]] == [
        list(other.preference(k)) for k in KEYS[:50]
    ]


def test_preference_names_every_member_once() -> None:
    ring = HashRing(["a", "b", "c"])
    assert all(sorted(ring.preference(key)) == ["a", "b", "c"] for key in KEYS[:100])
    assert not list(HashRing([]).preference("x"))


def test_shares_of_members_are_about_equal() -> None:
    ring = HashRing(["a", "b", "c", "d"])
    counts = Counter(first(ring, key) for key in KEYS)
    assert min(counts.values()) > 0.6 * len(KEYS) / 4
    assert max(counts.values()) < 1.5 * len(KEYS) / 4


def test_lost_member_moves_only_its_own_streams_and_to_their_second_choice() -> None:
    before, after = HashRing(["a", "b", "c", "d"]), HashRing(["a", "b", "d"])
    for key in KEYS:
        order = list(islice(before.preference(key), 2))
        assert first(after, key) == (order[1] if order[0] == "c" else order[0])


def test_streams_of_a_lost_region_are_spread_over_the_others() -> None:
    orders = [region_order(key, "east", ["west", "north", "east"]) for key in KEYS]
    assert {order[0] for order in orders} == {"east"}
    seconds = Counter(order[1] for order in orders)
    assert min(seconds["west"], seconds["north"]) > 0.4 * len(KEYS)

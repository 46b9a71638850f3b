"""Rendezvous hashing: all compute the same order, shares are about equal, and few streams move."""

from collections import Counter

from rhumbline.proxies.rendezvous import preference

KEYS = [f"orders-{n}" for n in range(4000)]


def test_order_of_members_does_not_matter() -> None:
    for key in KEYS[:50]:
        assert preference(key, ["a", "b", "c"]) == preference(key, ["c", "a", "b", "a"])


def test_preference_names_every_member_once() -> None:
    assert all(sorted(preference(key, ["a", "b", "c", "a"])) == ["a", "b", "c"] for key in KEYS)
    assert not preference("x", [])


def test_shares_of_members_are_about_equal() -> None:
    counts = Counter(preference(key, ["a", "b", "c", "d"])[0] for key in KEYS)
    assert min(counts.values()) > 0.9 * len(KEYS) / 4
    assert max(counts.values()) < 1.1 * len(KEYS) / 4


def test_lost_member_moves_only_its_own_streams_and_to_their_second_choice() -> None:
    for key in KEYS:
        before, after = preference(key, ["a", "b", "c", "d"]), preference(key, ["a", "b", "d"])
        assert after[0] == (before[1] if before[0] == "c" else before[0])


def test_streams_of_a_lost_member_are_spread_over_the_others() -> None:
    orders = [preference(key, ["a", "b", "c", "d"]) for key in KEYS]
    seconds = Counter(order[1] for order in orders if order[0] == "a")
    assert set(seconds) == {"b", "c", "d"}
    assert min(seconds.values()) > 0.8 * seconds.total() / 3

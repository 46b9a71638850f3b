"""Each proxy watches a few successors on a ring, and each is watched by as many."""

from collections import Counter

from rhumbline.proxies.probing.watchers import watched_by, watchers_of

MEMBERS = [f"proxy-{number}:4281" for number in range(40)]


def test_each_of_many_proxies_is_watched_by_as_many_as_it_watches() -> None:
    watched = Counter(other for one in MEMBERS for other in watched_by(one, MEMBERS, 3))
    assert watched == dict.fromkeys(MEMBERS, 3)


def test_watchers_and_watched_agree() -> None:
    for one in MEMBERS:
        assert one not in watched_by(one, MEMBERS, 3)
        for watcher in watchers_of(one, MEMBERS, 3):
            assert one in watched_by(watcher, MEMBERS, 3)


def test_few_proxies_watch_all_others() -> None:
    three = MEMBERS[:3]
    for one in three:
        assert {one, *watched_by(one, three, 3)} == set(three)
    assert watched_by("alone:1", [], 3) == ()


def test_a_proxy_that_is_not_in_the_list_yet_has_its_place() -> None:
    others = MEMBERS[1:]
    assert watched_by(MEMBERS[0], others, 3) == watched_by(MEMBERS[0], MEMBERS, 3)

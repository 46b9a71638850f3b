"""Tests of the decision to leave a slow bookie: peers, hysteresis, and the bounded rate."""

from itertools import pairwise
from random import Random

import pytest

from rhumbline.core.ledger.write.slow_members import SlowMembers, SlowRule, is_no_weaker
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.quorum import Quorum, QuorumView

A, B, C = (BookieId(f"{name}@0000000a") for name in "abc")
RULE = SlowRule(factor=4, excess_ms_min=10, after_ms=10_000, hold_ms=60_000)
S = 1_000.0


def left(
    members: SlowMembers, a: float | None, b: float | None, c: float | None, now: float
) -> str:
    bookie = members.observe({A: a, B: b, C: c}, now)
    return bookie[0] if bookie is not None else ""


def test_bookie_that_stays_slow_is_left_after_the_time() -> None:
    members = SlowMembers(RULE)
    assert left(members, 2, 2, 20, 0) == ""
    assert left(members, 2, 2, 20, 9.9 * S) == ""
    assert left(members, 2, 2, 20, 10 * S) == "c"


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        (2, 2, 7.9),  # below four times the median
        (1, 1, 10.9),  # less than 10 ms longer
        (100, 100, 100),  # all alike
        (2, 20, 20),  # the majority is slow: there is nothing to compare with
        (None, None, 500),  # no peers
        (2, 2, None),
    ],
)
def test_other_bookies_stay(a: float | None, b: float | None, c: float | None) -> None:
    members = SlowMembers(RULE)
    assert [left(members, a, b, c, at * S) for at in range(0, 100, 5)] == [""] * 20


def test_one_of_two_members_can_be_slow() -> None:
    members = SlowMembers(RULE)
    members.observe({A: 2, B: 30}, 0)
    assert members.observe({A: 2, B: 30}, 10 * S) == B


def test_an_interruption_begins_the_time_anew_and_a_small_improvement_does_not() -> None:
    members = SlowMembers(RULE)
    left(members, 2, 2, 20, 0)
    left(members, 2, 2, 12, 5 * S)  # 10 ms longer and six times as long: more than half of both
    assert left(members, 2, 2, 20, 10 * S) == "c"
    members = SlowMembers(RULE)
    left(members, 2, 2, 20, 0)
    left(members, 2, 2, 3, 5 * S)
    assert left(members, 2, 2, 20, 10 * S) == ""
    assert left(members, 2, 2, 20, 20 * S) == "c"


def test_the_slowest_is_left_first() -> None:
    members = SlowMembers(RULE)
    waits = {A: 2.0, B: 2.0, C: 30.0, BookieId("d@0000000a"): 300.0, BookieId("e@0000000a"): 2.0}
    members.observe(waits, 0)
    assert members.observe(waits, 10 * S) == BookieId("d@0000000a")


def test_bookie_that_cannot_be_left_is_returned_again_later() -> None:
    members = SlowMembers(RULE)
    found = [at for at in range(0, 45) if left(members, 2, 2, 20, at * S)]
    assert found == [10, 20, 30, 40]


def test_departures_become_rarer_whatever_the_latencies_are() -> None:
    random = Random(1)
    for _ in range(5):
        members = SlowMembers(RULE)
        times = []
        for at in range(0, 3_000):
            waits = [random.choice((1.0, 2.0, 50.0, 500.0)) if at % 20 == 0 else 50.0 for _ in "ab"]
            found = members.observe({A: waits[0], B: waits[1], C: 2.0}, at * S)
            if found is None:
                found = members.observe({A: 2.0, B: 2.0, C: 50.0}, at * S)
            if found is not None:
                members.on_left(found, at * S)
                times.append(at)
        gaps = [b - a for a, b in pairwise(times)]
        assert all(gap >= 60 * 2 ** min(number, 4) for number, gap in enumerate(gaps))


def test_a_bookie_that_is_constantly_slow_is_left_at_each_allowed_time() -> None:
    members = SlowMembers(RULE)
    times = []
    for at in range(0, 1_000):
        found = members.observe({A: 2.0, B: 2.0, C: 50.0}, at * S)
        if found is not None:
            members.on_left(found, at * S)
            times.append(at)
    assert times == [10, 70, 190, 430, 910]


GEO = Quorum(3, 3, 2, 2)


@pytest.mark.parametrize(
    ("before", "after", "is_ok"),
    [
        ("abc", "abc", True),
        ("aab", "abc", True),
        ("abc", "aab", False),  # no longer robust
        ("aab", "aaa", False),  # not legal
        ("aaa", "aab", True),
    ],
)
def test_the_new_ensemble_is_no_weaker(before: str, after: str, is_ok: bool) -> None:
    assert is_no_weaker(QuorumView(GEO, list(before)), QuorumView(GEO, list(after))) == is_ok

"""A place is taken by another bookie only if every write set can then be acknowledged."""

import itertools
from time import process_time

from rhumbline.core.protocol.placement import Path
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.durability.write_blocking import Replacement


def at(region: str | None, rack: str | None = None) -> Path:
    return region, None, rack, None


def test_a_spare_bookie_of_a_missing_region_suffices_for_every_write_set() -> None:
    members = [at(region) for region in "abcabc"]
    quorum = Quorum(6, 3, 3, 3)
    without_c = 0b011011
    for counts, is_possible in (({"c": 2}, True), ({"c": 1}, False), ({"a": 9}, False)):
        spare = {at(region): count for region, count in counts.items()}
        assert Replacement(quorum, members, without_c, spare, ()).exists() == is_possible


def test_fewer_spare_bookies_than_places_may_suffice() -> None:
    quorum = Quorum(3, 3, 2, 2)
    members = [at("a"), at("b"), at("c")]
    assert not Replacement(quorum, members, 0b001, {}, ()).exists()
    assert not Replacement(quorum, members, 0b001, {at("a"): 2}, ()).exists()
    assert Replacement(quorum, members, 0b001, {at("b"): 1}, ()).exists()
    assert not Replacement(quorum, members, 0b001, {at(None): 5}, ()).exists()


def test_a_spread_rule_is_obeyed_by_the_write_sets_that_get_new_members() -> None:
    quorum = Quorum(2, 2, 2)
    members = [at("a", "r1"), at("a", "r2")]
    rule = (("rack", 2),)
    assert Replacement(quorum, members, 0b01, {at("a", "r3"): 1}, rule).exists()
    assert not Replacement(quorum, members, 0b01, {at("a", "r1"): 3}, rule).exists()
    assert not Replacement(quorum, members, 0b01, {at("a", None): 3}, rule).exists()
    assert Replacement(quorum, members, 0b01, {at("a", "r1"): 3}, ()).exists()


def test_a_large_ensemble_ends_the_search_without_an_answer_as_blocked() -> None:
    """Forty places, and regions that suffice by number but in no order that is tried."""
    quorum = Quorum(40, 3, 3, 3)
    members = [at("a")] * 40
    spare = {at(region): count for region, count in zip("bcd", (13, 13, 3), strict=True)}
    began = process_time()
    for able in itertools.islice(itertools.count(1), 3):
        Replacement(quorum, members, able, spare, ()).exists()
    assert process_time() - began < 20

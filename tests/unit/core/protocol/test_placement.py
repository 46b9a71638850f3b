"""The filter of bookies by region, and whether a place is as spread over racks."""

from dataclasses import replace

from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.placement import BookieInfo, in_regions, is_as_spread
from rhumbline.core.protocol.quorum import Quorum

EU, US, UNKNOWN = (
    BookieInfo(BookieId(f"b{number}"), Region(name) if name else None)
    for number, name in enumerate(("eu", "us", ""))
)


def test_only_bookies_of_allowed_regions_remain() -> None:
    assert in_regions([EU, US, UNKNOWN], ["us"]) == [US]
    assert in_regions([EU, US, UNKNOWN], ["us", "eu"]) == [EU, US]
    assert in_regions([EU, US], ["asia"]) == []


def test_without_allowed_regions_every_bookie_remains() -> None:
    assert in_regions([EU, US, UNKNOWN], []) == [EU, US, UNKNOWN]


def test_a_bookie_has_no_place_and_no_space_unless_it_is_known() -> None:
    info = BookieInfo(BookieId("b"))
    assert (info.region, info.rack, info.free_bytes) == (None, None, 0)


def in_rack(name: str, region: str, rack: str | None) -> BookieInfo:
    return BookieInfo(BookieId(name), Region(region), rack)


def test_a_place_is_as_spread_if_no_write_set_gets_more_members_in_a_rack() -> None:
    left, right, new = in_rack("l", "a", "1"), in_rack("r", "a", "2"), in_rack("n", "a", "2")
    pair = Quorum(2, 2, 2)
    assert not is_as_spread(pair, [left, right], 0, new)
    assert is_as_spread(pair, [left, right], 1, new)
    assert is_as_spread(pair, [left, right], 0, in_rack("m", "b", "2")), "another region's rack"
    assert is_as_spread(pair, [in_rack("x", "a", None), in_rack("y", "a", None)], 0,
                        in_rack("z", "a", None))  # fmt: skip
    # The host is a level as well: two bookies of one machine are one domain.
    one, two = replace(left, host="h1"), replace(right, host="h2")
    assert is_as_spread(pair, [one, two], 0, replace(left, host="h3"))
    assert not is_as_spread(pair, [one, replace(left, host="h2")], 0, replace(left, host="h2"))
    # Striped: no write set of 2 holds both 0 and 2 of 4 members.
    ring = [left, in_rack("x", "a", "3"), right, in_rack("y", "a", "4")]
    assert is_as_spread(Quorum(4, 2, 2), ring, 0, new)
    assert not is_as_spread(Quorum(4, 3, 2), ring, 0, new)

"""The filter of bookies by region."""

from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.placement import BookieInfo, in_regions

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

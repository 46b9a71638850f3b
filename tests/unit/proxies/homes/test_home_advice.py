"""A home region moves only to a region that writes most of the stream, for a whole window."""

from collections.abc import Collection, Mapping

import pytest

from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.homes.home_advice import HomeAdvice, advise

CONFIG = ProxyConfig(home_window_ms=60_000, home_share_percent_min=60, home_records_per_s_min=1.0)
ALL = ("east", "north", "west")


def advice(
    rates: Mapping[str, float],
    *,
    home: str = "east",
    observed_ms: int = 60_000,
    allowed: Collection[str] = (),
    available: Collection[str] = ALL,
) -> HomeAdvice:
    return advise(home, rates, observed_ms, CONFIG, allowed=allowed, available=available)


def test_region_that_writes_most_is_suggested() -> None:
    found = advice({"west": 80.0, "east": 20.0})
    assert found == HomeAdvice("west", "west writes 80% of 100.0 records per second")
    assert advice({"west": 6.0, "": 4.0}).region == "west"
    assert advice({"west": 80.0}, home="").region == "west"
    assert advice({"west": 80.0}, allowed=("east", "west")).region == "west"


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (advice({}), "at 0.0 records per second"),
        (advice({"west": 0.9}), "a suggestion needs 1.0"),
        (advice({"east": 51.0, "west": 49.0}), "clients of east write most of it"),
        (advice({"west": 59.0, "east": 41.0}), "west writes 59% of it; a suggestion needs 60%"),
        (advice({"": 90.0, "west": 10.0}), "west writes 10% of it"),
        (advice({"": 90.0}), "clients of east write most of it"),
        (advice({"west": 9.0}, allowed=("east", "north")), "the policy does not allow west"),
        (advice({"west": 9.0}, available=("east",)), "has no write proxy"),
        (advice({"west": 9.0}, observed_ms=59_000), "for 59 s; a suggestion needs 60 s"),
    ],
)
def test_otherwise_the_home_stays_and_the_reason_is_given(found: HomeAdvice, reason: str) -> None:
    assert found.region == ""
    assert reason in found.reason


def test_homes_do_not_move_back_and_forth() -> None:
    """At any division of the records at most one region is suggested, from every home."""
    for share in range(101):
        rates = {"west": float(share), "east": 100.0 - share}
        to_west = advice(rates, home="east").region == "west"
        to_east = advice(rates, home="west").region == "east"
        assert not (to_west and to_east)
        if 40 < share < 60:
            assert not to_west
            assert not to_east

"""Records are counted by region within a sliding window, in bounded memory."""

from rhumbline.proxies.homes.region_rates import REGIONS_MAX, UNKNOWN, RegionRates


def test_rates_follow_the_window() -> None:
    rates = RegionRates(10_000, 100.0)
    assert rates.per_second(100.0) == {}
    for second in range(10):
        rates.add("east", 10, 100.0 + second)
    rates.add("west", 30, 109.0)
    assert rates.observed_ms(105.0) == 5_000
    assert rates.observed_ms(110.0) == 10_000
    assert rates.per_second(109.9) == {"east": 100 / 9.9, "west": 30 / 9.9}
    for second in range(10, 20):
        rates.add("west", 5, 100.0 + second)
    assert rates.per_second(119.9) == {"west": 5.0}, "the old records left the window"
    assert rates.observed_ms(119.9) == 10_000
    assert rates.per_second(200.0) == {}, "an idle stream"


def test_regions_beyond_the_maximum_count_as_unknown() -> None:
    rates = RegionRates(10_000, 0.0)
    for number in range(2 * REGIONS_MAX):
        rates.add(f"r{number:02}", 1, 1.0)
    found = rates.per_second(1.0)
    assert len(found) <= REGIONS_MAX + 1
    assert found[UNKNOWN] == REGIONS_MAX
    assert sum(found.values()) == 2 * REGIONS_MAX

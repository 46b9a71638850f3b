"""Tests of the shortest round trips by region."""

from rhumbline.core.ledger.connection.region_round_trips import RegionRoundTrips
from rhumbline.core.protocol.bookie_id import Region

EAST, WEST = Region("east"), Region("west")


def test_shortest_round_trip_of_a_region_is_kept_for_five_to_ten_minutes() -> None:
    trips = RegionRoundTrips()
    assert trips.shortest_ms(EAST) == float("inf")
    trips.add(EAST, 20.0, 1.0)
    trips.add(WEST, 80.0, 1.0)
    trips.add(EAST, 30.0, 2.0)
    assert trips.shortest_ms(EAST) == 20.0
    trips.add(EAST, 200.0, 301.0)  # the path became longer
    assert trips.shortest_ms(EAST) == 20.0
    trips.add(EAST, 200.0, 602.0)
    assert trips.shortest_ms(EAST) == 200.0
    assert trips.shortest_ms(WEST) == float("inf")


def test_times_before_a_long_silence_are_forgotten() -> None:
    trips = RegionRoundTrips()
    trips.add(EAST, 20.0, 1.0)
    trips.add(EAST, 90.0, 5_000.0)
    assert trips.shortest_ms(EAST) == 90.0


def test_a_window_lasts_five_minutes_from_its_first_round_trip() -> None:
    trips = RegionRoundTrips()
    trips.add(EAST, 20.0, 300.0)
    trips.add(EAST, 50.0, 301.0)
    trips.add(EAST, 60.0, 600.0)
    trips.add(EAST, 60.0, 601.0)
    assert trips.shortest_ms(EAST) == 20.0

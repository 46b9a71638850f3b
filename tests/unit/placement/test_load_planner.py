from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.placement.load_planner import Load, LoadPlan, Machine, Prices, plan_load

QUORUM = Quorum(3, 3, 2, 2)
DAY_MS = 86_400_000
LOAD = Load(
    records_per_second=10_000, record_bytes=1000, streams=100, hot_retention_ms=DAY_MS, peak=2.0
)
MACHINE = Machine()


def planned(load: Load, machine: Machine = MACHINE, prices: Prices | None = None) -> LoadPlan:
    return plan_load(load, QUORUM, 2.0, machine, prices or Prices(), regions=3)


def test_bytes_follow_from_the_load_and_the_quorum() -> None:
    found = planned(replace(LOAD, archive_retention_ms=10 * DAY_MS, archive_ratio=0.5))
    assert found.append_bytes_per_second == 20e6
    assert found.wan_bytes_per_second == 40e6
    assert found.wan_bytes_per_month == 10e6 * 2 * 30 * 86_400
    assert found.hot_bytes == 10e6 * 3 * 86_400
    assert found.archive_bytes == 10e6 * 0.5 * 864_000


def test_a_stream_has_one_entry_in_each_flush_period() -> None:
    assert planned(LOAD).entries_per_second == 10_000
    assert planned(replace(LOAD, streams=1)).entries_per_second == 100
    assert planned(replace(LOAD, flush_ms=0)).entries_per_second == 20_000


@pytest.mark.parametrize(
    "load, machine, limit",
    [
        (replace(LOAD, records_per_second=1), MACHINE, "the ensemble"),
        (replace(LOAD, hot_retention_ms=30 * DAY_MS), MACHINE, "disk space"),
        (LOAD, replace(MACHINE, disk_bytes_per_second=10 << 20), "disk bandwidth"),
        (LOAD, replace(MACHINE, network_bytes_per_second=10 << 20), "network"),
        (
            replace(LOAD, records_per_second=100_000, record_bytes=10, flush_ms=0),
            replace(MACHINE, cores=1),
            "CPU",
        ),
    ],
)
def test_the_scarcest_resource_decides(load: Load, machine: Machine, limit: str) -> None:
    load = replace(load, hot_retention_ms=min(load.hot_retention_ms, 30 * DAY_MS))
    if limit != "disk space":
        load = replace(load, hot_retention_ms=1000)
    assert planned(load, machine).bookies.limited_by == limit


def test_costs_are_the_sum_of_their_parts() -> None:
    prices = Prices("EUR", wan_per_gib=0.02, archive_per_gib_month=0.01)
    load = replace(LOAD, archive_retention_ms=10 * DAY_MS)
    found = planned(load, replace(MACHINE, price_per_month=100), prices)
    assert found.machines_per_month == 100 * (found.bookies.machines + found.proxies.machines)
    assert found.wan_per_month == found.wan_bytes_per_month / (1 << 30) * 0.02
    assert found.archive_per_month == found.archive_bytes / (1 << 30) * 0.01
    parts = found.machines_per_month + found.wan_per_month + found.archive_per_month
    assert found.cost_per_month == parts


def test_proxies_are_two_in_each_region_or_more() -> None:
    assert planned(replace(LOAD, records_per_second=1)).proxies.machines == 6
    many = planned(replace(LOAD, records_per_second=1_000_000)).proxies
    assert (many.limited_by, many.machines) == ("CPU", 114)
    assert planned(replace(LOAD, through_proxies=False)).proxies.machines == 0


@given(st.floats(1, 1e6), st.integers(1, 100_000), st.integers(1, 10_000), st.floats(1, 10))
def test_more_load_never_needs_fewer_machines(
    rate: float, size: int, streams: int, factor: float
) -> None:
    load = replace(LOAD, records_per_second=rate, record_bytes=size, streams=streams)
    less, more = planned(load), planned(replace(load, records_per_second=rate * factor))
    assert more.bookies.machines >= less.bookies.machines >= QUORUM.ensemble_size
    assert more.proxies.machines >= less.proxies.machines
    assert more.bookies.cores >= less.bookies.cores


def test_impossible_loads_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="records_per_second=0 is not between"):
        replace(LOAD, records_per_second=0)
    with pytest.raises(InvalidArgumentError, match=r"peak=0.5 is not between"):
        replace(LOAD, peak=0.5)

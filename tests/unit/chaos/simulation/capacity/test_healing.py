"""Healing copies what was lost, legally, in the time that rates and round trips allow."""

from dataclasses import replace

import pytest

from rhumbline.chaos.simulation.capacity.cluster_model import ClusterModel
from rhumbline.chaos.simulation.capacity.cluster_shape import ClusterShape
from rhumbline.chaos.simulation.capacity.healing import heal
from rhumbline.regions.repair.config import RepairConfig

SMALL = ClusterShape(bookies=50, racks=2, streams=300, repair_processes=5)


def filled(shape: ClusterShape = SMALL) -> ClusterModel:
    model = ClusterModel(shape)
    model.fill()
    return model


def in_region(model: ClusterModel, region: str) -> list[int]:
    return [number for number, info in enumerate(model.infos) if info.region == region]


def test_each_lost_copy_is_made_again_elsewhere() -> None:
    model = filled()
    lost = in_region(model, "bonn")
    affected = [n for n in range(model.ledgers) if set(lost) & set(model.members_of(n))]
    result = heal(model, lost)
    assert result.lost_bookies == 10
    assert result.ledgers == result.copies == len(affected) > 100
    assert result.bytes == sum(model.sizes[ledger] for ledger in affected)
    assert result.bytes == sum(model.used[number] for number in lost)
    assert (result.unplaced, result.illegal) == (0, 0)
    assert result.course[-1][1] == pytest.approx(1.0)
    assert result.course == sorted(result.course)


def test_copies_cross_between_regions_at_least_once_if_each_has_one() -> None:
    result = heal(filled(), [0, 5])
    assert result.wan_bytes_least == result.bytes
    assert result.bytes <= result.wan_bytes <= 2 * result.bytes
    assert result.busiest_link_bytes <= result.wan_bytes


def test_the_rate_limit_of_the_processes_bounds_the_time() -> None:
    slow = replace(SMALL, repair=RepairConfig(bytes_per_second=10**6))
    model = filled(slow)
    result = heal(model, in_region(model, "oslo"))
    assert result.copy_s >= result.bytes / (5 * 10**6)
    assert result.copy_s < 1.5 * result.bytes / (5 * 10**6)


def test_the_round_trips_bound_the_time_of_a_worker() -> None:
    repair = RepairConfig(bytes_per_second=10**12, worker_count=2)
    unlimited = replace(SMALL, repair=repair)
    model = filled(unlimited)
    result = heal(model, in_region(model, "oslo"))
    batches = result.bytes / unlimited.ledger.read_batch_bytes_max
    assert result.copy_s >= 0.9 * batches * 0.022 / (5 * repair.worker_count)


def test_two_regions_that_are_left_still_satisfy_the_rule() -> None:
    model = filled()
    lost = [number for region in ("bonn", "oslo", "rome") for number in in_region(model, region)]
    result = heal(model, lost)
    assert result.illegal == 0
    assert result.ledgers == 300 - result.unplaced

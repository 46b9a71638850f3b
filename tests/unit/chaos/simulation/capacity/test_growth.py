"""Rebalancing after growth evens the disks within each region."""

from rhumbline.chaos.simulation.capacity.cluster_model import ClusterModel
from rhumbline.chaos.simulation.capacity.cluster_shape import ClusterShape
from rhumbline.chaos.simulation.capacity.growth import rebalance

SMALL = ClusterShape(bookies=50, racks=2, streams=1_500, repair_processes=5)


def test_new_bookies_are_filled_from_their_own_regions() -> None:
    model = ClusterModel(SMALL)
    model.fill()
    total = sum(model.used)
    result = rebalance(model, 10, 10, 50 * 2**20)
    assert result.between_regions == 0
    assert result.before[:10] == [0.0] * 10
    assert sum(result.after) * SMALL.disk_bytes == sum(result.before) * SMALL.disk_bytes
    mean = total / 60 / SMALL.disk_bytes
    assert result.after[0] > 0.5 * mean
    assert result.after[-1] < 1.25 * mean
    assert 0 < result.moves < 3 * model.ledgers / 2
    assert result.hours == result.bytes / (50 * 2**20) / 3600

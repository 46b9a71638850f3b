"""The model asks placement for each ledger and keeps what it chose."""

from rhumbline.chaos.simulation.capacity.cluster_model import ClusterModel
from rhumbline.chaos.simulation.capacity.cluster_shape import ClusterShape
from rhumbline.core.protocol.quorum import QuorumView

SMALL = ClusterShape(bookies=50, racks=2, streams=200, repair_processes=5)


def test_ledgers_are_placed_legally_and_their_bytes_are_counted() -> None:
    model = ClusterModel(SMALL)
    model.fill()
    assert model.ledgers == 200
    for ledger in range(model.ledgers):
        infos = model.infos_of(ledger)
        assert QuorumView(SMALL.quorum, [info.region for info in infos]).is_legal()
        assert len({info.region for info in infos}) == 3
    assert sum(model.used) == 3 * sum(model.sizes)
    assert all(
        info.free_bytes == SMALL.disk_bytes - used
        for info, used in zip(model.infos, model.used, strict=True)
    )


def test_equal_seeds_give_equal_clusters() -> None:
    first, same, other = (ClusterModel(SMALL, seed) for seed in (7, 7, 8))
    for model in (first, same, other):
        model.fill()
    assert (first.members, first.sizes) == (same.members, same.sizes)
    assert first.members != other.members


def test_bookies_register_their_free_space_after_a_tenth_of_their_disks() -> None:
    crowded = ClusterShape(bookies=10, racks=2, streams=100, mean_ledger_bytes=10**11)
    model = ClusterModel(crowded)
    model.fill()
    assert 0 < model.refreshes < 100


def test_round_trips_are_symmetric_and_short_within_a_region() -> None:
    assert SMALL.round_trip_s("bonn", "rome") == SMALL.round_trip_s("rome", "bonn") > 0.02
    assert SMALL.round_trip_s("bonn", "bonn") == 0.0005

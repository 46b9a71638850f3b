"""The planner, on typical deployments, is compared with brute force and counts by hand."""

import itertools
from collections.abc import Sequence

import pytest

from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.placement.layout_rank import Layout
from rhumbline.placement.layouts import best_layouts
from rhumbline.placement.planner import CountOnlyGuarantee, Numbers, plan
from rhumbline.placement.topology import Topology, topology_from


def topology(regions: int, each: int = 3, rtt_ms: float = 40) -> Topology:
    names = [f"r{i}" for i in range(regions)]
    return Topology(
        dict.fromkeys(names, each),
        {pair: rtt_ms for pair in itertools.combinations(names, 2)},
        fsync_ms=(0.3,),
    )


@pytest.mark.parametrize(
    ("regions", "r", "lost_max"),
    [(2, 2, 0), (3, 2, 1), (3, 3, 0), (4, 2, 1), (5, 2, 1), (5, 3, 2), (5, 4, 1)],
)
def test_the_number_of_survivable_region_losses_follows_the_formula(
    regions: int, r: int, lost_max: int
) -> None:
    """Full availability holds for k <= min(R-1, N-R, floor((N-1)/2)) lost regions (PLC-24)."""
    found = plan(topology(regions), (regions, regions, r, r))
    assert found.refusal is None
    for loss in found.losses:
        assert loss.data_survives == (len(loss.lost) <= r - 1), loss
        assert loss.end_decidable == loss.data_survives
        assert loss.writes_resume == (len(loss.lost) <= lost_max), loss


def test_three_copies_two_acks_over_three_regions_is_legal_and_robust() -> None:
    found = plan(topology(3, each=2), (3, 3, 2, 2))
    assert found.refusal is None
    assert found.robust
    assert not found.fragile
    assert found.wan_bytes_per_byte == pytest.approx(2.0)


def brute_force(numbers: Numbers, layouts: Sequence[Layout], lost: tuple[str, ...]) -> bool:
    """Return whether a set of bookies that may acknowledge lies in ``lost`` alone."""
    e, wq, aq, r = numbers
    for layout in layouts:
        for start in range(e):
            write_set = [(start + w) % e for w in range(wq)]
            inside = [index for index in write_set if layout[index] in lost]
            for size in range(aq, len(inside) + 1):
                for acked in itertools.combinations(inside, size):
                    if len({layout[index] for index in acked}) >= r:
                        return True
    return False


UPSTREAM = [  # (numbers, accepted by BookKeeper's floor rule; rule PLC-1)
    ((3, 3, 2, 2), False),
    ((3, 3, 3, 2), True),
    ((4, 4, 3, 2), True),
    ((6, 6, 4, 2), True),
    ((6, 6, 5, 3), True),
    ((9, 9, 5, 2), False),
    ((10, 10, 10, 5), True),
    ((15, 15, 8, 2), False),
    ((15, 15, 9, 2), True),
]


@pytest.mark.parametrize(("numbers", "is_accepted"), UPSTREAM)
def test_settings_of_bookkeeper_agree_with_brute_force(numbers: Numbers, is_accepted: bool) -> None:
    wan = topology(5, each=3)
    found = plan(wan, numbers)
    assert found.refusal is None, "with the region rule at ack time all of them are safe"
    assert found.counting is not None
    assert found.counting.accepted == is_accepted
    layouts = best_layouts(Quorum(*numbers), wan.counts(), None)
    for loss in found.losses:
        assert loss.data_survives != brute_force(numbers, layouts, loss.lost)
        if len(loss.lost) < numbers[3]:
            assert loss.data_survives, "R regions hold it, fewer are gone"


WORKED = [  # (E=WQ, AQ, R), regions; accepted, spanned, squeezed, writable without the fullest
    ((3, 2, 2), 3, False, 2, 1, True),
    ((3, 3, 2), 3, True, 3, 2, False),
    ((4, 3, 2), 3, True, 2, 2, False),
    ((5, 3, 2), 3, False, 2, 1, True),
    ((5, 4, 2), 3, True, 2, 2, False),
    ((6, 4, 2), 3, True, 2, 2, True),
    ((6, 5, 2), 3, True, 3, 2, False),
    ((9, 5, 2), 3, False, 2, 1, True),
    ((9, 6, 2), 3, True, 2, 2, True),
    ((10, 6, 2), 2, True, 2, 2, False),
]


@pytest.mark.parametrize(
    ("numbers", "regions", "is_accepted", "spanned", "squeezed", "is_writable"), WORKED
)
def test_worked_examples_equal_the_counts_by_hand(
    numbers: tuple[int, int, int],
    regions: int,
    is_accepted: bool,
    spanned: int,
    squeezed: int,
    is_writable: bool,
) -> None:
    copies, acks, r = numbers
    found = plan(topology(regions, each=copies), (copies, copies, acks, r))
    assert found.counting == CountOnlyGuarantee(is_accepted, spanned, squeezed)
    assert found.layout is not None
    sizes = {name: found.layout.count(name) for name in found.layout}
    fullest = max(sizes, key=lambda name: sizes[name])
    loss = next(loss for loss in found.losses if loss.lost == (fullest,))
    assert loss.writer_continues == is_writable
    # Brute force: the fewest regions that any AQ of the copies lie in.
    by_hand = min(
        len({found.layout[index] for index in chosen})
        for chosen in itertools.combinations(range(copies), acks)
    )
    assert by_hand == spanned


@pytest.mark.parametrize("numbers", [(5, 3, 2, 2), (6, 4, 3, 2), (6, 3, 2, 2), (9, 6, 4, 3)])
def test_striped_ensembles_are_checked_for_every_write_set(numbers: Numbers) -> None:
    wan = topology(3, each=4)
    found = plan(wan, numbers)
    layouts = best_layouts(Quorum(*numbers), wan.counts(), None)
    for loss in found.losses:
        assert loss.data_survives != brute_force(numbers, layouts, loss.lost)


def test_round_trips_may_be_samples_and_the_tail_shows_in_p99() -> None:
    names = ["a", "b", "c"]
    wan = Topology(
        dict.fromkeys(names, 1),
        {pair: [40.0] * 95 + [400.0] * 5 for pair in itertools.combinations(names, 2)},
    )
    found = plan(wan, (3, 3, 3, 3))
    assert found.latencies[0].p50_ms == pytest.approx(40.3)
    assert found.latencies[0].p99_ms == pytest.approx(400.3)


def test_without_round_trips_only_latency_is_missing() -> None:
    found = plan(Topology({"a": 1, "b": 1, "c": 1}, None), (3, 3, 2, 2))
    assert found.latencies == ()
    assert found.robust


def test_no_region_may_fail_if_all_metadata_voters_are_in_one() -> None:
    trips = {pair: 40.0 for pair in itertools.combinations("abc", 2)}
    wan = Topology(dict.fromkeys("abc", 2), trips, metadata_regions=("a",))
    losses = {loss.lost: loss for loss in plan(wan, (3, 3, 2, 2)).losses}
    assert losses["a",].obstacle == "the metadata store loses its majority"
    assert losses["b",].writes_resume


def test_acknowledgement_takes_the_round_trip_to_the_nearest_other_region() -> None:
    wan = Topology(
        {"ap": 2, "eu": 2, "us": 2},
        {("eu", "us"): 80, ("eu", "ap"): 160, ("ap", "us"): 120},
        fsync_ms=(0.3, 0.4),
    )
    found = plan(wan, (3, 3, 2, 2))
    by_region = {latency.region: latency.p50_ms for latency in found.latencies}
    assert by_region == pytest.approx({"eu": 80.35, "us": 80.35, "ap": 120.35}, abs=0.1)


def test_a_refusal_names_the_rule_and_the_nearest_quorum() -> None:
    found = plan(topology(2), (3, 3, 3, 3))
    assert found.refusal is not None
    assert "R=3" in found.refusal
    assert found.nearest is not None
    assert (
        plan(
            topology(2),
            (
                found.nearest.ensemble_size,
                found.nearest.write_quorum,
                found.nearest.ack_quorum,
                found.nearest.min_regions,
            ),
        ).refusal
        is None
    )


def test_contradictory_numbers_are_refused_with_the_nearest_quorum() -> None:
    found = plan(topology(3), (3, 4, 2, 2))
    assert found.refusal == "WQ=4 is above E=3"
    assert found.nearest is not None


def test_a_topology_without_a_round_trip_is_rejected() -> None:
    with pytest.raises(InvalidArgumentError, match="no round trip given between a and b"):
        Topology({"a": 1, "b": 1}, {})


def test_all_faults_of_a_topology_table_are_reported_at_once() -> None:
    table = {
        "fsync_ms": [0.3, 0.9],
        "regions": {"bonn": {"bookies": 3}, "oslo": {"bookies": 2}},
        "round_trip_ms": {"oslo": {"bonn": 24}},
        "metadata_regions": ["bonn"],
    }
    found = topology_from(table)
    assert found.bookies == {"bonn": 3, "oslo": 2}
    assert found.between_ms("bonn", "oslo") == (24.0,)
    assert found.voters() == ("bonn",)
    with pytest.raises(InvalidArgumentError) as raised:
        topology_from(
            {
                "region": {},
                "regions": {"bonn": {"bookies": -1}, "oslo": {"bookies": 1}, "rome": 1},
                "round_trip_ms": {"oslo": {"paris": "far"}},
            }
        )
    faults = str(raised.value).splitlines()
    assert [fault.split(" ")[0] for fault in faults] == [
        "unknown",
        "regions.bonn:",
        "round_trip_ms.oslo.paris:",
        "round_trip_ms.oslo.paris",
        "round_trip_ms:",
    ]

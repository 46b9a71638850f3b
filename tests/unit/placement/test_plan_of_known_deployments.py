"""The planner on deployments that people ask about, checked against counting by hand."""

import itertools

import pytest

from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.placement.planner import Topology, plan


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
def test_the_number_of_regions_that_may_go_is_that_of_the_protocol(
    regions: int, r: int, lost_max: int
) -> None:
    """Full availability holds for k <= min(R-1, N-R, floor((N-1)/2)) lost regions (rule 2.9)."""
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


@pytest.mark.parametrize(
    "numbers", [(3, 3, 2, 2), (6, 6, 4, 2), (9, 9, 5, 2), (15, 15, 8, 2), (10, 10, 10, 5)]
)
def test_settings_that_upstream_refuses_or_accepts_are_judged_by_brute_force(
    numbers: tuple[int, int, int, int],
) -> None:
    found = plan(topology(5, each=3), numbers)
    assert found.layout is not None
    view = QuorumView(Quorum(*numbers), found.layout)
    for loss in found.losses:
        gone = view.mask_of_regions(set(loss.lost))
        members = [i for i in range(numbers[0]) if gone >> i & 1]
        hidden = any(
            view.is_acked(sum(1 << i for i in chosen))
            for size in range(numbers[2], len(members) + 1)
            for chosen in itertools.islice(itertools.combinations(members, size), 500)
        )
        assert loss.data_survives == (not hidden)


def test_acknowledgement_takes_the_round_trip_to_the_nearest_other_region() -> None:
    wan = Topology(
        {"ap": 2, "eu": 2, "us": 2},
        {("eu", "us"): 80, ("eu", "ap"): 160, ("ap", "us"): 120},
        fsync_ms=(0.3, 0.4),
    )
    found = plan(wan, (3, 3, 2, 2))
    by_region = {latency.region: latency.p50_ms for latency in found.latencies}
    assert by_region == pytest.approx({"eu": 80.35, "us": 80.35, "ap": 120.35}, abs=0.1)


def test_a_refusal_names_the_rule_and_the_nearest_setting() -> None:
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


def test_numbers_that_contradict_each_other_are_refused_with_a_neighbour() -> None:
    found = plan(topology(3), (3, 4, 2, 2))
    assert found.refusal == "WQ=4 is above E=3"
    assert found.nearest is not None


def test_a_topology_without_a_round_trip_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no round trip given between a and b"):
        Topology({"a": 1, "b": 1}, {})

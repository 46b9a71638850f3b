"""The alternatives to a quorum are those of ``plan`` on the bookies that are live."""

from rhumbline.cli.console.cluster.survey import alternatives, places
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.regions.durability.copy_states import ClusterCopies, CopyState, Member


def cluster(**by_region: int) -> ClusterCopies:
    members = {
        BookieId(f"{region}-{n}@00000001"): Member(CopyState.UP, (region, None, f"r{n}", None))
        for region, count in by_region.items()
        for n in range(count)
    }
    return ClusterCopies(members)


def test_alternatives_say_what_the_loss_of_a_region_would_do() -> None:
    rows = alternatives(cluster(bonn=2, oslo=2, rome=2), (3, 3, 2, 2), ["oslo"])
    assert rows[0]["quorum"] == "3/3/2/2" and rows[0]["is_current"]
    assert rows[0]["regions_survived"] == 1 and rows[0]["writes_resume"] is True
    by_quorum = {row["quorum"]: row for row in rows}
    assert by_quorum["5/5/3/3"]["writes_resume"] is False
    assert by_quorum["5/5/3/3"]["obstacle"]


def test_a_cluster_without_live_bookies_has_no_alternatives() -> None:
    assert alternatives(ClusterCopies({}), None, []) == []


def test_places_name_region_and_rack() -> None:
    assert places(cluster(bonn=1)) == [
        {"bookie": "bonn-0@00000001", "region": "bonn", "rack": "r0", "state": "up"}
    ]

"""A snapshot follows its schema, shows what ``top`` shows, and says when it is old."""

from dataclasses import replace
from typing import Any

from rhumbline.cli.console.cluster.merge_patch import merge_patch, without_nulls
from rhumbline.cli.console.cluster.snapshot import (
    SNAPSHOT,
    ClusterFacts,
    add_times,
    snapshot,
    stale,
    traffic,
)
from rhumbline.cli.output_schema import faults
from rhumbline.cli.overview.status_documents import StatusDocument
from rhumbline.cli.top.report import report
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.tests.unit.cli.top.test_report import sample

FACTS = ClusterFacts(
    "id",
    "n",
    "3/3/2/R2",
    "eu",
    {Region("eu"): 0.123},
    {BookieId("a@00000001"): 2},
    {Region("eu"): 1},
)


def test_a_snapshot_follows_its_schema_and_shows_what_top_shows() -> None:
    before, now = sample(0.0, 100, 10), sample(2.0, 300, 30)
    found = snapshot(before, now, FACTS)
    assert list(faults(found, SNAPSHOT)) == []
    shown = report(before, now)
    for row in shown["servers"]:
        assert row.items() <= found["servers"][row["server"]].items()
    for row in shown["regions"]:
        assert row.items() <= found["regions"][row["region"]].items()
    assert set(found["streams"]) == {"n/s"}
    assert found["regions"]["eu"]["round_trip_ms"] == 0.12
    assert found["regions"]["eu"]["open_ledgers"] == 1


def test_alerts_on_one_subject_are_joined() -> None:
    found = snapshot(None, sample(0.0, 1, 1, tasks=3, auditor=None), FACTS)
    assert (
        found["alerts"]["repair"]["detail"] == "3 ledgers wait for repair; no repair process runs"
    )


def test_a_region_that_does_not_respond_is_an_alert_with_its_runbook() -> None:
    now = sample(0.0, 1, 1)
    assert "region eu" not in snapshot(None, now, FACTS)["alerts"]
    found = snapshot(None, now, replace(FACTS, region="asia", round_trips_ms={}))
    alert = found["alerts"]["region eu"]
    assert alert["verdict"] == "fault" and alert["runbook"] == "RhumblineBookieDown"
    assert "responds to the console in asia" in alert["detail"]
    assert list(faults(found, SNAPSHOT)) == []


def test_a_bookie_that_fails_is_a_small_patch() -> None:
    before, now = sample(0.0, 100, 10), sample(1.0, 100, 10)
    old = without_nulls(snapshot(before, now, FACTS))
    gone = sample(1.0, 100, 10, bookies=now.bookies[1:])
    patch = merge_patch(old, without_nulls(snapshot(before, gone, FACTS)))
    assert None in patch["servers"].values()
    assert "streams" not in patch and "cluster" not in patch


def test_old_data_says_so() -> None:
    old = stale(snapshot(None, sample(0.0, 1, 1), FACTS), "store away")
    assert list(faults(old, SNAPSHOT)) == []
    assert old["is_stale"] and old["error"] == "store away"


def with_links(time_s: float, count: int) -> Any:  # noqa: ANN401 - a sample
    links: dict[str, Any] = {"a@00000001": {"sent_bytes": count, "received_bytes": count}}
    links["b@00000002"] = {"add_ms": 41.0}
    links["a@00000001"]["add_ms"] = 40.0
    status = StatusDocument({"client": {"ledgers": {"bookies": links}}}, None)
    known = sample(time_s, 1, 1)
    return sample(time_s, 1, 1, statuses={**known.statuses, "p:2": status})


def test_traffic_is_that_of_proxies_by_their_regions() -> None:
    found = traffic(with_links(0.0, 0), with_links(2.0, 1000))
    assert list(found.values()) == [1000.0]
    assert next(iter(found)).startswith("eu>")
    assert traffic(None, with_links(2.0, 1000)) == {}


def test_times_of_adds_are_the_shortest_of_proxies_by_their_regions() -> None:
    assert add_times(sample(0.0, 1, 1)) == {}
    found = add_times(with_links(0.0, 1))
    assert min(found.values()) == 40.0

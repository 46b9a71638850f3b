"""A snapshot: all that the console shows of a cluster at one time, as a JSON object. Pure.

Rows are members of objects, by their names, so that the next snapshot is a small merge patch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....core.protocol.bookie_id import BookieId, Region
from ...operate.server_checks import FAULT
from ...output_schema import Schema, flag, integer, maybe, number, record, table, text, time_at
from ...overview.bookies import BookieView
from ...top.rates import number_at, rate_at
from ...top.report import TOP, report
from ...top.sample import ClusterSample


def _row_of(section: str) -> Mapping[str, Any]:
    """Return the members of a row of ``top``, which shows the same."""
    members: Mapping[str, Any] = TOP["properties"][section]["items"]["properties"]
    return members


_REGION = record(
    {
        **_row_of("regions"),
        "round_trip_ms": maybe(
            number("Round trip from the console to its nearest bookie; null: none responds.")
        ),
        "open_ledgers": maybe(integer("Ledgers being written with a copy there; null: unknown.")),
    }
)
_SERVER = record(
    {
        **_row_of("servers"),
        "rack": maybe(text("Rack of a bookie.")),
        "free_bytes": maybe(integer("Free disk space of a bookie.")),
        "open_ledgers": maybe(
            integer("Ledgers being written with a copy on it; null: unknown, or not a bookie.")
        ),
    }
)
SNAPSHOT: Schema = record(
    {
        "sampled_at": time_at("Time of the sample."),
        "interval_ms": maybe(integer("Time since the sample before it.")),
        "is_stale": flag("True if the metadata store does not respond, so that this is old."),
        "error": maybe(text("Why nothing newer is known.")),
        "cluster": record(
            {
                "instance": text("Id of the cluster."),
                "namespace": text("Default namespace of the console."),
                "quorum": maybe(text("E/WQ/AQ/R of new segments in that namespace.")),
                "region": maybe(text("Region of the console.")),
            }
        ),
        "regions": table(_REGION, "Regions by name."),
        "servers": table(_SERVER, "Servers by id or address."),
        "traffic": table(
            number("Bytes per second, both directions."),
            "By `region>region`: traffic of proxies with bookies, by their regions.",
        ),
        "add_times": table(
            number("Milliseconds."),
            "By `region>region`: the shortest median of recent adds of a proxy to a bookie, by "
            "their regions.",
        ),
        "streams": table(record(_row_of("streams")), "Examined streams by namespace/stream."),
        "repair": TOP["properties"]["repair"],
        "alerts": table(TOP["properties"]["alerts"]["items"], "What is wrong, by subject."),
    }
)
"""The schema of a snapshot. Members that are null are left out when it is sent."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts that a snapshot adds to two samples."""

    instance: str
    namespace: str
    quorum: str | None = None
    region: str | None = None
    round_trips_ms: Mapping[Region, float] = field(default_factory=dict)
    open_ledgers: Mapping[BookieId, int] | None = None
    """Ledgers that are being written, by each bookie of their newest ensembles; None: unknown."""
    open_in_regions: Mapping[Region, int] = field(default_factory=dict)


def snapshot(
    before: ClusterSample | None, now: ClusterSample, facts: ClusterFacts
) -> dict[str, Any]:
    """Return the snapshot of a sample, with the rates since the one before."""
    found = report(before, now)
    regions = {row["region"]: _region(row, facts) for row in found["regions"]}
    alerts = [*_silent(regions, facts), *found["alerts"]]
    bookies = {one.bookie: one for one in now.bookies}
    return {
        "sampled_at": found["sampled_at"],
        "interval_ms": found["interval_ms"],
        "is_stale": False,
        "error": None,
        "cluster": {
            "instance": facts.instance,
            "namespace": facts.namespace,
            "quorum": facts.quorum,
            "region": facts.region,
        },
        "regions": regions,
        "servers": {
            row["server"]: _server(row, bookies.get(row["server"]), facts)
            for row in found["servers"]
        },
        "traffic": traffic(before, now),
        "add_times": add_times(now),
        "streams": {row["stream"]: row for row in found["streams"]},
        "repair": found["repair"],
        "alerts": _by_subject(alerts),
    }


def stale(last: Mapping[str, Any], error: str) -> dict[str, Any]:
    """Return the last snapshot, now that nothing newer can be known."""
    return {**last, "is_stale": True, "error": error}


def traffic(before: ClusterSample | None, now: ClusterSample) -> dict[str, float]:
    """Return the bytes per second between proxies and bookies, by ``region>region``."""
    if before is None:
        return {}
    seconds = now.time_s - before.time_s
    regions = {str(one.bookie): str(one.region or "unknown") for one in now.bookies}
    found: dict[str, float] = {}
    for server in now.servers:
        old, new = before.statuses.get(server.status_address), now.statuses[server.status_address]
        links = _links(new.statistics)
        if old is None or not links:
            continue
        for bookie in links:
            path = f"{server.region or 'unknown'}>{regions.get(bookie, 'unknown')}"
            for direction in ("sent_bytes", "received_bytes"):
                earlier = _links(old.statistics).get(bookie, {})
                rate = rate_at(earlier, links[bookie], direction, seconds)
                found[path] = round(found.get(path, 0.0) + (rate or 0.0), 1)
    return found


def add_times(now: ClusterSample) -> dict[str, float]:
    """Return how long adds of proxies to bookies take in ms, by ``region>region``."""
    regions = {str(one.bookie): str(one.region or "unknown") for one in now.bookies}
    found: dict[str, float] = {}
    for server in now.servers:
        for bookie, link in _links(now.statuses[server.status_address].statistics).items():
            took_ms = number_at(link, "add_ms")
            if took_ms is not None:
                path = f"{server.region or 'unknown'}>{regions.get(bookie, 'unknown')}"
                found[path] = min(took_ms, found.get(path, took_ms))
    return found


def _silent(regions: Mapping[str, Any], facts: ClusterFacts) -> list[dict[str, Any]]:
    """Return an alert for each region with writable bookies that does not respond."""
    here = "" if facts.region is None else f" in {facts.region}"
    return [
        {
            "subject": f"region {name}",
            "verdict": FAULT,
            "detail": f"no bookie that was asked responds to the console{here}: the link is cut, "
            "or the region is lost",
            "runbook": "RhumblineBookieDown",
        }
        for name, row in regions.items()
        if row["writable"] and row["round_trip_ms"] is None
    ]


def _links(statistics: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    ledgers = (statistics.get("client") or {}).get("ledgers") or {}
    links: Mapping[str, Mapping[str, Any]] = ledgers.get("bookies") or {}
    return links


def _region(row: Mapping[str, Any], facts: ClusterFacts) -> dict[str, Any]:
    name = Region(row["region"])
    round_trip = facts.round_trips_ms.get(name)
    is_known = facts.open_ledgers is not None
    return {
        **row,
        "round_trip_ms": None if round_trip is None else round(round_trip, 2),
        "open_ledgers": facts.open_in_regions.get(name, 0) if is_known else None,
    }


def _server(
    row: Mapping[str, Any], bookie: BookieView | None, facts: ClusterFacts
) -> dict[str, Any]:
    known = {} if bookie is None else bookie.as_row()
    written = None if bookie is None or facts.open_ledgers is None else facts.open_ledgers
    return {
        **row,
        "rack": known.get("rack"),
        "free_bytes": known.get("free_bytes"),
        "open_ledgers": None if written is None else written.get(BookieId(row["server"]), 0),
    }


def _by_subject(alerts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return alerts by subject; the details of several on one subject are joined."""
    found: dict[str, dict[str, Any]] = {}
    for alert in alerts:
        known = found.get(alert["subject"])
        if known is None:
            found[alert["subject"]] = dict(alert)
        else:
            known["detail"] = f"{known['detail']}; {alert['detail']}"
    return found

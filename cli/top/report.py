"""The document of ``rhumbline top``, from two samples. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...client.units import show_count
from ...core.runtime.metrics import REGIONAL
from ..operate.server_checks import (
    FAULT,
    OK,
    WARNING,
    Finding,
    check_proxies,
    check_regions,
    judge_bookie,
)
from ..output_form import iso_time
from ..output_schema import Schema, integer, listing, maybe, number, record, text, time_at
from ..overview.regions import REGION_ROW, region_rows
from .rates import p99_ms, rate, rate_at, total
from .sample import ClusterSample

_REDUCED = "reduced"
_AT_RISK = ("at_risk", "doubtful", "unavailable", "lost")
_LOST, _RISK = "RhumblineDataLost", "RhumblineDataAtRisk"
_UNKNOWN = "RhumblineDurabilityUnknown"
_MISSING, _NO_AUDITOR = "RhumblineCopiesMissing", "RhumblineAuditorMissing"
_OF_SERVERS = {"repair": _NO_AUDITOR, "archive": "RhumblineArchiverDown"}

_RATES: dict[str, Schema] = {
    "adds_per_second": maybe(number("Entries that were added.")),
    "written_bytes_per_second": maybe(number("Bytes of these entries.")),
    "add_p99_ms": maybe(number("99th percentile of an add, in the slowest bookie.")),
}
_SERVER = record(
    {
        "server": text("Id of a bookie, or address of another server."),
        "kind": text("bookie, write-proxy, read-proxy, repair or archive."),
        "region": text("Its region."),
        "mode": text("What it may be used for, or unreachable."),
        "work_per_second": maybe(number("Entries added by a bookie, records of a proxy.")),
        "p99_ms": maybe(number("Adds of a bookie, acknowledgements of a proxy.")),
        "load": text("What it serves now."),
    }
)
_STREAM = record(
    {
        "stream": text("namespace/stream."),
        "records_per_second": maybe(number("Records that became readable.")),
        "records": maybe(integer("Readable and truncated records.")),
        "end": text("Position after the last readable record."),
        "lag_records": maybe(integer("Lag of its slowest subscription; null: none, or unknown.")),
        "owner": maybe(text("Address of the write proxy that serves it.")),
    }
)
_ALERT = record(
    {
        "subject": text("What is wrong."),
        "verdict": text("How bad it is.", WARNING, FAULT),
        "detail": text("What was found."),
        "runbook": maybe(text("The section of the runbook about it.")),
    }
)
TOP = record(
    {
        "sampled_at": time_at("Time of the sample."),
        "interval_ms": maybe(integer("Time since the sample before it.")),
        "regions": listing(record({**REGION_ROW, **_RATES}), "Regions."),
        "servers": listing(_SERVER, "Servers, the busiest of each kind first."),
        "streams": listing(_STREAM, "Streams that were examined, the busiest first."),
        "repair": record(
            {
                "ledgers_waiting": integer("Ledgers that need repair."),
                "ledgers_reduced": maybe(
                    integer("Ledgers that lack copies beyond the promised ones; null: unknown.")
                ),
                "auditor": maybe(text("Id of the repair process that audits.")),
                "copied_bytes_per_second": maybe(number("Data that repair copies.")),
                "left_bytes": maybe(integer("Data that rebalancing has to move.")),
            }
        ),
        "alerts": listing(_ALERT, "What is wrong, faults first."),
    }
)
"""The schema of a sample."""


def report(before: ClusterSample | None, now: ClusterSample) -> dict[str, Any]:
    """Return the document of a sample, with the rates since the one before."""
    seconds = 0.0 if before is None else now.time_s - before.time_s
    bookies = _bookies(before, now, seconds)
    return {
        "sampled_at": iso_time(now.wall_ms),
        "interval_ms": None if before is None else round(seconds * 1000),
        "regions": _regions(now, bookies),
        "servers": [*_as_servers(now, bookies), *_servers(before, now, seconds)],
        "streams": _streams(before, now, seconds),
        "repair": _repair(before, now, seconds),
        "alerts": _alerts(now),
    }


def without_store(document: Mapping[str, Any], error: str) -> dict[str, Any]:
    """Return the last document, now that the metadata store does not respond."""
    alert = {
        "subject": "metadata store",
        "verdict": FAULT,
        "detail": f"nothing is known: {error}",
        "runbook": "RhumblineMetadataStoreUnavailable",
    }
    return {**document, "alerts": [alert]}


def _bookies(
    before: ClusterSample | None, now: ClusterSample, seconds: float
) -> dict[str, dict[str, Any]]:
    earlier = (
        {} if before is None else {one.bookie: one.status.statistics for one in before.bookies}
    )
    rates: dict[str, dict[str, Any]] = {}
    for one in now.bookies:
        old, new = earlier.get(one.bookie, {}), one.status.statistics
        rates[one.bookie] = {
            "adds_per_second": rate_at(old, new, "operations.add.ok", seconds),
            "written_bytes_per_second": rate_at(old, new, "log_bytes", seconds),
            "add_p99_ms": p99_ms(old, new, "operation.add") if old else None,
        }
    return rates


def _regions(now: ClusterSample, rates: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for row in region_rows(now.bookies, now.ordered, now.servers):
        own = [rates[v.bookie] for v in now.bookies if (v.region or "unknown") == row["region"]]
        slowest = [one["add_p99_ms"] for one in own if one["add_p99_ms"] is not None]
        rows.append(
            {
                **row,
                "adds_per_second": total([one["adds_per_second"] for one in own]),
                "written_bytes_per_second": total([one["written_bytes_per_second"] for one in own]),
                "add_p99_ms": max(slowest, default=None),
            }
        )
    return rows


def _as_servers(now: ClusterSample, rates: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for view in now.bookies:
        own, known = rates[view.bookie], view.status.statistics
        load = "not registered" if view.registration is None else view.status.error or ""
        if known:
            ledgers = show_count(known.get("ledgers", 0), "ledger")
            load = f"{ledgers}, {show_count(known.get('connections', 0), 'connection')}"
        rows.append(
            {
                "server": view.bookie,
                "kind": "bookie",
                "region": view.region or "unknown",
                "mode": view.mode.value,
                "work_per_second": own["adds_per_second"],
                "p99_ms": own["add_p99_ms"],
                "load": load,
            }
        )
    return sorted(rows, key=lambda row: -(row["work_per_second"] or 0))


def _servers(
    before: ClusterSample | None, now: ClusterSample, seconds: float
) -> list[dict[str, Any]]:
    rows = []
    for server in now.servers:
        status = now.statuses[server.status_address]
        earlier = None if before is None else before.statuses.get(server.status_address)
        old, new = {} if earlier is None else earlier.statistics, status.statistics
        rows.append(
            {
                "server": server.address or server.status_address,
                "kind": server.kind,
                "region": server.region,
                "mode": _mode(now, server.address) if status.is_known else "unreachable",
                "work_per_second": rate_at(old, new, "write.records", seconds),
                "p99_ms": p99_ms(old, new, "client.streams.acks") if old else None,
                "load": _load(server.kind, new) if status.is_known else status.error or "",
            }
        )
    return sorted(rows, key=lambda row: (row["kind"] != "write-proxy", row["kind"]))


def _mode(now: ClusterSample, address: str) -> str:
    return next((str(row["mode"]) for row in now.proxies if row["address"] == address), "running")


def _load(kind: str, known: Mapping[str, Any]) -> str:
    if kind.endswith("proxy"):
        writes, reads = known.get("write") or {}, known.get("read") or {}
        parts = [show_count(writes["streams"], "stream")] if writes else []
        return ", ".join(parts + ([show_count(reads["readers"], "reader")] if reads else []))
    if kind == "repair":
        return "audits" if known.get("auditor") else "repairs"
    return f"{known.get('archived', 0)} segments archived"


def _streams(
    before: ClusterSample | None, now: ClusterSample, seconds: float
) -> list[dict[str, Any]]:
    rows = []
    for name, sample in now.streams.items():
        earlier = None if before is None else before.streams.get(name)
        old, new = None if earlier is None else earlier.count.records, sample.count.records
        rows.append(
            {
                "stream": name,
                "records_per_second": rate(old, new, seconds),
                "records": new,
                "end": str(sample.count.position).partition("@")[0],
                "lag_records": sample.lag_records,
                "owner": sample.owner,
            }
        )
    return sorted(rows, key=lambda row: (-(row["records_per_second"] or 0), row["stream"]))


def _repair(before: ClusterSample | None, now: ClusterSample, seconds: float) -> dict[str, Any]:
    repairers = [one.status_address for one in now.servers if one.kind == "repair"]
    copied, left = [], []
    reduced: int | None = None
    for address in repairers:
        known = now.statuses[address].statistics
        earlier = None if before is None else before.statuses.get(address)
        old = {} if earlier is None else earlier.statistics
        copied.append(rate_at(old, known, "repaired.bytes", seconds))
        if known.get("auditor"):
            left.append(known.get("rebalance", {}).get("left_bytes"))
            verdicts = (known.get("durability") or {}).get("ledgers")
            if verdicts is not None:
                reduced = sum(verdicts.get(_REDUCED, {}).values())
    return {
        "ledgers_waiting": now.tasks,
        "ledgers_reduced": reduced,
        "auditor": now.auditor,
        "copied_bytes_per_second": total(copied),
        "left_bytes": next((size for size in left if isinstance(size, int)), None),
    }


def _alerts(now: ClusterSample) -> list[dict[str, Any]]:
    findings: list[Finding] = [
        *check_regions(now.bookies, now.ordered),
        *map(judge_bookie, now.bookies),
        *check_proxies(now.proxies),
        *_other_findings(now),
    ]
    order: Sequence[str] = (FAULT, WARNING)
    return [
        {
            "subject": one.subject,
            "verdict": one.verdict,
            "detail": one.detail,
            "runbook": one.alert or None,
        }
        for verdict in order
        for one in findings
        if one.verdict == verdict and one.verdict != OK
    ]


def _other_findings(now: ClusterSample) -> list[Finding]:
    found = []
    if now.tasks:
        text = f"{show_count(now.tasks, 'ledger waits', 'ledgers wait')} for repair"
        found.append(Finding("repair", FAULT, text, _MISSING))
    if now.auditor is None:
        found.append(Finding("repair", WARNING, "no repair process runs", _NO_AUDITOR))
    shown = {row["address"] for row in now.proxies}
    for server in now.servers:
        status = now.statuses[server.status_address]
        if not status.is_known and server.address not in shown:
            name = server.address or server.status_address
            alert = _OF_SERVERS.get(server.kind, "RhumblineProxyDown")
            found.append(Finding(f"{server.kind} {name}", FAULT, str(status.error), alert))
    return [*found, *_durability_findings(now)]


def _durability_findings(now: ClusterSample) -> Iterator[Finding]:
    """Judge the copies of each metadata store; without a recent audit nothing is known of them."""
    for region, known in _durability(now).items():
        subject = f"durability in {region}" if region else "durability"
        if not known.get("known"):
            yield Finding(subject, WARNING, "unknown: no recent complete audit", _UNKNOWN)
            continue
        counts = {name: sum(known["ledgers"].get(name, {}).values()) for name in _AT_RISK}
        if any(counts.values()):
            text_of = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in counts.items() if n)
            alert = _LOST if counts["lost"] else _RISK
            yield Finding(subject, FAULT, f"ledgers: {text_of}", alert)


def _durability(now: ClusterSample) -> dict[str, Mapping[str, Any]]:
    """Return the durability by the region of the metadata store, "" the global one, as the process
    that audits the store reports it; empty, or with a false ``known``, if none does."""
    found: dict[str, Mapping[str, Any]] = {"": {}, **{str(one): {} for one in now.stores}}
    for server in now.servers:
        if server.kind == "repair":
            known = now.statuses[server.status_address].statistics
            for region, one in {"": known, **(known.get(REGIONAL) or {})}.items():
                durability = one.get("durability") or {}
                if durability.get("known") or region not in found:
                    found[region] = durability
    return found

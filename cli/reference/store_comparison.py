"""The page that compares the metadata stores, from the results of ``rhumbline bench metadata``."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

RESULTS_FILE = "metadata-stores.json"

_STORES = {
    "memory": "memory",
    "sqlite": "SQLite",
    "zookeeper": "ZooKeeper",
    "etcd": "etcd",
    "fdb": "FoundationDB",
}
_MISSING = "not measured here"
_HEAD = """\
# Metadata stores compared

Generated from `docs/reference/metadata-stores.json`; do not edit. [Choose a metadata
store](../how-to/choose-a-metadata-store.md) says which store suits which deployment.

The results were measured by one client process, with all servers on one machine and with fsync.
Compare the columns with each other, not with other machines. The load shows how busy the machine
was with other work, which raises every latency. To measure again:

```text
rhumbline bench metadata --store memory --store sqlite --store zookeeper --store etcd \\
    --json docs/reference/metadata-stores.json
rhumbline bench metadata fdb:///etc/foundationdb/fdb.cluster?dir=bench \\
    --json docs/reference/metadata-stores.json
make reference
```
"""
_OPERATIONS = """\
## Latency of each operation

Each cell holds p50 / p99 in ms; rates are of all callers together. Values have 300 bytes, and there
is one server. A takeover includes the session's 2 s.
"""
_SCALE = """\
## Many watches, many children

One handle watches all nodes; then another one writes to 200 of them. *Armed* is the time from the
first `watch` until the last one fires. The children are listed in one call, and in pages of 1,000.
"""
_FAULTS = """\
## Faults

Four writers increment counters by compare-and-set, with a timeout of 2 s for each call, while the
fault lasts. The gap is the longest time of a writer between two acknowledged writes. *Unavailable*
calls were certainly not carried out; *unknown* ones may have been. *Lost* counts acknowledged
writes that are missing afterwards, and *twice* those that were applied twice: both must be 0.

| fault | store | gap | acknowledged | unavailable | unknown | lost | twice |
|---|---|---|---|---|---|---|---|"""
_REGIONS = """\
## Three regions

One member in each of three regions that are {rtt_ms} ms apart (round trip). A client talks to the
member of its own region. The cells hold p50 / p99 in ms.
"""
_NEEDS = """\
## Limits and needs

All stores share the [limits of the contract](store-contract.md#limits). The table has what differs.

| store | limits | what it needs in three regions |
|---|---|---|"""
_LIMITS = {
    "memory": ("one process; nothing survives it", "cannot be used"),
    "sqlite": (
        "the processes of one host; a process that holds the lock of the file stops all writes",
        "cannot be used: the host's region would take the metadata with it",
    ),
    "zookeeper": (
        "each page of a listing reads the whole list; watches are set one after the other; "
        "sessions of 2 to 20 ticks",
        "a voting member in each region, with `syncLimit` and `initLimit` of many round trips",
    ),
    "etcd": (
        "sessions of at least one and a half election timeouts, in whole seconds",
        "a voting member in each region, with `--heartbeat-interval` of about a round trip and "
        "`--election-timeout` of about ten",
    ),
    "fdb": (
        "transactions of at most 5 s and 10 MB; sessions are rows that clients renew",
        "coordinators in each region, and the redundancy mode `three_datacenter` or a "
        "configuration of several regions",
    ),
}


def store_comparison_page(results: Path) -> str:
    """Return the page for the results in a JSON document."""
    found: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
    measured = [store for store in _STORES if store in found]
    lines = [
        _HEAD,
        "| store | version | measured |\n|---|---|---|",
        *(_version_row(store, found.get(store)) for store in _STORES),
        "",
        _OPERATIONS,
        *_matrix("operation", found, "operations"),
        _SCALE,
        *_scale_table(found),
        _FAULTS,
        *_fault_rows(found, measured),
        "",
        _REGIONS.format(rtt_ms=_rtts(found)),
        *_region_tables(found),
        _NEEDS,
        *(_row(_STORES[store], texts) for store, texts in _LIMITS.items()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _version_row(store: str, results: dict[str, Any] | None) -> str:
    if results is None:
        return f"| {_STORES[store]} | | {_MISSING} |"
    return f"| {_STORES[store]} | {results.get('version', '')} | {results.get('measured', '')} |"


def _matrix(corner: str, found: dict[str, Any], *path: str) -> Iterator[str]:
    """Yield a table with a column for each store and a row for each measurement below ``path``."""
    columns = {store: _below(found, store, *path) for store in _STORES}
    rows = dict.fromkeys(name for column in columns.values() for name in column)
    yield _header(corner)
    for name in rows:
        yield _row(name, (_cell(column.get(name)) for column in columns.values()))
    yield ""


def _below(found: dict[str, Any], *path: str) -> dict[str, Any]:
    for name in path:
        found = found.get(name, {})
    return found


def _header(corner: str) -> str:
    return _row(corner, _STORES.values()) + "\n" + "|---" * (len(_STORES) + 1) + "|"


def _row(name: str, cells: Iterable[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _cell(measured: dict[str, Any] | None) -> str:
    if measured is None:
        return "-"
    latencies = [_milliseconds(measured[key]) for key in ("p50_ms", "p99_ms") if key in measured]
    text = " / ".join(latencies)
    return f"{text}, {measured['per_s']:,.0f}/s" if "per_s" in measured else text


def _milliseconds(value: float) -> str:
    digits = 0 if value >= 100 else 1 if value >= 1 else 2 if value >= 0.1 else 3
    return f"{value:,.{digits}f}"


def _scale_table(found: dict[str, Any]) -> Iterator[str]:
    watches = {store: _below(found, store, "watches") for store in _STORES}
    children = {store: _below(found, store, "children") for store in _STORES}
    yield _header("measured")
    yield _row("watched nodes", (_count(column.get("watches")) for column in watches.values()))
    yield _row("armed", (_unit(column.get("armed_s"), "s") for column in watches.values()))
    yield _row("write to watch", (_cell(column or None) for column in watches.values()))
    yield _row("watches that did not fire", (_count(c.get("missed")) for c in watches.values()))
    yield _row("children", (_count(column.get("children")) for column in children.values()))
    for name, key, unit in (
        ("created per second", "created_per_s", "/s"),
        ("listed in one call", "one_call_ms", "ms"),
        ("listed in pages", "all_pages_ms", "ms"),
    ):
        yield _row(name, (_unit(column.get(key), unit) for column in children.values()))
    yield ""


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _unit(value: float | str | None, unit: str) -> str:
    """Return a value with its unit, or the name of the error with which the store refused."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return f"`{value}`"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _fault_rows(found: dict[str, Any], measured: list[str]) -> Iterator[str]:
    names = dict.fromkeys(name for store in measured for name in _below(found, store, "faults"))
    for name in names:
        for store in measured:
            row = _below(found, store, "faults").get(name)
            if row is not None:
                keys = ("acknowledged", "unavailable", "unknown", "lost", "doubled")
                counts = (f"{row[key]:,}" for key in keys)
                yield _row(name, (_STORES[store], f"{row['gap_ms']:,} ms", *counts))


def _region_tables(found: dict[str, Any]) -> Iterator[str]:
    places = dict.fromkeys(place for store in _STORES for place in _below(found, store, "regions"))
    for place in places:
        yield from _matrix(f"client in {_article(place)}", found, "regions", place)


def _rtts(found: dict[str, Any]) -> str:
    sizes = (results["size"]["rtt_ms"] for results in found.values() if "regions" in results)
    return " or ".join(str(rtt_ms) for rtt_ms in sorted(set(sizes))) or "80"


def _article(place: str) -> str:
    return place if place.startswith("another") else f"the {place}"

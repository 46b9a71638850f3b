"""Work that cannot continue, with what it waits for and what would unblock it. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from ....client.units import show_count
from ....regions.repair.progress import NO_REPAIR, NOT_AUDITED, QUEUED

_ROWS_MAX = 20
_IN_PROGRESS = (NOT_AUDITED, QUEUED)
_NO_PROCESS = "a repair process: none is running"
_START_REPAIR = "start `rhumbline repair run`"


def blocked_work(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what is blocked in a document of ``OperationsView``, what it waits for, and a remedy.

    Work that only waits for its turn is not blocked.
    """
    return [
        {"what": what, "waits_for": reason, "remedy": remedy}
        for what, reason, remedy in [*_of_stores(found), *_of_repair(found), *_of_others(found)]
    ][:_ROWS_MAX]


Row = tuple[str, str, str]


def _of_stores(found: Mapping[str, Any]) -> Iterator[Row]:
    for one in found["stores"]:
        if one["error"]:
            what = f"streams of namespaces whose metadata is in {one['store']}"
            yield what, one["error"], "see the runbook of the metadata store"


def _of_repair(found: Mapping[str, Any]) -> Iterator[Row]:
    for one in (*found["drains"], *found["down"]):
        is_down = "obstacles" in one
        name = one["target"].replace(":", " ") if ":" in one["target"] else _bookie(one)
        for reason, count in one["reasons"].items():
            if reason in _IN_PROGRESS or (is_down and reason == NO_REPAIR):
                continue
            ledgers = show_count(count, "ledger")
            what = f"{'repair' if is_down else 'drain'} of {name}: {ledgers}"
            if reason == NO_REPAIR:
                yield what, _NO_PROCESS, _START_REPAIR
            else:
                yield what, reason, "see the ledgers below"
        for fault in one.get("obstacles", ()):
            yield f"copies of {name}", fault, "add a bookie where one is missing"
    absent = [one for one in found["down"] if one["ledgers"]]
    if absent and any(one["obstacle"] for one in found["repair"]):
        yield f"copies on {show_count(len(absent), 'bookie')} down", _NO_PROCESS, _START_REPAIR
    for one in found["repair"]:
        queued = one["waiting"]
        if one["obstacle"] and queued:
            ledgers = show_count(queued, "ledger")
            yield f"repair of {ledgers}", _NO_PROCESS, _START_REPAIR
        hopeless = sum(row["hopeless"] for row in one["ledgers"])
        if hopeless:
            what = f"repair of {show_count(hopeless, 'ledger')} with entries that have no copy"
            yield what, "a bookie that holds them", "bring the bookies that are down back"


def _of_others(found: Mapping[str, Any]) -> Iterator[Row]:
    rebalance = found["rebalance"]
    if rebalance is not None and rebalance["obstacle"]:
        yield "rebalancing", rebalance["obstacle"], "see `rhumbline rebalance status`"
    for one in found["archiving"]:
        if one["obstacle"]:
            yield f"archiver {one['server']}", one["obstacle"], "see its log"
    migration = found["migration"]
    if migration is not None and migration["is_interrupted"]:
        what = f"migration of the metadata to {migration['target']}"
        yield (
            what,
            "no progress for 30 s: the command has ended, or hangs",
            "repeat it, or use --abort",
        )


def _bookie(one: Mapping[str, Any]) -> str:
    return f"bookie {one['target']}"

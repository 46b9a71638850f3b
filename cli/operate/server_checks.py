"""Checks of the servers of a cluster, for ``doctor``: regions, bookies, proxies and repair."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...client.connect import Client
from ...client.store_client import StoreClient
from ...client.units import show_bytes, show_count
from ...core.ledger.connection.bookie_link import address_for
from ...core.protocol.bookie_id import Region
from ...core.protocol.errors import RhumblineError
from ...regions.repair.task_store import RepairTask, TaskStore
from ...regions.states import PlacementState
from ...server.server_directory import ServerRecord
from ..overview.bookies import BookieMode, BookieView
from ..overview.proxies import ACCEPTING, DRAINING
from ..overview.regions import EMPTY, OPEN, region_rows
from ..overview.status_documents import parse_address, read_statuses

OK, WARNING, FAULT = "ok", "warning", "fault"

_NO_WRITABLE = "RhumblineRegionWithoutWritableBookie"
_DOWN = "RhumblineBookieDown"
_DAMAGED = "RhumblineDamagedData"
_CONNECT_SECONDS_MAX = 5
_TASKS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. ``verdict`` is ok, warning or fault."""

    subject: str
    verdict: str
    detail: str
    alert: str = ""
    """The section of the runbook about it, which has the name of an alert; "" if there is none."""


def check_regions(
    bookies: Sequence[BookieView], ordered: Mapping[Region, PlacementState]
) -> list[Finding]:
    """Check that each region accepts new data, or that an operator closed it."""
    if not bookies:
        return [Finding("bookies", FAULT, "none is formatted; see `rhumbline bookie format`")]
    return [_check_region(row) for row in region_rows(bookies, ordered)]


def _check_region(row: Mapping[str, Any]) -> Finding:
    counts = [
        f"{row[key]} {words}"
        for key, words in (
            ("writable", "writable"),
            ("read_only", "read-only"),
            ("closed", "closed by order"),
            ("down", "down"),
        )
        if row[key]
    ]
    detail = f"{row['state']}; bookies: {', '.join(counts) or 'none'}"
    if row["state"] == OPEN:
        return Finding(f"region {row['region']}", OK, detail)
    is_ordered = row["state"] in [EMPTY, *(state.value for state in PlacementState)]
    is_ordered |= row["closed"] > 0 and row["down"] == row["read_only"] == 0
    verdict = WARNING if is_ordered else FAULT
    return Finding(f"region {row['region']}", verdict, detail, _NO_WRITABLE)


def check_hosts(bookies: Sequence[BookieView]) -> list[Finding]:
    """Check that the bookies of one host register one place; nothing if no bookie is up.

    Otherwise they are taken for bookies of different hosts (rule PLC-28), and copies of one entry
    may be placed on all of them.
    """
    places: dict[tuple[str, str], set[tuple[str | None, str | None]]] = {}
    count = 0
    for view in bookies:
        if view.registration is not None and view.is_known:
            zone, rack, host = view.registration.location
            places.setdefault((view.region or "no region", host), set()).add((zone, rack))
            count += 1
    torn = [f"{host} in {region}" for (region, host), found in places.items() if len(found) > 1]
    if torn:
        detail = f"bookies of one host register different zones or racks: {', '.join(torn)}"
        return [Finding("hosts", WARNING, detail)]
    shown = f"{show_count(count, 'bookie')} on {show_count(len(places), 'host')}"
    return [Finding("hosts", OK, shown)] if count else []


async def check_bookies(bookies: Sequence[BookieView], region: Region | None) -> list[Finding]:
    """Check that each bookie is up, responds, and has no damage; each by a connection to it."""
    return list(await asyncio.gather(*(_check_bookie(one, region) for one in bookies)))


def judge_bookie(view: BookieView) -> Finding:
    """Judge a bookie by its registration and by what it reports, without a connection to it."""
    place = view.region or "no region"
    return _judge_absent(view) or _judge_reachable(f"bookie {view.bookie}", view, place)


async def _check_bookie(view: BookieView, region: Region | None) -> Finding:
    subject = f"bookie {view.bookie}"
    if (found := _judge_absent(view)) is not None:
        return found
    assert view.registration is not None
    try:
        address = address_for(view.registration, region)
        async with asyncio.timeout(_CONNECT_SECONDS_MAX):
            _, writer = await asyncio.open_connection(address.host, address.port)
        writer.close()
    except (OSError, TimeoutError, RhumblineError) as error:
        return Finding(subject, FAULT, f"cannot be reached: {error or type(error).__name__}")
    return _judge_reachable(subject, view, f"reachable at {address}, {view.region or 'no region'}")


def _judge_absent(view: BookieView) -> Finding | None:
    """Judge a bookie that is down or decommissioned; None if it is neither."""
    subject = f"bookie {view.bookie}"
    if view.mode is BookieMode.DECOMMISSIONED:
        return Finding(subject, WARNING, "decommissioned, but its process runs: stop it")
    if view.registration is not None:
        return None
    if view.ordered is not None:
        return Finding(subject, WARNING, f"down (not registered), {view.ordered.value}", _DOWN)
    detail = "down (not registered); if it is lost for good: `rhumbline node decommission`"
    return Finding(subject, FAULT, detail, _DOWN)


def _judge_reachable(subject: str, view: BookieView, detail: str) -> Finding:
    """Judge a bookie that accepts connections by its mode and by what it reports."""
    known = view.status.statistics
    problems: list[tuple[str, str, str]] = []  # verdict, words, alert
    if known.get("failure"):
        problems.append((FAULT, f"failed: {known['failure']}", _DOWN))
    if known.get("damaged_ranges"):
        damages = show_count(known["damaged_ranges"], "damaged byte range")
        problems.append((FAULT, f"{damages} not repaired yet", _DAMAGED))
    for directory in known.get("failed_directories", ()):
        lost = show_count(known["lost_files"], "lost file")
        words = f"data directory {directory} failed, {lost} not restored yet"
        problems.append((FAULT, words, _DAMAGED))
    for directory, numbers in known.get("data_directory", {}).items():
        if numbers["full"]:
            free = show_bytes(numbers["free_bytes"])
            words = f"data directory {directory} is full; free: {free}"
            problems.append((WARNING, words, "RhumblineDiskSpaceLow"))
    if view.limbo:
        problems.append((WARNING, f"in limbo: {view.limbo}", _DAMAGED))
    if view.mode is BookieMode.READ_ONLY:
        free = "unknown" if view.free_bytes is None else show_bytes(view.free_bytes)
        words = f"read-only; free disk space: {free}{_space_words(known)}"
        problems.append((FAULT, words, "RhumblineBookieReadOnly"))
    elif view.mode not in (BookieMode.WRITABLE, BookieMode.LIMBO):
        problems.append((WARNING, view.mode.value, "RhumblineDrainUnfinished"))
    if not view.status.is_known and view.status_address is not None:
        problems.append((WARNING, f"its status server: {view.status.error}", _DOWN))
    detail = ", ".join([detail, *(words for _, words, _ in problems)])
    verdict, _, alert = min(problems, key=lambda one: one[0] != FAULT, default=(OK, "", ""))
    return Finding(subject, verdict, detail, alert)


def _space_words(known: Mapping[str, Any]) -> str:
    """Return what a bookie without space does about it, from its statistics."""
    match known.get("space"):
        case "freeing":
            surplus = known.get("ledgers_surplus", 0)
            if not surplus:
                return "; it looks for garbage and removes it"
            waiting = show_count(surplus, "ledger")
            return f"; it removes garbage; {waiting} that repair moved away stay for surplus_ms"
        case "blocked":
            return f"; it cannot free space: {'; '.join(known.get('space_obstacles', ()))}"
        case "exhausted":
            return "; everything on it is live: delete or move data"
    return ""


def check_proxies(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Check that each registered proxy responds."""
    if not rows:
        return [Finding("proxies", OK, "none is registered")]
    found = []
    for row in rows:
        detail = f"{row['roles']} proxy in {row['region'] or 'no region'}, {row['mode']}"
        if row["owned_streams"] is not None:
            detail += f", owns {show_count(row['owned_streams'], 'stream')}"
        verdict = {ACCEPTING: OK, DRAINING: WARNING}.get(row["mode"], FAULT)
        found.append(Finding(f"proxy {row['address']}", verdict, detail, "RhumblineProxyDown"))
    return found


async def check_repair(
    client: Client, bookies: Sequence[BookieView], servers: Sequence[ServerRecord]
) -> AsyncIterator[Finding]:
    """Check that repair runs in each store, and that no ledger waits for it."""
    is_needed = any(view.registration is None and view.is_known for view in bookies)
    yield await _check_store("repair", client.global_store, is_needed=is_needed)
    for region in client.regional_regions:
        try:
            store = await client.namespaces.store_of(region)
        except RhumblineError:
            continue  # reported with the stores
        yield await _check_store(f"repair in {region}", store, is_needed=is_needed)
    addresses = {
        one.status_address: parse_address(one.status_address)
        for one in servers
        if one.kind == "repair"
    }
    for address, status in (await read_statuses(addresses)).items():
        subject = f"repair process {address}"
        if not status.is_known:
            yield Finding(subject, FAULT, str(status.error))
        elif not status.statistics.get("working"):
            error = status.statistics.get("last_error") or "it is starting"
            yield Finding(subject, WARNING, f"does not work: {error}")
        else:
            role = "audits the cluster" if status.statistics.get("auditor") else "repairs"
            yield Finding(subject, OK, role)


async def _check_store(subject: str, store: StoreClient, *, is_needed: bool) -> Finding:
    known = TaskStore(store.store)
    tasks, auditor = await known.all(), await known.auditor()
    missing = "no repair process runs: start `rhumbline repair run`"
    if tasks:
        detail = _describe_tasks(tasks) + ("" if auditor else f"; {missing}")
        return Finding(subject, FAULT, detail)
    if auditor is None:
        return Finding(subject, FAULT if is_needed else WARNING, missing)
    return Finding(subject, OK, "no ledger is queued for repair")


def _describe_tasks(tasks: Sequence[RepairTask]) -> str:
    stuck = [task for task in tasks if task.stuck]
    detail = show_count(len(tasks), "ledger needs repair", "ledgers need repair")
    if stuck:
        reasons = "; ".join(f"{task.ledger_id}: {task.stuck}" for task in stuck[:_TASKS_SHOWN])
        detail += f", {len(stuck)} cannot be repaired now: {reasons}"
    hopeless = sum(task.is_hopeless for task in tasks)
    return detail + (f"; {hopeless} have entries without any copy" if hopeless else "")

"""Reads the work in progress of a cluster: repair, drains, rebalancing, archiving, migration."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from ....backends.migration_record import read_migration
from ....client.connect import Client
from ....client.store_client import StoreClient
from ....client.system_runtime import SystemClock
from ....core.protocol.errors import RhumblineError
from ....regions.rebalance.order_store import OrderStore, RebalanceProgress
from ....regions.repair.drain_records import DrainRecords
from ....regions.repair.progress import NO_REPAIR, count_all_remaining, unplaceable_quorums
from ....regions.repair.task_store import TaskStore
from ....server.server_directory import ServerRecord, list_servers
from ...operate.drains.orders import leaves_bookie
from ...operate.drains.progress import as_document, leaving_targets
from ...operate.opened_cluster import Cluster
from ...overview.status_documents import StatusDocument, parse_address, read_statuses
from .blocked_work import blocked_work

_TASKS_SHOWN = 100
_AGE_S_MIN = 2.0
_READ_SHARE = 10
"""Reading takes at most a tenth of the time: a drain is measured by a scan of all ledgers."""
_GLOBAL = "global"
_DOWN_SHOWN = 8
"""Bookies that are down and whose copies are counted, in each store."""


async def stores_of(client: Client) -> tuple[dict[str, StoreClient], dict[str, str]]:
    """Return the metadata stores by region, the global one first, and why others are missing."""
    found = {_GLOBAL: client.global_store}
    missing = {}
    for region in client.regional_regions:
        try:
            found[region] = await client.namespaces.store_of(region)
        except RhumblineError as error:
            missing[str(region)] = str(error)
    return found, missing


def parts_of(store: StoreClient) -> Cluster:
    """Return the parts of a store that orders about bookies and regions use."""
    drains = DrainRecords(store.store)
    return Cluster(store.store, store.directory, store.ledger_store, TaskStore(store.store), drains)


class OperationsView:
    """Reads the work in progress, at most one reading at a time; the last one is kept."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turn = asyncio.Lock()
        self._found: dict[str, Any] | None = None
        self._read_at = 0.0
        self._took_s = 0.0

    def forget(self) -> None:
        """Read again at the next request, because something was ordered."""
        self._found = None

    async def read(self) -> dict[str, Any]:
        """Return the work in progress. Raises MetadataUnavailableError."""
        async with self._turn:
            clock = asyncio.get_running_loop().time
            began = clock()
            age_s_max = max(_AGE_S_MIN, _READ_SHARE * self._took_s)
            found = self._found
            if found is None or began - self._read_at > age_s_max:
                self._found = found = await self._read()
                self._read_at, self._took_s = clock(), clock() - began
            return found

    async def _read(self) -> dict[str, Any]:
        client = self._client
        stores, missing = await stores_of(client)
        servers = [one for one in await list_servers(client.store) if one.kind == "archive"]
        addresses = {one.status_address: parse_address(one.status_address) for one in servers}
        archivers = await read_statuses(addresses)
        drains, down = [], []
        for name, store in stores.items():
            found = await _moves(name, store)
            drains += found.drains
            down += found.down
        document = {
            "repair": [await _repair(name, store) for name, store in stores.items()],
            "drains": drains,
            "down": down,
            "rebalance": await _rebalance(client),
            "archiving": [_archiver(one, archivers[one.status_address]) for one in servers],
            "migration": await _migration(client),
            "stores": [
                *({"store": name, "error": None} for name in stores),
                *({"store": name, "error": error} for name, error in missing.items()),
            ],
        }
        return {**document, "blocked": blocked_work(document)}


class _Moves(NamedTuple):
    """The copies of one store that move, or would move, to other bookies."""

    drains: list[dict[str, Any]]
    down: list[dict[str, Any]]


async def _repair(name: str, store: StoreClient) -> dict[str, Any]:
    tasks = TaskStore(store.store)
    ids = await tasks.ids()
    shown = [task for one in ids[:_TASKS_SHOWN] if (task := await tasks.get(one)) is not None]
    auditor = await tasks.auditor()
    return {
        "store": name,
        "auditor": auditor,
        "obstacle": NO_REPAIR if auditor is None else None,
        "waiting": len(ids),
        "ledgers": [
            {
                "ledger": task.ledger_id,
                "why": task.why,
                "since_ms": task.since_ms,
                "stuck": task.stuck or None,
                "hopeless": task.is_hopeless,
            }
            for task in sorted(shown, key=lambda task: (not task.is_hopeless, not task.stuck))
        ],
    }


async def _moves(name: str, store: StoreClient) -> _Moves:
    """Return the drains, and for each bookie that is down what a drain of it would do."""
    parts, directory = parts_of(store), store.directory
    draining = leaving_targets(await directory.states.read())
    up = set(await directory.up())
    absent = [one for one in sorted(await directory.all_known()) if one not in up]
    planned = {str(one): leaves_bookie(one) for one in absent if one not in draining}
    examined = dict(list(planned.items())[:_DOWN_SHOWN])
    if not draining and not examined:
        return _Moves([], [])
    now_ms = SystemClock().wall_ms()
    found = await count_all_remaining(
        store.ledger_store, directory, parts.tasks, {**draining, **examined}
    )
    drains, down = [], []
    for target, remaining in found.items():
        begun = await parts.drains.read(target) if target in draining else None
        eta_ms = None if begun is None else begun.left_ms(remaining.entries, now_ms)
        row = {**as_document(target, remaining, eta_ms), "store": name}
        row["reasons"] = Counter(one.reason for one in remaining.blocked)
        if target in draining:
            drains.append({**row, "entries_before": begun.entries if begun else None})
        else:
            is_leaving = examined[target]
            row["obstacles"] = await unplaceable_quorums(remaining, directory, is_leaving)
            down.append({**row, "others_down": len(planned) - len(examined)})
    return _Moves(drains, down)


async def _migration(client: Client) -> dict[str, Any] | None:
    """Return the progress of a migration of the global store."""
    found = await read_migration(client.store)
    if found is None:
        return None
    now_ms = SystemClock().wall_ms()
    return {
        "source": found.source,
        "target": found.target,
        "step": found.step,
        "nodes": found.nodes,
        "changes": found.changes,
        "began_ms": found.began_ms,
        "is_interrupted": found.is_interrupted(now_ms),
    }


async def _rebalance(client: Client) -> dict[str, Any] | None:
    orders = OrderStore(client.store)
    order = await orders.read()
    if order is None:
        return None
    progress = await orders.read_progress()
    if progress is None or progress.ordered_ms != order.ordered_ms:
        progress = RebalanceProgress(order.ordered_ms)
    return {
        "status": order.status.value,
        "moved_bytes": progress.moved_bytes,
        "left_bytes": progress.left_bytes,
        "left_copies": progress.left_copies,
        "obstacle": progress.last_error or None,
    }


def _archiver(server: ServerRecord, status: StatusDocument) -> dict[str, Any]:
    known: Mapping[str, Any] = status.statistics
    return {
        "server": server.status_address,
        "region": server.region,
        "archived": known.get("archived"),
        "waiting": known.get("waiting_segments"),
        "behind_ms": known.get("behind_ms"),
        "failures": known.get("failures"),
        "obstacle": status.error,
    }

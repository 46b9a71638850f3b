"""Reads the work in progress of a cluster: repair, drains, rebalancing, archiving, migration."""

import asyncio
from collections.abc import Mapping
from typing import Any

from ....client.connect import Client
from ....client.store_client import StoreClient
from ....core.protocol.errors import RhumblineError
from ....regions.rebalance.order_store import OrderStore, RebalanceProgress
from ....regions.repair.drain_records import DrainRecords
from ....regions.repair.progress import NO_REPAIR
from ....regions.repair.task_store import TaskStore
from ....server.server_directory import ServerRecord, list_servers
from ...operate.drains.progress import leaving_targets, running_drains
from ...operate.opened_cluster import Cluster
from ...overview.status_documents import StatusDocument, parse_address, read_statuses

_TASKS_SHOWN = 100
_AGE_S_MIN = 2.0
_READ_SHARE = 10
"""Reading takes at most a tenth of the time: a drain is measured by a scan of all ledgers."""
_GLOBAL = "global"


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
    return Cluster(store.directory, store.ledger_store, TaskStore(store.store), drains)


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
        return {
            "repair": [await _repair(name, store) for name, store in stores.items()],
            "drains": [row for name, one in stores.items() for row in await _drains(name, one)],
            "rebalance": await _rebalance(client),
            "archiving": [_archiver(one, archivers[one.status_address]) for one in servers],
            "stores": [
                *({"store": name, "error": None} for name in stores),
                *({"store": name, "error": error} for name, error in missing.items()),
            ],
        }


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


async def _drains(name: str, store: StoreClient) -> list[dict[str, Any]]:
    parts = parts_of(store)
    if not leaving_targets(await store.directory.states.read()):
        return []
    rows = []
    for row in await running_drains(parts):
        begun = await parts.drains.read(row["target"])
        rows.append({**row, "store": name, "entries_before": begun.entries if begun else None})
    return rows


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

"""Reads the rows of the tables from a cluster."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from ...client.connect import Client
from ...core.log.metadata.stream_description import StreamDescription
from ...core.log.namespace import Namespace
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.errors import NoSuchStreamError, RhumblineError
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.runtime.metrics import samples
from ...proxies.write.claims import Claims
from ...regions.ledger_scan import all_ledgers
from ...server.server_directory import list_servers
from ..output_form import iso_time
from ..overview.bookies import read_bookies
from ..overview.proxies import read_proxies
from ..overview.status_documents import parse_address, read_statuses
from ..overview.streams import read_lags, read_live_end

Rows = list[dict[str, Any]]

_SERVICES = {"write-proxy": "proxy", "read-proxy": "proxy"}
_PAGE = 1000


class TableLoader:
    """Loads tables, each with at most ``rows_max`` rows; ``cut`` names those that have more."""

    def __init__(self, client: Client, rows_max: int) -> None:
        self.cut: list[str] = []
        self._client = client
        self._rows_max = rows_max
        self._loaders: Mapping[str, Callable[[], Awaitable[Rows]]] = {
            "streams": self._streams,
            "segments": self._segments,
            "subscriptions": self._subscriptions,
            "ledgers": self._ledgers,
            "fragments": self._fragments,
            "bookies": self._bookies,
            "proxies": self._proxies,
            "metrics": self._metrics,
        }

    async def load(self, name: str) -> Rows:
        """Return the rows of a table. Raises MetadataUnavailableError."""
        rows = await self._loaders[name]()
        if len(rows) > self._rows_max:
            self.cut.append(name)
        return rows[: self._rows_max]

    async def _described(self) -> AsyncIterator[tuple[Namespace, StreamDescription]]:
        client = self._client
        async for name, _ in client.namespaces.all():
            namespace = client.namespace_of(await client.namespaces.find(name), name)
            after: str | None = None
            while page := await namespace.streams(after=after, limit=_PAGE):
                for stream in page:
                    try:
                        yield namespace, await namespace.describe(stream)
                    except NoSuchStreamError:
                        continue  # deleted meanwhile
                after = page[-1]

    async def _streams(self) -> Rows:
        rows: Rows = []
        async for namespace, known in self._described():
            done = [segment for segment in known.segments if segment.is_completed]
            claims = Claims(namespace.store)
            claim = await claims.owner(namespace.name, known.name)
            rows.append(
                {
                    "namespace": namespace.name,
                    "stream": known.name,
                    "segments": len(known.segments),
                    "open_segments": len(known.segments) - len(done),
                    "records": sum(segment.record_count for segment in done),
                    "size_bytes": sum(segment.length_bytes for segment in done),
                    "start": str(known.start),
                    "quorum": str(known.policy.quorum),
                    "follows_namespace": known.follows_namespace,
                    "is_sealed": known.is_sealed,
                    "owner": None if claim is None else claim.address,
                    "home_region": await claims.home(namespace.name, known.name) or None,
                }
            )
            if len(rows) > self._rows_max:
                break
        return rows

    async def _segments(self) -> Rows:
        rows: Rows = []
        async for namespace, known in self._described():
            for segment in known.segments:
                is_done = segment.is_completed
                rows.append(
                    {
                        "namespace": namespace.name,
                        "stream": known.name,
                        "segment": segment.lssn,
                        "state": "completed" if is_done else "in progress",
                        "ledger": segment.ledger_id,
                        "records": segment.record_count if is_done else None,
                        "size_bytes": segment.length_bytes if is_done else None,
                        "residence": segment.residence.value,
                        "created_at": iso_time(segment.created_ms),
                        "completed_at": iso_time(segment.completed_ms) if is_done else None,
                    }
                )
            if len(rows) > self._rows_max:
                break
        return rows

    async def _subscriptions(self) -> Rows:
        rows: Rows = []
        async for namespace, known in self._described():
            if not await namespace.subscriptions.names(known.name, limit=1):
                continue
            found = await read_lags(namespace, known, await read_live_end(namespace, known))
            rows += [{"namespace": namespace.name, "stream": known.name, **row} for row in found]
            if len(rows) > self._rows_max:
                break
        return rows

    async def _all_ledgers(self) -> AsyncIterator[LedgerMetadata]:
        async for metadata, _ in all_ledgers(LedgerStore(self._client.store), lambda _error: None):
            yield metadata

    async def _ledgers(self) -> Rows:
        rows: Rows = []
        async for metadata in self._all_ledgers():
            quorum, is_closed = metadata.quorum_at(0), metadata.state is LedgerState.CLOSED
            rows.append(
                {
                    "ledger": metadata.ledger_id,
                    "state": metadata.state.name,
                    "ensemble_size": quorum.ensemble_size,
                    "write_quorum": quorum.write_quorum,
                    "ack_quorum": quorum.ack_quorum,
                    "min_regions": quorum.min_regions,
                    "last_entry": metadata.last_entry_id if is_closed else None,
                    "length_bytes": metadata.length if is_closed else None,
                    "fragments": len(metadata.fragments),
                }
            )
            if len(rows) > self._rows_max:
                break
        return rows

    async def _fragments(self) -> Rows:
        rows: Rows = []
        async for metadata in self._all_ledgers():
            for fragment in metadata.fragments:
                rows += [
                    {
                        "ledger": metadata.ledger_id,
                        "first_entry": fragment.first_entry_id,
                        "position": position,
                        "bookie": bookie,
                    }
                    for position, bookie in enumerate(fragment.bookies)
                ]
            if len(rows) > self._rows_max:
                break
        return rows

    async def _bookies(self) -> Rows:
        client = self._client
        return [view.as_row() for view in await read_bookies(client.store, client.directory)]

    async def _proxies(self) -> Rows:
        return await read_proxies(self._client.store)

    async def _metrics(self) -> Rows:
        client = self._client
        bookies = await read_bookies(client.store, client.directory)
        known = [(view.bookie, "bookie", view.status) for view in bookies]
        servers = await list_servers(client.store)
        statuses = await read_statuses(
            {one.status_address: parse_address(one.status_address) for one in servers}
        )
        rows: Rows = []
        for server, kind, status in [
            *known,
            *((one.status_address, one.kind, statuses[one.status_address]) for one in servers),
        ]:
            if status.is_known:
                rows += _metrics_of(str(server), kind, status.statistics)
        return rows


def _metrics_of(server: str, kind: str, statistics: Mapping[str, Any]) -> Rows:
    try:
        found = samples(_SERVICES.get(kind, kind), statistics)
    except (RhumblineError, KeyError, TypeError):
        return []  # a server of another version reports in another form
    return [
        {
            "server": server,
            "kind": kind,
            "metric": metric.prometheus_name + (f"_{value.part}" if value.part else ""),
            "labels": json.dumps(dict(value.labels)),
            "value": float(value.value),
        }
        for metric, values in found.items()
        for value in values
    ]

"""Reads what the pages show of streams: the rows of a list, and one stream with its segments."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from ....client.connect import Client
from ....client.store_client import StoreClient
from ....core.log.namespace import Namespace
from ....core.protocol.errors import NoSuchLedgerError, RhumblineError
from ....core.protocol.segments import Segment
from ....proxies.write.claims import Claims
from ....server.server_directory import list_servers
from ...overview.status_documents import parse_address, read_status
from ...overview.streams import read_lags, read_live_end
from ...streams.segment import COMPLETED, segment_row
from ...top.rates import rate
from ...top.sample import StreamSample, examine_stream
from .stream_names import StreamName

_AT_ONCE = 8
_REMEMBERED_MAX = 10_000
_ROWS_MAX = 1_000
_ROW_S_MAX = 1.0
"""Age of a row that another visitor may get."""
_NAMES_ASKED = 12
"""Streams in one request to a proxy, whose status server limits the size of requests."""
_SEGMENTS_SHOWN = 100
"""The newest segments of a stream are shown one by one, the older ones as one sum."""


class StreamView:
    """Examines streams, and remembers the last counts of records for the rates."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._counts: OrderedDict[StreamName, tuple[float, int]] = OrderedDict()
        self._rows: OrderedDict[StreamName, tuple[float, dict[str, Any]]] = OrderedDict()

    async def rows(self, names: Sequence[StreamName]) -> list[dict[str, Any]]:
        """Return what is known of each stream. Values that are not known are null.

        Visitors who look at the same streams within a second share the rows.
        """
        slots = asyncio.Semaphore(_AT_ONCE)
        loop = asyncio.get_running_loop()

        async def row(name: StreamName) -> dict[str, Any]:
            known = self._rows.get(name)
            if known is not None and loop.time() - known[0] < _ROW_S_MAX:
                return known[1]
            async with slots:
                try:
                    sample = await examine_stream(await self.open(name), name.stream)
                except RhumblineError:
                    sample = None
            found = self._row(name, sample)
            self._rows[name] = loop.time(), found
            self._rows.move_to_end(name)
            if len(self._rows) > _ROWS_MAX:
                self._rows.popitem(last=False)
            return found

        rows = list(await asyncio.gather(*map(row, names)))
        await self._add_latencies([one for one in rows if "append_p99_ms" not in one])
        return rows

    async def _add_latencies(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add to rows of streams how long appends take, as their proxies measure it."""
        by_owner: dict[str, list[dict[str, Any]]] = {}
        for one in rows:
            one["append_p50_ms"] = one["append_p99_ms"] = None
            if one["owner"] is not None:
                by_owner.setdefault(one["owner"], []).append(one)
        try:
            servers = await list_servers(self._client.store) if by_owner else []
        except RhumblineError:
            return  # the times stay unknown; the page says that the store does not respond
        addresses = {one.address: one.status_address for one in servers}
        slots = asyncio.Semaphore(_AT_ONCE)

        async def ask(owner: str, served: Sequence[dict[str, Any]]) -> None:
            names = [f"{one['namespace']}/{one['stream']}" for one in served]
            address = parse_address(addresses.get(owner, ""))
            async with slots:
                known = await read_status(address, f"/streams?{urlencode({'name': names}, True)}")
            for one, name in zip(served, names, strict=True):
                found = known.statistics.get(name) or {}
                one["append_p50_ms"] = found.get("p50_ms")
                one["append_p99_ms"] = found.get("p99_ms")

        await asyncio.gather(
            *(
                ask(owner, served[first : first + _NAMES_ASKED])
                for owner, served in by_owner.items()
                for first in range(0, len(served), _NAMES_ASKED)
            )
        )

    async def open(self, name: StreamName) -> Namespace:
        """Return the namespace of a stream. Raises MetadataUnavailableError."""
        return self._client.namespace_of(await self._store(name), name.namespace)

    async def describe(self, name: StreamName) -> dict[str, Any]:
        """Return a stream with its segments and subscriptions.

        Raises NoSuchStreamError, MetadataUnavailableError.
        """
        store = await self._store(name)
        namespace = self._client.namespace_of(store, name.namespace)
        known = await namespace.describe(name.stream)
        end = await read_live_end(namespace, known)
        claim = await Claims(namespace.store).owner(name.namespace, name.stream)
        records = end.total_records(known)
        owner = None if claim is None else claim.address
        served = {"namespace": name.namespace, "stream": name.stream, "owner": owner}
        await self._add_latencies([served])
        shown = known.segments[-_SEGMENTS_SHOWN:]
        older = known.segments[: -len(shown)] if shown else ()
        return {
            **served,
            "start": str(known.start),
            "end": None if end.position is None else str(end.position),
            "records": records,
            "records_per_second": self._rate(name, records),
            "size_bytes": sum(one.length_bytes for one in known.segments if one.is_completed),
            "quorum": str(known.policy.quorum),
            "is_ended": known.is_ended,
            "is_sealed": known.is_sealed,
            "metadata_age_ms": known.metadata_age_ms,
            "older": {
                "segments": len(older),
                "records": sum(one.record_count for one in older),
                "size_bytes": sum(one.length_bytes for one in older),
            },
            "segments": await self._segments(store, shown, end.open_records),
            "subscriptions": await read_lags(namespace, known, end),
        }

    async def _segments(
        self, store: StoreClient, shown: Sequence[Segment], live: Mapping[int, int | None]
    ) -> list[dict[str, Any]]:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def read(one: Segment) -> dict[str, Any]:
            async with slots:
                return await _segment(store, one, live.get(one.lssn))

        return list(await asyncio.gather(*map(read, shown)))

    async def _store(self, name: StreamName) -> StoreClient:
        return await self._client.namespaces.find(name.namespace)

    def _row(self, name: StreamName, found: StreamSample | None) -> dict[str, Any]:
        records = None if found is None else found.count.records
        return {
            "namespace": name.namespace,
            "stream": name.stream,
            "records": records,
            "records_per_second": self._rate(name, records),
            "end": None if found is None else str(found.count.position).partition("@")[0],
            "lag_records": None if found is None else found.lag_records,
            "owner": None if found is None else found.owner,
        }

    def _rate(self, name: StreamName, records: int | None) -> float | None:
        """Return the records per second since the last look at the stream, if there was one."""
        if records is None:
            return None
        now = asyncio.get_running_loop().time()
        before = self._counts.pop(name, None)
        self._counts[name] = now, records
        if len(self._counts) > _REMEMBERED_MAX:
            self._counts.popitem(last=False)
        return None if before is None else rate(before[1], records, now - before[0])


async def _segment(store: StoreClient, found: Segment, live: int | None) -> dict[str, Any]:
    """Return a segment as ``segment ls`` does, with the region of each bookie.

    A segment in progress has the records that are readable now. One whose ledger was deleted after
    it was archived has no bookies.
    """
    try:
        row = await segment_row(store, found)
    except NoSuchLedgerError:
        return {
            "segment": found.lssn,
            "state": COMPLETED,
            "ledger": found.ledger_id,
            "records": found.record_count,
            "size_bytes": found.length_bytes,
            "residence": found.residence.value,
            "copies": {},
        }
    copies = {b: await store.directory.region_of(b) or "unknown" for b in row["bookies"]}
    records = row["records"] if found.is_completed else live
    kept = ("segment", "state", "ledger", "size_bytes", "residence", "quorum", "fragments")
    return {**{key: row[key] for key in kept}, "records": records, "copies": copies}

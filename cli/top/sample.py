"""A sample of a cluster: what its servers and streams report at one time."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...client.connect import Client
from ...core.log.namespace import Namespace
from ...core.protocol.bookie_id import Region
from ...core.protocol.errors import RhumblineError
from ...proxies.write.claims import Claims
from ...regions.repair.task_store import TaskStore
from ...regions.states import PlacementState
from ...regions.subscriptions.stream_lag import StreamCount, count_records, slowest_lag
from ...server.server_directory import ServerRecord, list_servers
from ..overview.bookies import BookieView, read_bookies
from ..overview.proxies import read_proxies
from ..overview.status_documents import StatusDocument, parse_address, read_statuses

_STREAMS_PER_SAMPLE = 50
_STREAMS_KNOWN = 2_000
_LIST_EVERY = 10
"""Samples between two listings of the streams."""
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class StreamSample:
    """A stream at one time."""

    count: StreamCount
    owner: str | None
    lag_records: int | None
    """Lag of the slowest subscription; None if there is none, or if it is not known."""


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """A cluster at one time."""

    wall_ms: int
    time_s: float
    bookies: list[BookieView]
    ordered: Mapping[Region, PlacementState]
    servers: list[ServerRecord]
    statuses: Mapping[str, StatusDocument]
    """Statistics of the servers by status address."""
    proxies: list[dict[str, Any]]
    tasks: int
    """Ledgers that wait for repair."""
    auditor: str | None
    streams: Mapping[str, StreamSample]
    """Streams by ``namespace/stream``, as far as they were examined now."""
    stores: Sequence[Region] = ()
    """The regions with a metadata store of their own, by the settings."""


class Sampler:
    """Takes samples. Of many streams, each sample examines the busiest ones and some others."""

    def __init__(self, client: Client, streams_per_sample: int = _STREAMS_PER_SAMPLE) -> None:
        self._client = client
        self._tasks = TaskStore(client.store)
        self._streams_per_sample = streams_per_sample
        self._known: list[tuple[Namespace, str]] = []
        self._next = 0
        self._taken = 0
        self.busiest: list[str] = []
        """Names of the streams that every sample examines, as ``namespace/stream``."""

    async def take(self) -> ClusterSample:
        """Take a sample. Raises MetadataUnavailableError."""
        client = self._client
        bookies = await read_bookies(client.store, client.directory)
        servers = await list_servers(client.store)
        addresses = {one.status_address: parse_address(one.status_address) for one in servers}
        if self._taken % _LIST_EVERY == 0:
            self._known = await self._list_streams()
        self._taken += 1
        return ClusterSample(
            client.runtime.clock.wall_ms(),
            asyncio.get_running_loop().time(),
            bookies,
            (await client.directory.states.read()).regions,
            servers,
            await read_statuses(addresses),
            await read_proxies(client.store),
            len(await self._tasks.ids(None)),
            await self._tasks.auditor(),
            await self._examine_streams(),
            client.regional_regions,
        )

    async def _list_streams(self) -> list[tuple[Namespace, str]]:
        client, found = self._client, list[tuple[Namespace, str]]()
        async for name, _ in client.namespaces.all():
            try:
                namespace = client.namespace_of(await client.namespaces.find(name), name)
                found += [(namespace, one) for one in await namespace.streams(limit=_STREAMS_KNOWN)]
            except RhumblineError:
                continue  # its store is out of reach; doctor says so
        return found[:_STREAMS_KNOWN]

    async def _examine_streams(self) -> dict[str, StreamSample]:
        most = self._streams_per_sample
        busy = set(self.busiest[: most // 2])
        chosen = [one for one in self._known if _name_of(one) in busy]
        for _ in range(min(len(self._known), most)):
            if len(chosen) == most:
                break
            self._next = (self._next + 1) % len(self._known)
            if _name_of(one := self._known[self._next]) not in busy:
                chosen.append(one)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def examine(one: tuple[Namespace, str]) -> tuple[str, StreamSample | None]:
            async with slots:
                return _name_of(one), await examine_stream(*one)

        found = await asyncio.gather(*map(examine, chosen))
        return {name: sample for name, sample in found if sample is not None}


async def examine_stream(namespace: Namespace, stream: str) -> StreamSample | None:
    """Examine one stream; None if its end is not known now."""
    count = await count_records(namespace, stream)
    if count is None:
        return None
    try:
        claim = await Claims(namespace.store).owner(namespace.name, stream)
    except RhumblineError:
        claim = None
    lag = await slowest_lag(namespace, stream, count)
    return StreamSample(count, None if claim is None else claim.address, lag)


def _name_of(one: tuple[Namespace, str]) -> str:
    return f"{one[0].name}/{one[1]}"

"""The read proxy, without gRPC: the streams that are read, their cache, the routing of readers.

Implements rules PRX-18 and PRX-22.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ...core.log.namespace import Namespace
from ...core.log.read.entry_source import EntryFetcher
from ...core.log.read.reader_lag import ReaderLags
from ...core.log.read.stream_reader import StreamReader
from ...core.protocol.dlsn import Dlsn, dlsn_in
from ...core.protocol.errors import NoSuchStreamError, NotOwnerError, TooManyRequestsError
from ...core.protocol.start import LATEST, Start
from ..config import ProxyConfig
from ..membership import READ, WRITE, ProxyMembership
from ..routing import Routing, stream_key
from .block_cache import BlockCache, StreamKey
from .entry_block import EntryPosition
from .read_cursor import ReadCursor
from .shared_stream import SharedStream, SharingCounts


class OpenedRead(NamedTuple):
    """An open read of one reader."""

    cursor: ReadCursor
    position: Dlsn
    truncated: Dlsn | None
    """The requested position if it was truncated, else None."""
    metadata_age_ms: int | None
    """See ``StreamReader.metadata_age_ms``; of the end, too, if the reader stops there."""
    key: str
    arrival: "Arrival"


class Arrival(NamedTuple):
    """The state when a reader arrived, used to decide later whether to redirect it."""

    tried: tuple[str, ...]
    """Addresses at which the reader was not served before."""
    members: frozenset[str]
    """Member ids of the read proxies that were registered then."""
    regions: frozenset[str]
    """Regions of the addresses that it tried, as far as they are known."""
    generation: int


class ReadProxy:
    """The read proxy of one event loop. Reads each stream once for all its readers."""

    def __init__(
        self,
        namespaces: Callable[[str], Namespace],
        membership: ProxyMembership,
        config: ProxyConfig,
    ) -> None:
        self.reader_count = 0
        self.generation = 0
        """Changes with the member list; ``find_better_proxy`` has the same result until then."""
        self._namespaces = namespaces
        self._membership = membership
        self._config = config
        self._cache = BlockCache(config.cache_bytes_max)
        self._streams: dict[StreamKey, SharedStream] = {}
        self._counts = SharingCounts()
        self._catch_up = asyncio.Semaphore(config.catch_up_fetches_max)
        self._lags = ReaderLags()
        self._routing = self._routes()
        membership.on_members.append(self._members_changed)

    async def open(
        self,
        namespace: str,
        stream: str,
        start: Start,
        *,
        stops_at_end: bool = False,
        advances_if_truncated: bool = False,
        tried: tuple[str, ...] = (),
    ) -> OpenedRead:
        """Begin to read a stream. Call ``close`` with the result in the end.

        Raises NotOwnerError (another read proxy of the region reads this stream),
        TooManyRequestsError, NoSuchStreamError, TruncatedError.
        """
        key = stream_key(namespace, stream)
        self._check_preferred(key, tried)
        if self.reader_count >= self._config.readers_max:
            raise TooManyRequestsError(
                f"this proxy has reached its limit of {self.reader_count} readers"
            )
        self.reader_count += 1
        arrival = self._arrival(tried)
        try:
            return await self._open(key, namespace, stream, start, stops_at_end,
                                    advances_if_truncated, arrival)  # fmt: skip
        except BaseException:
            self.reader_count -= 1
            raise

    async def _open(
        self, key: str, namespace: str, stream: str, start: Start, stops_at_end: bool,
        advances_if_truncated: bool, arrival: Arrival,
    ) -> OpenedRead:  # fmt: skip
        opened = self._namespaces(namespace)
        truncated: list[Dlsn] = []
        on_truncated = (
            (lambda wanted, _: truncated.append(wanted)) if advances_if_truncated else None
        )
        reader = await opened.open_reader(stream, start, on_truncated=on_truncated)
        identity = (key, reader.stream_id)
        end: EntryPosition = reader.position[:2]
        age_ms = reader.metadata_age_ms
        if stops_at_end or not (start is LATEST or identity in self._streams):
            latest = await opened.open_reader(stream, LATEST)
            if latest.stream_id != reader.stream_id:
                raise NoSuchStreamError(f"stream {stream} was deleted while it was opened")
            end = latest.position[:2]
            if stops_at_end:
                age_ms = latest.metadata_age_ms
        shared = self._share(identity, opened, reader, end)
        cursor = ReadCursor(shared, reader.source, end=end if stops_at_end else None)
        self._lags.add(cursor.lag)
        skipped = truncated[0] if truncated else None
        return OpenedRead(cursor, reader.position, skipped, age_ms, key, arrival)

    def _share(
        self, key: StreamKey, namespace: Namespace, reader: StreamReader, end: EntryPosition
    ) -> SharedStream:
        async def reopen(position: EntryPosition) -> EntryFetcher:
            continued = dlsn_in(reader.stream_id, *position, 0)
            return (await namespace.open_reader(reader.stream, continued)).source

        shared = self._streams.get(key)
        if shared is None:
            shared = SharedStream(key, self._cache, self._counts, reopen, end, self._catch_up)
            self._streams[key] = shared
        shared.learn_end(end)
        shared.readers += 1
        return shared

    async def close(self, opened: OpenedRead) -> None:
        """End a read; the last reader of a stream closes it. Must be called once for each read."""
        self.reader_count -= 1
        cursor, shared = opened.cursor, opened.cursor.stream
        self._lags.discard(cursor.lag)
        shared.readers -= 1
        if shared.readers == 0 and self._streams.get(shared.key) is shared:
            del self._streams[shared.key]
        await cursor.aclose()
        if shared.readers == 0:
            await shared.aclose()

    async def aclose(self) -> None:
        """Stop reading all streams. Safe to repeat."""
        streams, self._streams = self._streams, {}
        for shared in streams.values():
            await shared.aclose()

    def statistics(self) -> dict[str, int]:
        """Return counters and sizes for metrics."""
        counts = self._counts
        return {
            "readers": self.reader_count,
            "streams": len(self._streams),
            "runs": sum(shared.run_count for shared in self._streams.values()),
            "behind_ms": self._lags.statistics()["behind_ms"],
            "cached_bytes": self._cache.bytes,
            "fetches_waiting": counts.fetches_waiting,
            "fetched_entries": counts.fetched_entries,
            "fetched_bytes": counts.fetched_bytes,
            "delivered_bytes": counts.delivered_bytes,
            "cache_hits": counts.hits,
            "cache_misses": counts.misses,
            "cache_evictions": self._cache.evicted,
        }

    # --- routing --------------------------------------------------------------------------------

    def _routes(self) -> Routing:
        region = self._membership.own_member.region
        return Routing([m for m in self._membership.members(READ) if m.region == region])

    def _members_changed(self) -> None:
        self._routing = self._routes()
        self.generation += 1

    def _check_preferred(self, key: str, tried: tuple[str, ...]) -> None:
        own_member = self._membership.own_member
        without = [address for address in tried if address != own_member.address]
        best = self._routing.preferred(key, own_member.region, without=without)
        if best is not None and best.address != own_member.address:
            raise NotOwnerError(
                f"read proxy {best.address} serves stream {key} in this region", best.address
            )

    def _arrival(self, tried: tuple[str, ...]) -> Arrival:
        readers = self._membership.members(READ)
        return Arrival(
            tried,
            frozenset(reader.id for reader in readers),
            frozenset(
                member.region
                for member in (*readers, *self._membership.members(WRITE))
                if member.address in tried
            ),
            self.generation,
        )

    def find_better_proxy(self, opened: OpenedRead) -> str:
        """Return the address of a proxy that appeared since the reader arrived and should serve it,
        or "".

        In this region that is the preferred proxy; elsewhere it is a proxy at an address or in a
        region that the reader tried before. A region that had no read proxies or was cut off thus
        gets its readers back and reads each stream once again. A proxy that was registered all the
        time does not count, because the reader had a reason not to use it.
        """
        own_member = self._membership.own_member
        tried, known, regions, _ = opened.arrival
        best = self._routing.preferred(opened.key, own_member.region)
        if best is not None and best.address != own_member.address and best.id not in known:
            return best.address
        for other in self._membership.members(READ):
            is_new = (
                other.is_accepting and other.id not in known and other.region != own_member.region
            )
            if is_new and (other.address in tried or other.region in regions):
                return other.address
        return ""

"""The read proxy, apart from gRPC: the tails of its streams, and who reads where."""

from collections.abc import Callable
from typing import NamedTuple

from ...core.log.namespace import Namespace
from ...core.log.read.entry_source import Entries
from ...core.log.read.positioning import LATEST, Start
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import NotOwnerError, TooManyRequestsError
from ..config import ProxyConfig
from ..membership import READ, WRITE, ProxyMembership
from ..routing import Routing, stream_key
from .shared_tail import BlockCache, Cursor, Place, StreamTail


class SharedTail:
    """A tail and how many read from it."""

    __slots__ = ("readers", "tail")

    def __init__(self, tail: StreamTail) -> None:
        self.tail = tail
        self.readers = 0


class OpenedTail(NamedTuple):
    """A read that begins."""

    cursor: Cursor
    position: Dlsn
    truncated: Dlsn | None
    """The position that was wanted, if it was truncated."""
    key: str
    shared: SharedTail
    arrival: "Arrival"


class Arrival(NamedTuple):
    """How a reader came here."""

    tried: tuple[str, ...]
    """Where it was before, and was not served."""
    members: frozenset[str]
    """The sessions of the read proxies that were up then."""
    regions: frozenset[str]
    """Where it was before, as far as that was known."""
    generation: int


class ReadProxy:
    """Reads each stream once for all its readers. For one event loop."""

    def __init__(
        self, namespaces: Callable[[str], Namespace], presence: ProxyMembership, config: ProxyConfig
    ) -> None:
        self.reader_count = 0
        self.generation = 0
        """Of what is known of other proxies: as long as it stays, so does ``better_for``."""
        self._namespaces = namespaces
        self._presence = presence
        self._config = config
        self._cache = BlockCache(config.cache_bytes_max)
        self._tails: dict[str, SharedTail] = {}
        self._routing = self._routes()
        presence.on_members.append(self._members_changed)

    async def open(
        self,
        namespace: str,
        stream: str,
        start: Start,
        *,
        stops_at_end: bool = False,
        advances_if_truncated: bool = False,
        tried: tuple[str, ...] = (),
    ) -> OpenedTail:
        """Begins to read. ``close`` it in the end.

        Raises NotOwnerError (another read proxy of the region reads this stream),
        TooManyRequestsError, NoSuchStreamError, TruncatedError.
        """
        key = stream_key(namespace, stream)
        self._check_preferred(key, tried)
        if self.reader_count >= self._config.readers_max:
            raise TooManyRequestsError(f"this proxy has {self.reader_count} readers, its limit")
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
    ) -> OpenedTail:  # fmt: skip
        opened = self._namespaces(namespace)
        truncated: list[Dlsn] = []
        on_truncated = (
            (lambda wanted, _: truncated.append(wanted)) if advances_if_truncated else None
        )
        reader = await opened.open_reader(stream, start, on_truncated=on_truncated)

        async def reopen(place: Place) -> Entries:
            return (await opened.open_reader(stream, Dlsn(*place, 0))).source

        end: Place | None = None
        if stops_at_end or key not in self._tails or self._tails[key].tail.is_over:
            latest = await opened.open_reader(stream, LATEST)
            if stops_at_end:
                end = latest.position[:2]
            self._share(key, latest.source)
        shared = self._tails[key]
        shared.readers += 1
        cursor = Cursor(shared.tail, reader.source, reopen, end=end)
        skipped = truncated[0] if truncated else None
        return OpenedTail(cursor, reader.position, skipped, key, shared, arrival)

    def _share(self, key: str, source: Entries) -> None:
        known = self._tails.get(key)
        if known is None or known.tail.is_over:  # its readers keep it until they leave
            self._tails[key] = SharedTail(StreamTail(source, self._cache))

    async def close(self, opened: OpenedTail) -> None:
        """Ends a read; the last one ends the tail. To be called once."""
        self.reader_count -= 1
        shared = opened.shared
        shared.readers -= 1
        if shared.readers == 0 and self._tails.get(opened.key) is shared:
            del self._tails[opened.key]
        await opened.cursor.aclose()
        if shared.readers == 0:  # also of a tail that failed, and that new readers do not share
            await shared.tail.aclose()

    async def aclose(self) -> None:
        """Ends all tails. Safe to repeat."""
        tails, self._tails = self._tails, {}
        for shared in tails.values():
            await shared.tail.aclose()

    def statistics(self) -> dict[str, int]:
        """Counters and sizes."""
        return {
            "readers": self.reader_count,
            "tails": len(self._tails),
            "cached_bytes": self._cache.bytes,
            "tail_entries": sum(shared.tail.entry_count for shared in self._tails.values()),
        }

    # --- routing --------------------------------------------------------------------------------

    def _routes(self) -> Routing:
        region = self._presence.me.region
        return Routing([one for one in self._presence.members(READ) if one.region == region])

    def _members_changed(self) -> None:
        self._routing = self._routes()
        self.generation += 1

    def _check_preferred(self, key: str, tried: tuple[str, ...]) -> None:
        me = self._presence.me
        without = [address for address in tried if address != me.address]
        best = self._routing.preferred(key, me.region, without=without)
        if best is not None and best.address != me.address:
            raise NotOwnerError(f"{best.address} reads {key} for this region", best.address)

    def _arrival(self, tried: tuple[str, ...]) -> Arrival:
        readers = self._presence.members(READ)
        return Arrival(
            tried,
            frozenset(one.id for one in readers),
            frozenset(
                one.region
                for one in (*readers, *self._presence.members(WRITE))
                if one.address in tried
            ),
            self.generation,
        )

    def better_for(self, opened: OpenedTail) -> str:
        """A proxy that came up since this reader came, and should serve it instead; "": none.

        In this region it is the one that all agree on; in another one, where the reader came from.
        So a region that was without read proxies for a while, or was cut off, gets its readers
        back, and reads each entry once for all of them again. One that was up all the time does
        not count: the reader has not come here for nothing.
        """
        me = self._presence.me
        tried, known, regions, _ = opened.arrival
        best = self._routing.preferred(opened.key, me.region)
        if best is not None and best.address != me.address and best.id not in known:
            return best.address
        for one in self._presence.members(READ):
            is_new = one.is_accepting and one.id not in known and one.region != me.region
            if is_new and (one.address in tried or one.region in regions):
                return one.address
        return ""

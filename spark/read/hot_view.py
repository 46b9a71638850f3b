"""The cluster as a query's driver sees it: segments, the newest position, rows up to a position.

This is the only module of the driver that talks to servers; the client is imported when a query
names a cluster.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import InvalidArgumentError, RhumblineError, UnavailableError
from .options import Options

if TYPE_CHECKING:
    from ...client.connect import Client
    from ...proxies.client.proxy_client import ProxyClient

T = TypeVar("T")

_ATTEMPTS_MAX = 40
_PAUSE_S = 0.25
_PAGE = 1000


class HotSegment(NamedTuple):
    """A segment as metadata describes it; ``entries`` is None while it is in progress."""

    lssn: int
    entries: int | None
    record_count: int
    completed_ms: int


class HotStream(NamedTuple):
    """A stream as metadata describes it."""

    start: Dlsn
    segments: dict[int, HotSegment]
    """With those that are truncated and not yet purged."""

    def is_empty_between(self, start: Dlsn, end: Dlsn) -> bool:
        """Whether it is certain that [start, end) has no records.

        So it is from the end of a segment to the beginning of the next one: what was read to its
        end may expire.
        """
        for lssn in range(start.lssn, end.lssn + 1):
            begin = start if lssn == start.lssn else Dlsn(lssn, 0, 0)
            if begin >= end:
                break
            segment = self.segments.get(lssn)
            if segment is None or segment.entries is None:
                return False
            if segment.record_count and begin.entry_id < segment.entries:
                return False
        return True


def new_client(options: Options) -> "Client | ProxyClient":
    """A client for the cluster of the query. Raises ConfigurationError when parts are missing."""
    from ...client.connect import connect

    assert options.metadata is not None
    is_thin = options.metadata.startswith("grpc://")
    return connect(
        options.metadata,
        namespace=options.namespace,
        region=options.region,
        cold=None if is_thin else options.archive,  # proxies have a cold store of their own
    )


class HotView:
    """Looks at streams through an open client."""

    def __init__(self, client: "Client | ProxyClient") -> None:
        self._client = client

    async def describe(self, stream: str) -> HotStream:
        """Start and segments. Raises NoSuchStreamError."""
        found = await with_retries(lambda: self._client.namespace().describe(stream))
        segments = {
            one.lssn: HotSegment(
                one.lssn,
                one.last_entry_id + 1 if one.is_completed else None,
                one.record_count,
                one.completed_ms,
            )
            for one in found.segments
        }
        return HotStream(found.start, segments)

    async def end(self, stream: str) -> Dlsn:
        """Behind the last record that is visible now: an entry border."""
        from ...core.protocol.start import LATEST

        async def look() -> Dlsn:
            async with self._client.reader(stream, LATEST) as reader:
                return reader.position

        return await with_retries(look)

    async def streams(self) -> list[str]:
        """All streams of the namespace."""
        found: list[str] = []

        async def page() -> list[str]:
            after = found[-1] if found else None
            return list(await self._client.namespace().streams(after=after, limit=_PAGE))

        while names := await with_retries(page):
            found += names
        return found

    async def first_at_time(self, stream: str, begin: Dlsn, ms: int) -> Dlsn | None:
        """The first entry from ``begin`` on, in its segment, with a record made at ``ms`` or
        later; None if none is."""

        async def look() -> Dlsn | None:
            async with self._client.reader(stream, begin) as reader:
                until = min(await self.end(stream), Dlsn(begin.lssn + 1, 0, 0))
                while (batch := await reader.next_batch(until=until)) is not None:
                    if batch.lssn == begin.lssn and batch.record_set.created_ms >= ms:
                        return batch.first_dlsn._replace(slot=0)
            return None

        return await with_retries(look)

    async def border(self, stream: str, start: Dlsn, end: Dlsn, rows: int) -> Dlsn:
        """As ``StreamIndex.border``."""
        from ...core.protocol.start import AtSequenceId

        async def look() -> Dlsn:
            sequence = await self._sequence_of(stream, start, end)
            if sequence is None:
                return end
            try:
                async with self._client.reader(stream, AtSequenceId(sequence + rows)) as reader:
                    found = reader.position
            except InvalidArgumentError:
                return end  # so many records are not there yet
            lowest = Dlsn(start.lssn, start.entry_id + 1, 0)
            return min(end, max(lowest, Dlsn(found.lssn, found.entry_id, 0)))

        return await with_retries(look)

    async def _sequence_of(self, stream: str, start: Dlsn, end: Dlsn) -> int | None:
        """How many records are before the first one from ``start`` on; None if there is none."""
        async with self._client.reader(stream, start) as reader:
            batch = await reader.next_batch(until=end)
        if batch is None:
            return None
        if batch.start_sequence_id is None:
            raise UnavailableError(f"stream {stream}: a segment is being completed")
        return batch.start_sequence_id + batch.record_set.position + batch.first_index


async def with_retries(look: Callable[[], Awaitable[T]]) -> T:
    """The result of ``look``, which is repeated for ten seconds while its errors may pass."""
    for _ in range(_ATTEMPTS_MAX):
        try:
            return await look()
        except RhumblineError as error:
            if not error.retryable:
                raise
            failure = error
        await asyncio.sleep(_PAUSE_S)
    raise failure

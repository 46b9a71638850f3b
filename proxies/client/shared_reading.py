"""Readers of one stream in a client share what they receive from the proxy (rule PRX-18).

Each message of a call costs the proxy and the client some ten microseconds of gRPC, whatever its
size. A process with a thousand readers of one stream would therefore receive each entry a thousand
times. Here its readers are cursors of a shared stream, as in the read proxy: those at the same
position share one call and a bounded cache, and one that falls behind the cache reads by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from ...core.log.read.entry_source import Chunk
from ...core.protocol.errors import ClosedError, EndOfStreamError, RhumblineError
from ..read.block_cache import BlockCache, StreamKey
from ..read.entry_block import EntryBlock, EntryPosition
from ..read.read_cursor import ReadCursor
from ..read.shared_stream import SharedStream, SharingCounts
from .proxy_reader import ProxyEntry, ProxySource

CACHE_BYTES_MAX = 16 << 20
"""Maximum memory of the entries that the readers of a client share."""
_CATCH_UP_MAX = 1_000
"""Maximum number of calls that read behind the end at once. The proxy has a lower limit of its
own, over all of its clients."""

Open = Callable[[StreamKey, EntryPosition], Awaitable[ProxySource]]
"""Opens a call that reads a stream from a position on."""


class SharedReading:
    """The streams that a client reads. For one event loop."""

    def __init__(self, reopen: Open) -> None:
        self._reopen = reopen
        self._cache = BlockCache(CACHE_BYTES_MAX)
        self._counts = SharingCounts()
        self._catch_up = asyncio.Semaphore(_CATCH_UP_MAX)
        self._streams: dict[StreamKey, SharedStream] = {}

    def join(self, key: StreamKey, source: ProxySource) -> "SharedSource":
        """Return the source of a reader that continues where ``source`` begins.

        ``source`` was opened for it and not read yet.
        """
        shared = self._streams.get(key)
        if shared is None:
            position: EntryPosition = (source.lssn, source.entry_id)
            reopen = partial(self._reopen, key)
            shared = self._streams[key] = SharedStream(
                key, self._cache, self._counts, reopen, position, self._catch_up
            )
        shared.readers += 1
        return SharedSource(self, ReadCursor(shared, source, end=None))

    async def leave(self, cursor: ReadCursor) -> None:
        """End one reader; the last one of a stream ends its calls."""
        shared = cursor.stream
        shared.readers -= 1
        if shared.readers == 0 and self._streams.get(shared.key) is shared:
            del self._streams[shared.key]
        await cursor.aclose()
        if shared.readers == 0:
            await shared.aclose()

    async def aclose(self) -> None:
        """End all reading. Safe to repeat."""
        streams, self._streams = self._streams, {}
        for shared in streams.values():
            await shared.aclose()


class SharedSource:
    """The entries of one reader (an ``EntryFetcher``)."""

    def __init__(self, reading: SharedReading, cursor: ReadCursor) -> None:
        self.lssn, self.entry_id = cursor.position
        self._reading = reading
        self._cursor: ReadCursor | None = cursor

    @property
    def is_ready(self) -> bool:
        """Always False: the connection buffers what has arrived."""
        return False

    async def fetch(self, ahead_bytes: int = 0) -> Chunk:
        """Return the next entries, once there are any. A repeat after an error continues here."""
        cursor = self._cursor
        if cursor is None:
            raise ClosedError("the reader is closed")
        try:
            block = await cursor.next()
        except RhumblineError:
            if cursor.stream.is_closed:
                raise ClosedError("the client is closed") from None
            raise
        if block is None:
            raise EndOfStreamError(f"stream {cursor.stream.key[0]} has ended")
        self.lssn, self.entry_id = block.end
        return _chunk_of(block)

    async def aclose(self) -> None:
        """End reading. Safe to repeat."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            await self._reading.leave(cursor)


def _chunk_of(block: EntryBlock) -> Chunk:
    lssn, first = block.start
    entries = [ProxyEntry(first + offset, entry) for offset, entry in enumerate(block.entries)]
    return Chunk(lssn, block.start_sequence_id, entries)

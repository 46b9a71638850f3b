"""One tail of a stream for all its readers, and the cursor of each reader (rules PRX-18, PRX-19).

A tail reads each entry once, from the end of the stream on, while a reader waits for it. Blocks of
entries stay in a cache that is bounded over all streams. A cursor is the position of one reader. It
takes blocks from the cache; behind the cache it reads from the log by itself until it has caught
up. A slow reader therefore neither delays other readers nor uses their memory.

Invariants:

1. The blocks of a tail join: each begins where the one before it ended (the end of a segment and
   the beginning of the next one count as the same position).
2. ``StreamTail.position`` is the end of the last block.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from ...core.log.read.entry_source import Chunk, EntryFetcher
from ...core.log.read.reader_lag import ReaderLag
from ...core.protocol.errors import EndOfStreamError, NotOwnerError, RhumblineError
from ...core.runtime.tasks import Tasks
from ..rpc import rhumbline_pb2 as pb

BLOCK_BYTES_MAX = 1 << 20
"""Target size of a message with entries; a larger entry gets a separate message."""

EntryPosition = tuple[int, int]
"""(lssn, entry id)."""


class EntryBlock:
    """Consecutive entries of one segment, encoded once for all readers."""

    __slots__ = ("_encoded", "end", "entries", "size", "start", "start_sequence_id")

    def __init__(
        self, start: EntryPosition, entries: Sequence[bytes], start_sequence_id: int | None
    ) -> None:
        self.start = start
        self.end = (start[0], start[1] + len(entries))
        self.entries = entries
        self.start_sequence_id = start_sequence_id
        self.size = sum(map(len, entries))
        self._encoded = b""

    def encoded(self) -> bytes:
        """Return the block as an encoded ReadResponse."""
        if not self._encoded:
            message = pb.ReadResponse(
                lssn=self.start[0], first_entry_id=self.start[1], entries=self.entries
            )
            if self.start_sequence_id is not None:
                message.start_sequence_id = self.start_sequence_id
            self._encoded = message.SerializeToString()
            self.entries = ()  # the encoded form replaces them
        return self._encoded

    def starting_at(self, position: EntryPosition) -> "EntryBlock":
        """Return the part of the block from ``position`` on."""
        if position <= self.start:
            return self
        entries = self.entries or list(pb.ReadResponse.FromString(self._encoded).entries)
        return EntryBlock(position, entries[position[1] - self.start[1] :], self.start_sequence_id)


def split_into_blocks(chunk: Chunk) -> list[EntryBlock]:
    """Split a chunk of entries into blocks; an empty chunk has none."""
    if not chunk.entries:
        return []
    blocks: list[EntryBlock] = []
    part: list[bytes] = []
    first = chunk.entries[0].entry_id
    size = 0
    for entry in chunk.entries:
        if part and size + len(entry.payload) > BLOCK_BYTES_MAX:
            blocks.append(EntryBlock((chunk.lssn, first), part, chunk.start_sequence_id))
            first, part, size = entry.entry_id, [], 0
        part.append(bytes(entry.payload))
        size += len(entry.payload)
    blocks.append(EntryBlock((chunk.lssn, first), part, chunk.start_sequence_id))
    return blocks


class BlockCache:
    """The blocks of all tails, oldest first, bounded in bytes.

    Invariant: ``bytes`` is the size of all blocks of the tails that are not closed.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self.entry_count = 0
        """Number of entries that were read from the streams."""
        self._bytes_max = bytes_max
        self._order: deque[tuple[StreamTail, int]] = deque()
        self._stale_count = 0  # blocks of closed tails in _order

    def add(self, tail: "StreamTail", block: EntryBlock) -> None:
        """Add ``block`` and evict the oldest blocks while the cache is too large."""
        self.bytes += block.size
        self._order.append((tail, block.size))
        while self.bytes > self._bytes_max:
            oldest, size = self._order.popleft()
            if oldest.is_closed:
                self._stale_count -= 1
            else:
                self.bytes -= size
                oldest.drop_oldest()

    def discard_tail(self, tail: "StreamTail", count: int, size: int) -> None:
        """Subtract the blocks of a closed tail: ``count`` blocks with ``size`` bytes."""
        self.bytes -= size
        self._stale_count += count
        if self._stale_count * 2 > len(self._order):
            self._order = deque(pair for pair in self._order if not pair[0].is_closed)
            self._stale_count = 0


class StreamTail:
    """The end of one stream, read once for all readers."""

    def __init__(self, source: EntryFetcher, cache: BlockCache) -> None:
        self.is_over = False
        """True if the tail has ended or failed: new readers need another one."""
        self.is_closed = False
        self._source = source
        self._cache = cache
        self._blocks: deque[EntryBlock] = deque()
        self._starts: deque[EntryPosition] = deque()
        self._first_index = 0
        self._tasks = Tasks(on_failure=lambda _: None)  # awaited by cursors
        self._fetching: asyncio.Task[None] | None = None
        self._failure: RhumblineError | None = None

    @property
    def position(self) -> EntryPosition:
        """The position up to which the stream has been read."""
        return self._source.lssn, self._source.entry_id

    def index_of(self, position: EntryPosition) -> int | None:
        """Return the index of the block at ``position``; None if the cache has evicted it."""
        if position >= self.position:
            return self._first_index + len(self._blocks)
        before = bisect_right(self._starts, position) - 1
        if before < 0:
            return None
        return self._first_index + before + (position >= self._blocks[before].end)

    def is_end(self, index: int) -> bool:
        """Return whether the block at ``index`` has not been read yet."""
        return index == self._first_index + len(self._blocks)

    async def block(self, index: int, timeout_s: float | None = None) -> EntryBlock | None:
        """Return the block at ``index``, waiting for it at the end; None if it has been evicted.

        Raises EndOfStreamError, TimeoutError, what reading raises, and NotOwnerError once the proxy
        is stopping.
        """
        while self.is_end(index):
            if self.is_closed:
                raise NotOwnerError("this proxy is stopping")
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._fetching is None:
                self._fetching = self._tasks.spawn(self._fetch(), "tail")
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._fetching)
        if index < self._first_index:
            return None
        return self._blocks[index - self._first_index]

    def drop_oldest(self) -> None:
        """Drop the oldest block to make room in the cache."""
        self._blocks.popleft()
        self._starts.popleft()
        self._first_index += 1

    async def aclose(self) -> None:
        """Stop reading. Safe to repeat."""
        self.is_over = True
        if not self.is_closed:
            self.is_closed = True
            size = sum(block.size for block in self._blocks)
            self._cache.discard_tail(self, len(self._blocks), size)
            self._first_index += len(self._blocks)
            self._blocks.clear()
            self._starts.clear()
        await self._tasks.aclose()
        await self._source.aclose()

    async def _fetch(self) -> None:
        try:
            chunk = await self._source.fetch()
        except BaseException as error:
            self.is_over = True
            self._failure = error if isinstance(error, RhumblineError) else None
            raise
        finally:
            self._fetching = None
        self._cache.entry_count += len(chunk.entries)
        for block in split_into_blocks(chunk):
            self._blocks.append(block)
            self._starts.append(block.start)
            self._cache.add(self, block)


class TailCursor:
    """The position of one reader in a stream."""

    def __init__(
        self,
        tail: StreamTail,
        source: EntryFetcher,
        reopen: Callable[[EntryPosition], Awaitable[EntryFetcher]],
        *,
        end: EntryPosition | None,
    ) -> None:
        self.position: EntryPosition = (source.lssn, source.entry_id)
        self.tail = tail
        self._source: EntryFetcher | None = source
        self._reopen = reopen
        self._end = end
        self._index: int | None = None
        self._own: deque[EntryBlock] = deque()  # read by this cursor and not yet returned
        self._tasks = Tasks(on_failure=lambda _: None)  # awaited here
        self._catching_up: asyncio.Task[None] | None = None
        self.lag = ReaderLag()
        """The lag of the reader behind the end of the stream."""

    async def next(self, timeout_s: float | None = None) -> EntryBlock | None:
        """Return the next block; None at the end of the stream or at ``end``. Waits at the tail.

        Raises TimeoutError; no block is lost then.
        """
        while True:
            if self._own:
                return self._advance(self._own.popleft())
            if self._end is not None and self.position >= self._end:
                return None
            if self._index is None:
                self._index = self.tail.index_of(self.position)
            try:
                if self._index is None:
                    if self._catching_up is None:
                        self._catching_up = self._tasks.spawn(self._catch_up(), "catch up")
                    async with asyncio.timeout(timeout_s):
                        await asyncio.shield(self._catching_up)
                    continue
                await self._close_source()
                block = await self._shared_block(self._index, timeout_s)
            except EndOfStreamError:
                return None
            if block is None:
                self._index = None  # too slow: the cache has evicted the block
                continue
            self._index += 1
            if block.end > self.position:
                return self._advance(block.starting_at(self._first_wanted(block)))

    async def _shared_block(self, index: int, timeout_s: float | None) -> EntryBlock | None:
        if self.tail.is_end(index):
            self.lag.begin_wait()
        try:
            return await self.tail.block(index, timeout_s)
        finally:
            self.lag.end_wait()

    def _first_wanted(self, block: EntryBlock) -> EntryPosition:
        return self.position if self.position[0] == block.start[0] else block.start

    def _advance(self, block: EntryBlock) -> EntryBlock:
        self.position = block.end
        return block

    async def _catch_up(self) -> None:
        try:
            if self._source is None:
                self._source = await self._reopen(self.position)
            chunk = await self._source.fetch()
            self._own.extend(split_into_blocks(chunk))
            if not chunk.entries:  # end of a segment; the tail may have the next one
                self.position = (self._source.lssn, self._source.entry_id)
        finally:
            self._catching_up = None

    async def _close_source(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            await source.aclose()

    async def aclose(self) -> None:
        """Close the cursor and its own source. Safe to repeat."""
        await self._tasks.aclose()
        await self._close_source()

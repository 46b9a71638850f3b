"""One tail of a stream for all its readers, and what each reader does when it is not at the tail.

The tail reads each entry once, from the end of the stream on, when somebody waits for it; blocks
of entries stay in a cache that is bounded over all streams. A *cursor* is one reader's position. In
the cache it takes what is there. Behind the cache it reads for itself, from the log, until it
reaches the cache. So a slow reader holds nobody, and costs nobody memory.

Invariants:

1. The blocks of a tail join: each begins where the one before it ended (a segment's end and the
   next one's begin are the same place).
2. ``position`` is where the last block ended.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from ...core.log.read.entry_source import Chunk, Entries
from ...core.protocol.errors import EndOfStreamError, NotOwnerError, RhumblineError
from ...core.runtime.tasks import Tasks
from ..rpc import rhumbline_pb2 as pb

BLOCK_BYTES_MAX = 1 << 20
"""Entries are passed on in messages of about this size; a larger entry makes one of its own."""

Place = tuple[int, int]
"""(lssn, entry id)."""


class Block:
    """Consecutive entries of a segment, as they are sent: encoded once for all readers."""

    __slots__ = ("_encoded", "end", "entries", "size", "start", "start_sequence_id")

    def __init__(
        self, start: Place, entries: Sequence[bytes], start_sequence_id: int | None
    ) -> None:
        self.start = start
        self.end = (start[0], start[1] + len(entries))
        self.entries = entries
        self.start_sequence_id = start_sequence_id
        self.size = sum(map(len, entries))
        self._encoded = b""

    def encoded(self) -> bytes:
        """A ReadResponse."""
        if not self._encoded:
            message = pb.ReadResponse(
                lssn=self.start[0], first_entry_id=self.start[1], entries=self.entries
            )
            if self.start_sequence_id is not None:
                message.start_sequence_id = self.start_sequence_id
            self._encoded = message.SerializeToString()
            self.entries = ()  # from now on the encoded form stands for them
        return self._encoded

    def beyond(self, place: Place) -> "Block":
        """The part from ``place`` on."""
        if place <= self.start:
            return self
        entries = self.entries or list(pb.ReadResponse.FromString(self._encoded).entries)
        return Block(place, entries[place[1] - self.start[1] :], self.start_sequence_id)


def blocks_of(chunk: Chunk) -> list[Block]:
    """A chunk of entries, cut into blocks; none for an empty chunk."""
    if not chunk.entries:
        return []
    blocks: list[Block] = []
    part: list[bytes] = []
    first = chunk.entries[0].entry_id
    size = 0
    for entry in chunk.entries:
        if part and size + len(entry.payload) > BLOCK_BYTES_MAX:
            blocks.append(Block((chunk.lssn, first), part, chunk.start_sequence_id))
            first, part, size = entry.entry_id, [], 0
        part.append(bytes(entry.payload))
        size += len(entry.payload)
    blocks.append(Block((chunk.lssn, first), part, chunk.start_sequence_id))
    return blocks


class BlockCache:
    """The blocks of all tails, oldest first, within a number of bytes.

    Invariant: ``bytes`` is the size of all blocks of the tails that are not closed.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._order: deque[tuple[StreamTail, int]] = deque()
        self._gone = 0  # of _order: blocks of closed tails

    def add(self, tail: "StreamTail", block: Block) -> None:
        """Keeps ``block``; the oldest of all go for it."""
        self.bytes += block.size
        self._order.append((tail, block.size))
        while self.bytes > self._bytes_max:
            oldest, size = self._order.popleft()
            if oldest.is_closed:
                self._gone -= 1
            else:
                self.bytes -= size
                oldest.drop_oldest()

    def forget(self, tail: "StreamTail", count: int, size: int) -> None:
        """``tail`` is closed; so many blocks and bytes of it were kept."""
        self.bytes -= size
        self._gone += count
        if self._gone * 2 > len(self._order):
            self._order = deque(one for one in self._order if not one[0].is_closed)
            self._gone = 0


class StreamTail:
    """The end of one stream."""

    def __init__(self, source: Entries, cache: BlockCache) -> None:
        self.entry_count = 0
        self.is_over = False
        """Ended or failed: of no use to new readers."""
        self.is_closed = False
        self._source = source
        self._cache = cache
        self._blocks: deque[Block] = deque()
        self._starts: deque[Place] = deque()
        self._first_index = 0
        self._tasks = Tasks(on_failure=lambda _: None)  # awaited by cursors
        self._fetching: asyncio.Task[None] | None = None
        self._failure: RhumblineError | None = None

    @property
    def position(self) -> Place:
        """What is below was read."""
        return self._source.lssn, self._source.entry_id

    def index_of(self, place: Place) -> int | None:
        """Where a cursor at ``place`` joins; None if that is not in the cache any more."""
        if place >= self.position:
            return self._first_index + len(self._blocks)
        before = bisect_right(self._starts, place) - 1
        if before < 0:
            return None
        return self._first_index + before + (place >= self._blocks[before].end)

    async def block(self, index: int, timeout_s: float | None = None) -> Block | None:
        """The block at ``index``, when it is there; None if it is not there any more.

        Raises EndOfStreamError and what reading raises, TimeoutError, and NotOwnerError once the
        proxy is stopping.
        """
        while index == self._first_index + len(self._blocks):
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
        """The cache needs its room."""
        self._blocks.popleft()
        self._starts.popleft()
        self._first_index += 1

    async def aclose(self) -> None:
        """Stops reading. Safe to repeat."""
        self.is_over = True
        if not self.is_closed:
            self.is_closed = True
            size = sum(block.size for block in self._blocks)
            self._cache.forget(self, len(self._blocks), size)
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
        self.entry_count += len(chunk.entries)
        for block in blocks_of(chunk):
            self._blocks.append(block)
            self._starts.append(block.start)
            self._cache.add(self, block)


class Cursor:
    """One reader's position in a stream."""

    def __init__(
        self,
        tail: StreamTail,
        source: Entries,
        reopen: Callable[[Place], Awaitable[Entries]],
        *,
        end: Place | None,
    ) -> None:
        self.place: Place = (source.lssn, source.entry_id)
        self.tail = tail
        self._source: Entries | None = source
        self._reopen = reopen
        self._end = end
        self._index: int | None = None
        self._own: deque[Block] = deque()  # read for itself and not yet given
        self._tasks = Tasks(on_failure=lambda _: None)  # awaited here
        self._catching_up: asyncio.Task[None] | None = None

    async def next(self, timeout_s: float | None = None) -> Block | None:
        """The next block; None at the end of the stream, or at ``end``. Waits at the tail.

        Raises TimeoutError; nothing is lost then.
        """
        while True:
            if self._own:
                return self._given(self._own.popleft())
            if self._end is not None and self.place >= self._end:
                return None
            if self._index is None:
                self._index = self.tail.index_of(self.place)
            try:
                if self._index is None:
                    if self._catching_up is None:
                        self._catching_up = self._tasks.spawn(self._catch_up(), "catch up")
                    async with asyncio.timeout(timeout_s):
                        await asyncio.shield(self._catching_up)
                    continue
                await self._let_go()
                block = await self.tail.block(self._index, timeout_s)
            except EndOfStreamError:
                return None
            if block is None:
                self._index = None  # too slow: what it wants has left the cache
                continue
            self._index += 1
            if block.end > self.place:
                return self._given(block.beyond(self._within(block)))

    def _within(self, block: Block) -> Place:
        return self.place if self.place[0] == block.start[0] else block.start

    def _given(self, block: Block) -> Block:
        self.place = block.end
        return block

    async def _catch_up(self) -> None:
        try:
            if self._source is None:
                self._source = await self._reopen(self.place)
            chunk = await self._source.fetch()
            self._own.extend(blocks_of(chunk))
            if not chunk.entries:  # the end of a segment: from the next one on the tail may have it
                self.place = (self._source.lssn, self._source.entry_id)
        finally:
            self._catching_up = None

    async def _let_go(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            await source.aclose()

    async def aclose(self) -> None:
        """Releases what it holds. Safe to repeat."""
        await self._tasks.aclose()
        await self._let_go()

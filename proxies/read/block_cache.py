"""The cache of a read proxy: blocks of all streams, bounded in bytes (rule PRX-36).

The cache is a segmented LRU. A new block is on probation; the second reader that takes it makes it
protected. Blocks on probation are evicted first, so a reader that scans a stream alone replaces
only what nobody else has read twice.

Invariants:

1. ``bytes`` is the cost of all cached blocks and is at most the limit after each call.
2. A block is found only under the stream, by name and id, and the position for which it was added.
"""

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict

from .entry_block import EntryBlock, EntryPosition

StreamKey = tuple[str, str]
"""The name of a stream with its namespace, and its id: the next stream of the name has another."""

BLOCK_OVERHEAD_BYTES = 600
"""Memory of a cached block in addition to its entries: objects, positions, table entries."""

_PROTECTED_PERCENT = 80


class StreamBlocks:
    """The cached blocks of one stream by position."""

    __slots__ = ("_by_start", "_starts", "key", "users")

    def __init__(self, key: StreamKey) -> None:
        self.key = key
        self.users = 0
        """Number of those that read the stream; without any it is removed when it is empty."""
        self._by_start: dict[EntryPosition, EntryBlock] = {}
        self._starts: list[EntryPosition] = []  # sorted, and may contain removed blocks

    def __len__(self) -> int:
        return len(self._by_start)

    def find(self, position: EntryPosition) -> EntryBlock | None:
        """Return a block that holds ``position``, or None."""
        found = self._by_start.get(position)
        if found is not None:
            return found
        before = bisect_right(self._starts, position) - 1
        if before < 0:
            return None
        found = self._by_start.get(self._starts[before])
        return found if found is not None and found.holds(position) else None

    def put(self, block: EntryBlock) -> EntryBlock | None:
        """Add a block and return the block that it replaces, or None."""
        replaced = self._by_start.get(block.start)
        if replaced is None:
            insort(self._starts, block.start)
        self._by_start[block.start] = block
        return replaced

    def remove(self, block: EntryBlock) -> None:
        """Remove a block."""
        del self._by_start[block.start]
        if len(self._starts) > 2 * len(self._by_start) + 16:
            self._starts = sorted(self._by_start)

    def beyond(self, end: EntryPosition) -> list[EntryBlock]:
        """Return the blocks with entries of the segment of ``end`` at or after ``end``."""
        first = bisect_left(self._starts, (end[0], 0))
        last = bisect_left(self._starts, (end[0] + 1, 0))
        blocks = [self._by_start.get(start) for start in dict.fromkeys(self._starts[first:last])]
        return [block for block in blocks if block is not None and block.end > end]


class BlockCache:
    """Blocks of entries of all streams that a proxy reads."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        """Cost of all blocks: their entries and their overhead."""
        self.evicted = 0
        """Number of blocks that were removed to make room."""
        self._bytes_max = bytes_max
        self._protected_bytes = 0
        self._streams: dict[StreamKey, StreamBlocks] = {}
        self._probation: OrderedDict[EntryBlock, StreamBlocks] = OrderedDict()
        self._protected: OrderedDict[EntryBlock, StreamBlocks] = OrderedDict()
        self._taken: dict[EntryBlock, None] = {}  # on probation, and taken once

    def open(self, key: StreamKey) -> StreamBlocks:
        """Return the blocks of a stream for one that reads it until it calls ``close``."""
        stream = self._streams.setdefault(key, StreamBlocks(key))
        stream.users += 1
        return stream

    def close(self, stream: StreamBlocks) -> None:
        """End one ``open`` of the stream. Its blocks stay until they are evicted."""
        stream.users -= 1
        self._forget_if_empty(stream)

    def add(self, stream: StreamBlocks, block: EntryBlock) -> None:
        """Add a block and evict others while the cache is too large.

        A block that begins like a cached one replaces it only if it is longer.
        """
        present = stream.find(block.start)
        if present is not None and present.start == block.start and present.end >= block.end:
            return
        replaced = stream.put(block)
        if replaced is not None:
            self._discard(replaced)
        self._probation[block] = stream
        self.bytes += _cost(block)
        while self.bytes > self._bytes_max:
            self._evict()

    def end_segment(self, stream: StreamBlocks, end: EntryBlock) -> None:
        """Add the end of a segment, and drop what is cached of the segment beyond it."""
        for block in stream.beyond(end.start):
            stream.remove(block)
            self._discard(block)
        self.add(stream, end)

    def take(self, stream: StreamBlocks, position: EntryPosition) -> EntryBlock | None:
        """Return the cached block that holds ``position`` for a reader that continues there."""
        block = stream.find(position)
        if block is None:
            return None
        if block in self._protected:
            self._protected.move_to_end(block)
        elif block in self._taken:
            self._protect(block)
        else:
            self._taken[block] = None
        return block

    # --- eviction -------------------------------------------------------------------------------

    def _protect(self, block: EntryBlock) -> None:
        self._protected[block] = self._probation.pop(block)
        del self._taken[block]
        self._protected_bytes += _cost(block)
        while self._protected_bytes * 100 > self._bytes_max * _PROTECTED_PERCENT:
            oldest, stream = self._protected.popitem(last=False)
            self._protected_bytes -= _cost(oldest)
            self._probation[oldest] = stream
            self._taken[oldest] = None

    def _evict(self) -> None:
        block, stream = next(iter((self._probation or self._protected).items()))
        stream.remove(block)
        self._discard(block)
        self.evicted += 1
        self._forget_if_empty(stream)

    def _discard(self, block: EntryBlock) -> None:
        self.bytes -= _cost(block)
        if block in self._protected:
            del self._protected[block]
            self._protected_bytes -= _cost(block)
        else:
            del self._probation[block]
            self._taken.pop(block, None)

    def _forget_if_empty(self, stream: StreamBlocks) -> None:
        if not stream.users and not len(stream):
            self._streams.pop(stream.key, None)


def _cost(block: EntryBlock) -> int:
    return block.size + BLOCK_OVERHEAD_BYTES

"""A bounded cache of verified index blocks; the least recently used ones are dropped first."""

from collections import OrderedDict

from .index_blocks import IndexBlock

_BLOCK_BITS = 32


class IndexBlockCache:
    """Index blocks by the serial number of their file and their number in it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._blocks: OrderedDict[int, IndexBlock] = OrderedDict()
        self.held_bytes = 0

    def get(self, serial: int, at: int) -> IndexBlock | None:
        """Return a block, None if it is not in the cache."""
        key = serial << _BLOCK_BITS | at
        block = self._blocks.get(key)
        if block is not None:
            self._blocks.move_to_end(key)
        return block

    def put(self, serial: int, at: int, block: IndexBlock) -> None:
        """Adds a block. A cache without room keeps the last block only."""
        key = serial << _BLOCK_BITS | at
        old = self._blocks.pop(key, None)
        if old is not None:
            self.held_bytes -= old.size
        self._blocks[key] = block
        self.held_bytes += block.size
        while self.held_bytes > self._bytes_max and len(self._blocks) > 1:
            self.held_bytes -= self._blocks.popitem(last=False)[1].size

    def clear(self) -> None:
        """Drops all blocks."""
        self._blocks.clear()
        self.held_bytes = 0

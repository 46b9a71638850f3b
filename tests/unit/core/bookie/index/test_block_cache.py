"""The cache of index blocks keeps its bound and the blocks that were used last."""

from rhumbline.core.bookie.index.block_cache import IndexBlockCache
from rhumbline.core.bookie.index.index_blocks import IndexBlock, blocks_of
from rhumbline.core.bookie.index.ledger_entries import LedgerEntries


def block_of_one_row() -> IndexBlock:
    rows = LedgerEntries()
    rows.put(0, 1_000, 10)
    (encoded,) = blocks_of([(1, rows)])
    return IndexBlock(encoded.data)


def test_least_recently_used_block_is_dropped_first() -> None:
    blocks = [block_of_one_row() for _ in range(4)]
    cache = IndexBlockCache(3 * blocks[0].size)
    for at in range(3):
        cache.put(1, at, blocks[at])
    assert cache.get(1, 0) is blocks[0]
    cache.put(2, 0, blocks[3])
    assert [cache.get(1, at) for at in range(3)] == [blocks[0], None, blocks[2]]
    assert cache.get(2, 0) is blocks[3]
    assert cache.held_bytes == 3 * blocks[0].size
    cache.put(2, 0, blocks[3])
    assert cache.held_bytes == 3 * blocks[0].size


def test_cache_without_room_keeps_the_last_block() -> None:
    cache = IndexBlockCache(0)
    first, second = block_of_one_row(), block_of_one_row()
    cache.put(1, 0, first)
    assert cache.get(1, 0) is first
    cache.put(1, 1, second)
    assert (cache.get(1, 0), cache.get(1, 1)) == (None, second)


def test_blocks_are_known_by_the_serial_number_of_their_file_and_their_own() -> None:
    cache = IndexBlockCache(10_000)
    blocks = {(serial, at): block_of_one_row() for serial in (1, 2, 3) for at in (0, 1, 2)}
    for key, block in blocks.items():
        cache.put(*key, block)
    assert cache.held_bytes == sum(block.size for block in blocks.values())
    assert all(cache.get(*key) is block for key, block in blocks.items())
    other = block_of_one_row()
    cache.put(2, 1, other)
    assert cache.get(2, 1) is other
    assert cache.held_bytes == sum(block.size for block in blocks.values())
    cache.clear()
    assert (cache.get(2, 1), cache.held_bytes) == (None, 0)

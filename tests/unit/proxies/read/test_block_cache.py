"""The cache of a read proxy is bounded, counts what it holds, and survives scans."""

from random import Random

import pytest

from rhumbline.proxies.read.block_cache import (
    BLOCK_OVERHEAD_BYTES,
    BlockCache,
    StreamBlocks,
)
from rhumbline.proxies.read.entry_block import EntryBlock, segment_end

COST = BLOCK_OVERHEAD_BYTES + 100


def block(lssn: int, first: int, count: int = 1, size: int = 100) -> EntryBlock:
    entries = [b"." * (size // count)] * count
    return EntryBlock((lssn, first), (lssn, first + count), entries, None)


def held(cache: BlockCache, stream: StreamBlocks, *firsts: int) -> list[bool]:
    return [stream.find((1, first)) is not None for first in firsts]


def test_blocks_are_found_by_stream_and_position_only() -> None:
    cache = BlockCache(10 * COST)
    stream, recreated = cache.open(("test/s", "old")), cache.open(("test/s", "new"))
    ten = block(1, 0, 10)
    cache.add(stream, ten)
    assert cache.take(stream, (1, 0)) is ten
    assert cache.take(stream, (1, 9)) is ten
    for position in ((1, 10), (0, 0), (2, 0), (2, 9)):
        assert cache.take(stream, position) is None
    assert cache.take(recreated, (1, 0)) is None, "another stream of the same name"
    part = ten.starting_at((1, 7))
    assert (part.start, part.end, len(part.entries)) == ((1, 7), (1, 10), 3)


def test_end_of_a_segment_leads_to_the_next_and_drops_what_is_beyond() -> None:
    cache = BlockCache(10 * COST)
    stream = cache.open(("test/s", "id"))
    for first in (0, 10, 20):
        cache.add(stream, block(1, first, 10))
    cache.add(stream, block(2, 0, 10))
    cache.end_segment(stream, segment_end((1, 15), (2, 0)))
    found = cache.take(stream, (1, 15))
    assert found is not None and found.is_segment_end and found.end == (2, 0)
    assert held(cache, stream, 0, 10, 16, 20) == [True, False, False, False]
    assert cache.take(stream, (2, 5)) is not None
    assert cache.take(stream, (1, 16)) is None, "only the end itself continues"


def test_scan_evicts_only_what_nobody_else_took_twice() -> None:
    cache = BlockCache(20 * COST)
    hot, scanned = cache.open(("test/hot", "1")), cache.open(("test/scanned", "2"))
    for first in range(5):
        cache.add(hot, block(1, first))
        for _ in range(3):
            cache.take(hot, (1, first))
    for first in range(1_000):
        cache.add(scanned, block(1, first))
        assert cache.take(scanned, (1, first)) is not None
    assert held(cache, hot, *range(5)) == [True] * 5
    assert held(cache, scanned, 998, 999) == [True, True]
    # Once their readers are gone, others that are taken twice replace them.
    for first in range(1_000, 1_100):
        cache.add(scanned, block(1, first))
        cache.take(scanned, (1, first))
        cache.take(scanned, (1, first))
    assert held(cache, hot, *range(5)) == [False] * 5


def test_stream_without_readers_keeps_its_blocks_until_they_are_evicted() -> None:
    cache = BlockCache(3 * COST)
    first = cache.open(("test/s", "1"))
    cache.add(first, block(1, 0))
    cache.close(first)
    again = cache.open(("test/s", "1"))
    assert cache.take(again, (1, 0)) is not None
    cache.close(again)
    other = cache.open(("test/other", "2"))
    for number in range(3):
        cache.add(other, block(1, number))
    assert cache.take(cache.open(("test/s", "1")), (1, 0)) is None
    assert cache.evicted == 1


def test_stream_that_is_opened_again_before_it_is_closed_keeps_its_place() -> None:
    cache = BlockCache(3 * COST)
    first, second = cache.open(("test/s", "1")), cache.open(("test/s", "1"))
    assert first is second
    cache.close(first)
    cache.add(second, block(1, 0))
    assert cache.take(cache.open(("test/s", "1")), (1, 0)) is not None


def test_longer_block_replaces_a_shorter_one() -> None:
    cache = BlockCache(10 * COST)
    stream = cache.open(("test/s", "1"))
    for count in (1, 10, 5):
        cache.add(stream, block(1, 0, count))
        assert cache.bytes == COST
    assert cache.take(stream, (1, 9)) is not None


@pytest.mark.seeds(5)
def test_size_is_that_of_the_blocks_and_within_the_limit(seed: int) -> None:
    random = Random(seed)
    limit = random.choice((1, 2_000, 20_000))
    cache = BlockCache(limit)
    streams = [cache.open((f"test/{number}", "id")) for number in range(3)]
    for _ in range(2_000):
        stream = random.choice(streams)
        position = random.randrange(3), random.randrange(200)
        if random.random() < 0.5:
            cache.add(stream, block(*position, count=random.randint(1, 20), size=500))
        elif random.random() < 0.02:
            cache.end_segment(stream, segment_end(position, (position[0] + 1, 0)))
        else:
            found = cache.take(stream, position)
            assert found is None or found.start <= position < found.end
        blocks = [one for stream in streams for one in stream._by_start.values()]
        assert cache.bytes == sum(one.size + BLOCK_OVERHEAD_BYTES for one in blocks) <= limit
        assert len(blocks) == len(cache._probation) + len(cache._protected)
        assert dict.fromkeys(cache._taken).keys() <= cache._probation.keys()

"""The cache of a read proxy counts what it holds, and failed or closed tails free their memory."""

import asyncio
from typing import NamedTuple

import pytest

from rhumbline.core.log.read.entry_source import Chunk, EntryFetcher
from rhumbline.core.protocol.errors import NotOwnerError, UnavailableError
from rhumbline.core.protocol.start import LATEST
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.membership import READ, ProxyMembership
from rhumbline.proxies.read.read_proxy import ReadProxy
from rhumbline.proxies.read.shared_tail import (
    BlockCache,
    EntryBlock,
    EntryPosition,
    StreamTail,
    TailCursor,
)
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.log_world import LogWorld


class Entry(NamedTuple):
    entry_id: int
    payload: bytes


class Source:
    """A source with entries that the test adds."""

    def __init__(self, lssn: int = 1, entry_id: int = 0) -> None:
        self.lssn = lssn
        self.entry_id = entry_id
        self.is_ready = False
        self.fetches = 0
        self.is_closed = False
        self._items: asyncio.Queue[int | Exception | None] = asyncio.Queue()

    def add(self, *sizes: int | Exception | None) -> None:
        """Add an entry of that many bytes; None: the next segment; an exception is raised."""
        for size in sizes:
            self._items.put_nowait(size)

    async def fetch(self) -> Chunk:
        self.fetches += 1
        item = await self._items.get()
        if isinstance(item, Exception):
            raise item
        if item is None:
            self.lssn, self.entry_id = self.lssn + 1, 0
            return Chunk(self.lssn, None, ())
        self.entry_id += 1
        return Chunk(self.lssn, None, [Entry(self.entry_id - 1, b"." * item)])

    async def aclose(self) -> None:
        self.is_closed = True


async def fail_to_reopen(position: EntryPosition) -> EntryFetcher:
    raise AssertionError(f"fail_to_reopen should read for himself at {position}")


async def read(tail: StreamTail, source: Source, count: int) -> None:
    for _ in range(count):
        source.add(10)
        await tail.block(tail.index_of(tail.position) or 0)


@pytest.mark.run_by(runner=run_jumping)
async def test_closed_tails_free_their_share_of_the_cache() -> None:
    cache = BlockCache(100)
    for _ in range(50):
        source = Source()
        tail = StreamTail(source, cache)
        await read(tail, source, 8)
        assert cache.bytes == 80
        await tail.aclose()
        await tail.aclose()
        assert cache.bytes == 0
        assert len(cache._order) <= 8
    first, second = Source(), Source()
    one, two = StreamTail(first, cache), StreamTail(second, cache)
    await read(one, first, 5)
    await read(two, second, 5)
    assert one.index_of((1, 0)) == 0, "blocks of closed tails take no room"
    await read(two, second, 1)
    assert one.index_of((1, 0)) is None
    assert cache.bytes == 100


@pytest.mark.run_by(runner=run_jumping)
async def test_cursor_at_the_end_of_a_segment_joins_the_tail_in_the_next() -> None:
    ahead = Source(2, 0)
    tail = StreamTail(ahead, BlockCache(100))
    own = Source(1, 5)
    own.add(None)  # only the end of the segment
    cursor = TailCursor(tail, own, fail_to_reopen, end=None)
    reading = asyncio.ensure_future(cursor.next())
    await asyncio.sleep(0.1)
    ahead.add(7)
    block = await asyncio.wait_for(reading, 1)
    assert isinstance(block, EntryBlock) and block.start == (2, 0)
    assert (own.fetches, own.is_closed) == (1, True)
    await cursor.aclose()


@pytest.mark.run_by(runner=run_jumping)
async def test_failed_tail_raises_its_error_and_is_not_read_again() -> None:
    source = Source()
    tail = StreamTail(source, BlockCache(100))
    source.add(10, UnavailableError("gone"))
    assert await tail.block(0) is not None
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await tail.block(1)
    assert await tail.block(0) is not None, "cached blocks are still served"
    assert source.fetches == 2


@pytest.mark.run_by(runner=run_jumping)
async def test_cursor_of_a_closed_tail_is_redirected() -> None:
    source = Source()
    tail = StreamTail(source, BlockCache(100))
    await read(tail, source, 2)
    cursor = TailCursor(tail, Source(1, 1), fail_to_reopen, end=None)
    assert await cursor.next() is not None
    await tail.aclose()
    with pytest.raises(NotOwnerError):
        await cursor.next()
    assert source.is_closed


async def test_replaced_tail_is_closed_by_its_last_reader(log: LogWorld) -> None:
    await log.namespace.create_stream("s")
    membership = ProxyMembership(
        log.store, log.runtime, roles=(READ,), address="r:1", region="east", session_ttl_ms=1000
    )
    proxy = ReadProxy(lambda _: log.open_namespace(), membership, ProxyConfig())
    old = [await proxy.open("test", "s", LATEST) for _ in range(2)]
    tail = old[0].cursor.tail
    tail.is_over = True  # as after a failed read
    new = await proxy.open("test", "s", LATEST)
    assert new.cursor.tail is not tail
    for one in old:
        assert not tail.is_closed
        await proxy.close(one)
    assert tail.is_closed
    assert not new.cursor.tail.is_closed
    await proxy.close(new)
    assert new.cursor.tail.is_closed

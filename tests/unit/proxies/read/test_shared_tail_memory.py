"""Tails of a read proxy: what their cache counts is what it keeps, and what failed is let go."""

import asyncio
from typing import NamedTuple

import pytest

from rhumbline.core.log.read.entry_source import Chunk, Entries
from rhumbline.core.log.read.positioning import LATEST
from rhumbline.core.protocol.errors import NotOwnerError, UnavailableError
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.membership import READ, ProxyMembership
from rhumbline.proxies.read.read_proxy import ReadProxy
from rhumbline.proxies.read.shared_tail import Block, BlockCache, Cursor, Place, StreamTail
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.log_world import LogWorld, in_world


class Entry(NamedTuple):
    entry_id: int
    payload: bytes


class Source:
    """Entries that a test adds."""

    def __init__(self, lssn: int = 1, entry_id: int = 0) -> None:
        self.lssn = lssn
        self.entry_id = entry_id
        self.is_ready = False
        self.fetches = 0
        self.is_closed = False
        self._coming: asyncio.Queue[int | Exception | None] = asyncio.Queue()

    def add(self, *sizes: int | Exception | None) -> None:
        """An entry of so many bytes; None: the next segment; or an error."""
        for size in sizes:
            self._coming.put_nowait(size)

    async def fetch(self) -> Chunk:
        self.fetches += 1
        came = await self._coming.get()
        if isinstance(came, Exception):
            raise came
        if came is None:
            self.lssn, self.entry_id = self.lssn + 1, 0
            return Chunk(self.lssn, None, ())
        self.entry_id += 1
        return Chunk(self.lssn, None, [Entry(self.entry_id - 1, b"." * came)])

    async def aclose(self) -> None:
        self.is_closed = True


async def nobody(place: Place) -> Entries:
    raise AssertionError(f"nobody should read for himself at {place}")


async def read(tail: StreamTail, source: Source, count: int) -> None:
    for _ in range(count):
        source.add(10)
        await tail.block(tail.index_of(tail.position) or 0)


def test_what_closed_tails_kept_is_free_for_others() -> None:
    async def body() -> None:
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
        assert one.index_of((1, 0)) == 0, "nothing had to go for what is gone"
        await read(two, second, 1)
        assert one.index_of((1, 0)) is None
        assert cache.bytes == 100

    run_jumping(body())


def test_who_stands_at_the_end_of_a_segment_joins_the_tail_in_the_next() -> None:
    async def body() -> None:
        ahead = Source(2, 0)
        tail = StreamTail(ahead, BlockCache(100))
        own = Source(1, 5)
        own.add(None)  # nothing but the news that the segment is over
        cursor = Cursor(tail, own, nobody, end=None)
        reading = asyncio.ensure_future(cursor.next())
        await asyncio.sleep(0.1)
        ahead.add(7)
        block = await asyncio.wait_for(reading, 1)
        assert isinstance(block, Block) and block.start == (2, 0)
        assert (own.fetches, own.is_closed) == (1, True)
        await cursor.aclose()

    run_jumping(body())


def test_who_comes_to_a_tail_that_failed_hears_of_it_and_starts_no_second_reading() -> None:
    async def body() -> None:
        source = Source()
        tail = StreamTail(source, BlockCache(100))
        source.add(10, UnavailableError("gone"))
        assert await tail.block(0) is not None
        for _ in range(3):
            with pytest.raises(UnavailableError):
                await tail.block(1)
        assert await tail.block(0) is not None, "what it has it gives"
        assert source.fetches == 2

    run_jumping(body())


def test_a_reader_that_comes_back_to_a_closed_tail_is_sent_on() -> None:
    async def body() -> None:
        source = Source()
        tail = StreamTail(source, BlockCache(100))
        await read(tail, source, 2)
        cursor = Cursor(tail, Source(1, 1), nobody, end=None)
        assert await cursor.next() is not None
        await tail.aclose()
        with pytest.raises(NotOwnerError):
            await cursor.next()
        assert source.is_closed

    run_jumping(body())


@in_world
async def test_a_tail_that_was_replaced_is_released_by_its_last_reader(log: LogWorld) -> None:
    await log.namespace.create_stream("s")
    presence = ProxyMembership(
        log.store, log.runtime, roles=(READ,), address="r:1", region="east", session_ttl_ms=1000
    )
    proxy = ReadProxy(lambda _: log.opened(), presence, ProxyConfig())
    old = [await proxy.open("test", "s", LATEST) for _ in range(2)]
    tail = old[0].cursor.tail
    tail.is_over = True  # as if a read had failed
    new = await proxy.open("test", "s", LATEST)
    assert new.cursor.tail is not tail
    for one in old:
        assert not tail.is_closed
        await proxy.close(one)
    assert tail.is_closed
    assert not new.cursor.tail.is_closed
    await proxy.close(new)
    assert new.cursor.tail.is_closed

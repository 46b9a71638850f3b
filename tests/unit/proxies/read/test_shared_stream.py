"""Readers near each other share fetches, of which none delays or fails readers elsewhere."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from rhumbline.core.log.read.entry_source import Chunk, EntryFetcher
from rhumbline.core.protocol.errors import NotOwnerError, UnavailableError
from rhumbline.proxies.read.block_cache import BlockCache
from rhumbline.proxies.read.entry_block import EntryPosition
from rhumbline.proxies.read.read_cursor import ReadCursor
from rhumbline.proxies.read.shared_stream import SharedStream, SharingCounts
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)

SIZE = 1_000
FETCH_S = 0.05


class Entry(NamedTuple):
    entry_id: int
    payload: bytes


class Log:
    """A stream with segments of the given lengths; the last one is open. Counts what is read."""

    def __init__(self, *lengths: int, per_fetch: int = 10) -> None:
        self.lengths = list(lengths)
        self.per_fetch = per_fetch
        self.fetched = 0
        """Number of entries that were read from the log."""
        self.opened = 0
        self.open_count = 0
        self.error: Exception | None = None
        self.grown = asyncio.Event()

    def add(self, count: int = 1) -> None:
        self.lengths[-1] += count
        self.grown.set()
        self.grown = asyncio.Event()

    def roll(self) -> None:
        self.lengths.append(0)
        self.grown.set()
        self.grown = asyncio.Event()

    def source(self, position: EntryPosition) -> "Source":
        return Source(self, *position)

    async def reopen(self, position: EntryPosition) -> EntryFetcher:
        await asyncio.sleep(FETCH_S)
        self.opened += 1
        return self.source(position)


class Source:
    """See EntryFetcher; it yields what a log has, at most ``per_fetch`` entries at a time."""

    def __init__(self, log: Log, lssn: int, entry_id: int) -> None:
        self.log, self.lssn, self.entry_id = log, lssn, entry_id
        self._is_read = False

    @property
    def is_ready(self) -> bool:
        return self._is_read and self.entry_id < self.log.lengths[self.lssn - 1]

    async def fetch(self, ahead_bytes: int = 0) -> Chunk:
        if not self._is_read:
            self._is_read = True
            self.log.open_count += 1
        while True:
            grown = self.log.grown
            await asyncio.sleep(FETCH_S)
            if self.log.error is not None:
                raise self.log.error
            if self.is_ready:
                break
            if self.lssn < len(self.log.lengths):
                self.lssn, self.entry_id = self.lssn + 1, 0
                return Chunk(self.lssn, None, ())
            await grown.wait()
        first = self.entry_id
        self.entry_id = min(first + self.log.per_fetch, self.log.lengths[self.lssn - 1])
        self.log.fetched += self.entry_id - first
        entries = [Entry(n, b"%d" % n + b"." * SIZE) for n in range(first, self.entry_id)]
        return Chunk(self.lssn, None, entries)

    async def aclose(self) -> None:
        if self._is_read:
            self._is_read = False
            self.log.open_count -= 1


class Readers:
    """A shared stream over a log, and its readers."""

    def __init__(
        self, log: Log, cache_bytes: int = 1 << 20, catch_up: asyncio.Semaphore | None = None
    ) -> None:
        self.log = log
        self.counts = SharingCounts()
        self.cache = BlockCache(cache_bytes)
        end = len(log.lengths), log.lengths[-1]
        self.catch_up = catch_up or asyncio.Semaphore(100)
        self.stream = SharedStream(
            ("test/s", "id"), self.cache, self.counts, log.reopen, end, self.catch_up
        )

    def cursor(self, position: EntryPosition) -> ReadCursor:
        return ReadCursor(self.stream, self.log.source(position), end=None)

    async def read(
        self, position: EntryPosition, count: int, pause_s: float = 0.0
    ) -> list[EntryPosition]:
        """Read ``count`` entries and return the positions of all that were received."""
        cursor = self.cursor(position)
        found: list[EntryPosition] = []
        while len(found) < count:
            block = await cursor.next()
            assert block is not None
            found += [(block.start[0], n) for n in range(block.start[1], block.end[1])]
            await asyncio.sleep(pause_s)
        await cursor.aclose()
        return found

    async def aclose(self) -> None:
        await self.stream.aclose()
        assert self.log.open_count == 0, "every source is closed"


def positions(*lengths: int, first: EntryPosition = (1, 0)) -> list[EntryPosition]:
    every = [(n, entry) for n, length in enumerate(lengths, 1) for entry in range(length)]
    return [position for position in every if position >= first]


async def test_fetches_behind_the_end_take_turns_over_all_streams() -> None:
    slots = asyncio.Semaphore(2)
    streams = [Readers(Log(200, per_fetch=10), catch_up=slots) for _ in range(6)]
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    waiting: list[int] = []

    async def watch() -> None:
        while True:
            waiting.append(sum(readers.counts.fetches_waiting for readers in streams))
            await asyncio.sleep(FETCH_S)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(readers.read((1, 0), 200) for readers in streams))
    watching.cancel()
    assert loop.time() - began_s >= 6 * 19 / 2 * FETCH_S, "two at a time"
    assert max(waiting) == 4
    for readers in streams:
        assert readers.counts.fetches_waiting == 0
        await readers.aclose()
    assert not slots.locked()


async def test_readers_at_the_end_do_not_wait_for_those_that_catch_up() -> None:
    slots = asyncio.Semaphore(0)  # taken by other streams for ever
    readers = Readers(log := Log(100), catch_up=slots)
    tail = asyncio.create_task(readers.read((1, 100), 3))
    behind = asyncio.create_task(readers.read((1, 0), 1))
    await asyncio.sleep(0.2)
    log.add(3)
    assert await asyncio.wait_for(tail, 5) == [(1, 100), (1, 101), (1, 102)]
    assert not behind.done()
    behind.cancel()
    await asyncio.gather(behind, return_exceptions=True)
    await readers.aclose()
    assert readers.counts.fetches_waiting == 0


@pytest.mark.parametrize("count", [1, 10, 40])
async def test_returning_readers_read_the_log_about_once(count: int) -> None:
    """Each of them read the whole log for itself before."""
    log = Log(300, 0, 500)
    readers = Readers(log)
    starts = [(1, 7 * number % 50) for number in range(count)]
    works = [readers.read(start, 800 - start[1]) for start in starts]
    found = await asyncio.gather(*works)
    for start, one in zip(starts, found, strict=True):
        assert one == positions(300, 0, 500, first=start)
    assert log.fetched <= 800 * 1.25
    assert readers.counts.delivered_bytes >= readers.counts.fetched_bytes * count * 0.75
    await readers.aclose()


async def test_what_overlapping_readers_read_twice_does_not_grow() -> None:
    """Runs that began at overlapping positions went on side by side before."""
    excess = []
    for length in (2_000, 8_000):
        log = Log(length, per_fetch=100)
        readers = Readers(log, cache_bytes=100 << 20)
        works = []
        for first in range(440, 0, -37):
            works.append(asyncio.ensure_future(readers.read((1, first), length - first, 0.06)))
            await asyncio.sleep(0.011)
        await asyncio.gather(*works)
        excess.append(log.fetched - length)
        await readers.aclose()
    assert excess[1] <= excess[0] + 100, excess


async def test_reader_that_returns_later_finds_what_others_have_read() -> None:
    log = Log(100, 100)
    readers = Readers(log)
    await readers.read((1, 0), 200)
    before = log.fetched
    assert await readers.read((1, 35), 165) == positions(100, 100, first=(1, 35))
    assert log.fetched == before
    await readers.aclose()


async def test_slow_reader_falls_out_and_delays_nobody() -> None:
    log = Log(2_000)
    readers = Readers(log, cache_bytes=50_000)
    slow = asyncio.ensure_future(readers.read((1, 0), 300, pause_s=2.0))
    loop = asyncio.get_running_loop()
    started = loop.time()
    fast = await asyncio.gather(*(readers.read((1, 0), 2_000) for _ in range(10)))
    assert all(one == positions(2_000) for one in fast)
    assert loop.time() - started < 200 * 2 * FETCH_S
    assert log.fetched <= 2_000 * 1.2
    assert readers.cache.bytes <= 50_000
    assert (await slow)[:300] == positions(300)
    await readers.aclose()


async def test_readers_at_the_end_share_one_wait_with_those_that_catch_up() -> None:
    log = Log(100)
    readers = Readers(log)
    works = [asyncio.ensure_future(readers.read(start, 5)) for start in [(1, 100)] * 20]
    works.append(asyncio.ensure_future(readers.read((1, 0), 105)))
    works.append(asyncio.ensure_future(readers.read((1, 102), 3)))  # ahead of what is known
    await asyncio.sleep(3)
    assert readers.stream.run_count == 1
    for _ in range(3):
        log.add()
        await asyncio.sleep(1)
    log.roll()
    log.add(2)
    found = await asyncio.gather(*works)
    assert found[0] == [(1, 100), (1, 101), (1, 102), (2, 0), (2, 1)]
    assert found[-2] == [*positions(103), (2, 0), (2, 1)]
    assert found[-1] == [(1, 102), (2, 0), (2, 1)]
    assert log.fetched == 105
    await readers.aclose()


async def test_cancelled_reader_does_not_cancel_the_fetch_of_others() -> None:
    log = Log(10)
    readers = Readers(log)
    first, second = readers.cursor((1, 0)), readers.cursor((1, 0))
    leaving = asyncio.ensure_future(first.next())
    staying = asyncio.ensure_future(second.next())
    await asyncio.sleep(FETCH_S / 2)
    leaving.cancel()
    await asyncio.wait([leaving])
    await first.aclose()
    block = await staying
    assert block is not None and block.end == (1, 10)
    with pytest.raises(TimeoutError):
        await second.next(1.0)
    log.add()
    block = await second.next(1.0)
    assert block is not None and block.start == (1, 10), "a timeout loses nothing"
    assert log.fetched == 11
    await second.aclose()
    assert readers.stream.run_count == 0
    await readers.aclose()


async def test_error_reaches_all_waiting_readers_and_is_not_cached() -> None:
    log = Log(10)
    readers = Readers(log)
    log.error = UnavailableError("no bookie")
    cursors = [readers.cursor((1, 0)) for _ in range(5)]
    results: Sequence[object] = await asyncio.gather(
        *(cursor.next() for cursor in cursors), return_exceptions=True
    )
    assert [type(one) for one in results] == [UnavailableError] * 5
    log.error = None
    block = await cursors[0].next()
    assert block is not None and block.end == (1, 10)
    for cursor in cursors:
        await cursor.aclose()
    await readers.aclose()


async def test_closing_ends_waiting_readers_and_all_sources() -> None:
    log = Log(10, 10)
    readers = Readers(log)
    waiting = [asyncio.ensure_future(readers.read(one, 99)) for one in ((1, 0), (2, 5), (2, 10))]
    await asyncio.sleep(3)
    await readers.stream.aclose()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in results] == [NotOwnerError] * 3
    with pytest.raises(NotOwnerError):
        await readers.cursor((2, 10)).next()
    await readers.aclose()

"""Readers of one stream in a client share one call, and each of them misses nothing."""

import asyncio
from random import Random
from typing import cast

import pytest

from rhumbline.core.log.read.entry_source import Chunk
from rhumbline.core.protocol.errors import ClosedError, EndOfStreamError
from rhumbline.proxies.client.proxy_reader import ProxyEntry, ProxySource
from rhumbline.proxies.client.shared_reading import SharedReading, SharedSource
from rhumbline.proxies.read.block_cache import StreamKey
from rhumbline.proxies.read.entry_block import EntryPosition
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)

KEY: StreamKey = ("ns/s", "id")


class Proxy:
    """Serves a stream of ``count`` entries, which ends after the last one if it ``has_ended``."""

    def __init__(self, count: int = 0) -> None:
        self.count = count
        self.has_ended = False
        self.written = asyncio.Event()
        self.sent = 0
        self.open_calls = 0
        self.reading = SharedReading(self.reopen)

    async def reopen(self, key: StreamKey, position: EntryPosition) -> ProxySource:
        assert key == KEY
        return self.source(position)

    def source(self, position: EntryPosition) -> ProxySource:
        return cast(ProxySource, Source(self, position))

    def reader(self, entry_id: int = 0) -> SharedSource:
        return self.reading.join(KEY, self.source((1, entry_id)))

    def write(self) -> None:
        self.count += 1
        self.written.set()
        self.written = asyncio.Event()


class Source:
    """A call that gets up to three entries in a message."""

    is_ready = False

    def __init__(self, proxy: Proxy, position: EntryPosition) -> None:
        self.lssn, self.entry_id = position
        self._proxy = proxy
        proxy.open_calls += 1

    async def fetch(self, ahead_bytes: int = 0) -> Chunk:
        proxy = self._proxy
        while self.entry_id >= proxy.count:
            if proxy.has_ended:
                raise EndOfStreamError("the end")
            await proxy.written.wait()
        await asyncio.sleep(0.001)
        ids = range(self.entry_id, min(self.entry_id + 3, proxy.count))
        proxy.sent += len(ids)
        self.entry_id = ids.stop
        return Chunk(self.lssn, 7, [ProxyEntry(id_, b"%d" % id_) for id_ in ids])

    async def aclose(self) -> None:
        self._proxy.open_calls -= 1


async def read(source: SharedSource, count: int, random: Random | None = None) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        chunk = await source.fetch()
        assert (chunk.lssn, chunk.start_sequence_id) == (1, 7)
        found += [entry.entry_id for entry in chunk.entries]
        assert [bytes(entry.payload) for entry in chunk.entries] == [
            b"%d" % entry.entry_id for entry in chunk.entries
        ]
        if random is not None:
            await asyncio.sleep(random.random() * 0.01)
    return found


async def test_readers_at_the_tail_share_one_call() -> None:
    proxy = Proxy()
    readers = [proxy.reader() for _ in range(100)]
    reading = [asyncio.ensure_future(read(reader, 10)) for reader in readers]
    for _ in range(10):
        await asyncio.sleep(0.1)
        proxy.write()
    assert await asyncio.gather(*reading) == [list(range(10))] * 100
    assert proxy.open_calls == 1
    assert proxy.sent == 10
    for reader in readers:
        await reader.aclose()
        await reader.aclose()
    assert proxy.open_calls == 0


@pytest.mark.seeds(5)
async def test_readers_of_any_start_and_speed_miss_nothing(seed: int) -> None:
    proxy, random = Proxy(60), Random(seed)
    starts = [random.randrange(60) for _ in range(20)]
    readers = [proxy.reader(start) for start in starts]
    found = await asyncio.gather(
        *(read(reader, 60 - start, random) for reader, start in zip(readers, starts, strict=True))
    )
    assert found == [list(range(start, 60)) for start in starts]
    for reader in readers:
        await reader.aclose()
    assert proxy.open_calls == 0


async def test_every_reader_learns_the_end_of_the_stream() -> None:
    proxy = Proxy(3)
    proxy.has_ended = True
    for reader in [proxy.reader() for _ in range(3)]:
        await read(reader, 3)
        with pytest.raises(EndOfStreamError):
            await reader.fetch()
        await reader.aclose()
    assert proxy.open_calls == 0


async def test_closing_the_client_ends_all_reading() -> None:
    proxy = Proxy(3)
    reader = proxy.reader()
    await read(reader, 3)
    waiting = asyncio.ensure_future(reader.fetch())
    await asyncio.sleep(0.1)
    await proxy.reading.aclose()
    with pytest.raises(ClosedError):
        await waiting
    with pytest.raises(ClosedError):
        await reader.fetch()
    await reader.aclose()
    assert proxy.open_calls == 0

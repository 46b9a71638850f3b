"""Readers of a read proxy share what is read, do not delay each other, and miss nothing."""

import asyncio
from random import Random

import pytest

from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import NotOwnerError, TooManyRequestsError, TruncatedError
from rhumbline.core.protocol.record_set import decode_entry
from rhumbline.core.protocol.start import EARLIEST, LATEST, AtTxid, Start
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.membership import READ, ProxyMembership
from rhumbline.proxies.read.read_proxy import OpenedRead, ReadProxy
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)


class Proxy(ReadProxy):
    """A read proxy that also leaves the membership when it closes."""

    membership: ProxyMembership

    async def aclose(self) -> None:
        await super().aclose()
        await self.membership.leave()


async def a_proxy(
    log: LogWorld, config: ProxyConfig, address: str = "r:1", region: str = "east"
) -> Proxy:
    membership = ProxyMembership(
        log.store, log.runtime, roles=(READ,), address=address, region=region, session_ttl_ms=1000
    )
    proxy = Proxy(lambda _: log.open_namespace(), membership, config)
    proxy.membership = membership
    await membership.join()
    return proxy


async def payloads(
    proxy: ReadProxy, opened: OpenedRead, count: int, *, last: bytes = b"", pause_s: float = 0.0
) -> list[bytes]:
    """Return at least ``count`` records and up to ``last``, or all up to the end of the read."""
    found: list[bytes] = []
    position = opened.position[:2]
    while len(found) < count or (last and found[-1] != last):
        block = await opened.cursor.next()
        if block is None:
            break
        message = pb.ReadResponse.FromString(block.encoded())
        assert (message.lssn, message.first_entry_id) >= position
        position = (message.lssn, message.first_entry_id + len(message.entries))
        for entry in message.entries:
            for one in decode_entry(entry):
                found += one.payloads() if not one.is_control else []
        if pause_s:
            await asyncio.sleep(pause_s)
    await proxy.close(opened)
    return found


async def test_a_hundred_readers_share_one_read_of_each_entry(log: LogWorld) -> None:
    writer = await log.writer("s")
    await writer.append(b"before")
    proxy = await a_proxy(log, ProxyConfig())
    opened = [await proxy.open("test", "s", LATEST) for _ in range(100)]
    readers = [asyncio.ensure_future(payloads(proxy, one, 50)) for one in opened]
    for n in range(50):
        await writer.append(b"%d" % n)
        await asyncio.sleep(0.001)
    found = [await asyncio.wait_for(reader, 10) for reader in readers]
    assert all(one == [b"%d" % n for n in range(50)] for one in found)
    assert log.ledgers.reads < 20, "long polls return the entries; no reader reads the log itself"
    assert proxy.statistics()["streams"] == 0
    await proxy.aclose()
    await writer.close()


async def test_returning_readers_of_an_archive_share_one_read_of_it(log: LogWorld) -> None:
    await fill_stream(log)
    cold = DictColdStore()
    await archive_segments(log, cold)
    assert (await log.namespace.maintain("s")).retired == (1, 2, 3, 4)
    proxy = await a_proxy(log, ProxyConfig())
    cost: list[int] = []
    for count in (1, 20):
        before = cold.bytes_read
        opened = [await proxy.open("test", "s", EARLIEST, stops_at_end=True) for _ in range(count)]
        found = await asyncio.gather(*(payloads(proxy, one, 999) for one in opened))
        assert all(len(one) == 120 and one == found[0] for one in found)
        cost.append(cold.bytes_read - before)
    assert cost[1] == 0, "the readers that came later found everything in the cache"
    await proxy.aclose()


async def test_recreated_stream_has_nothing_of_the_deleted_one(log: LogWorld) -> None:
    proxy = await a_proxy(log, ProxyConfig())
    for generation in (b"old", b"new"):
        writer = await log.writer("s")
        for n in range(5):
            await writer.append(generation + b"%d" % n)
        await writer.close()
        for _ in range(2):
            opened = await proxy.open("test", "s", EARLIEST, stops_at_end=True)
            assert await payloads(proxy, opened, 9) == [generation + b"%d" % n for n in range(5)]
        await log.namespace.delete_stream("s")
    await proxy.aclose()


async def test_proxy_shows_the_lag_of_its_slowest_reader(log: LogWorld) -> None:
    writer = await log.writer("s")
    proxy = await a_proxy(log, ProxyConfig())
    slow, fast = [await proxy.open("test", "s", LATEST) for _ in range(2)]
    following = asyncio.ensure_future(payloads(proxy, fast, 2))
    await writer.append(b"one")
    await asyncio.sleep(3)
    assert proxy.statistics()["behind_ms"] >= 3_000
    await proxy.close(slow)
    assert proxy.statistics()["behind_ms"] == 0
    await writer.append(b"two")
    assert await following == [b"one", b"two"]
    await proxy.aclose()
    await writer.close()


@pytest.mark.parametrize("cache_bytes", [1, 2_000, 1 << 20])
@pytest.mark.seeds(5)
async def test_readers_of_any_speed_and_start_miss_nothing(
    log: LogWorld, seed: int, cache_bytes: int
) -> None:
    random = Random(seed)
    log.ledgers.delay_s = lambda: random.random() * 0.01
    writer = await log.writer("s")
    proxy = await a_proxy(log, ProxyConfig(cache_bytes_max=cache_bytes))
    sent: list[bytes] = []
    positions: list[Dlsn] = []
    readers: list[tuple[int, asyncio.Task[list[bytes]]]] = []
    total = 120
    for n in range(total):
        if n % 10 == 0:
            start: Start = EARLIEST
            first = 0
            if sent and random.random() < 0.7:
                start, first = LATEST, len(sent)
            elif sent and random.random() < 0.5:
                first = random.randrange(len(sent))
                start = positions[first]
            opened = await proxy.open("test", "s", start)
            work = payloads(
                proxy,
                opened,
                total - first,
                last=b"%d" % (total - 1),
                pause_s=random.choice([0, 0.05, 0.2]),
            )
            readers.append((first, asyncio.ensure_future(work)))
        if n in (30, 70):  # another writer: the next segment
            await writer.close()
            writer = await log.writer("s")
        payload = b"%d" % n
        positions.append((await writer.append(payload)).dlsn)
        sent.append(payload)
        await asyncio.sleep(random.random() * 0.05)
    for first, reader in readers:
        found = await asyncio.wait_for(reader, 60)
        # A position names a record, but its entry is sent whole, and a record acknowledged just
        # before a read from LATEST may have become readable after the read began.
        assert len(found) >= total - first
        assert found == sent[total - len(found) :]
    await proxy.aclose()
    await writer.close()


async def test_read_can_stop_at_the_present_end(log: LogWorld) -> None:
    proxy = await a_proxy(log, ProxyConfig())
    writer = await log.writer("s")
    assert (
        await payloads(proxy, await proxy.open("test", "s", EARLIEST, stops_at_end=True), 9) == []
    )
    for n in range(5):
        await writer.append(b"%d" % n)
    await writer.close()
    opened = await proxy.open("test", "s", AtTxid(1), stops_at_end=True)
    assert await payloads(proxy, opened, 99) == [b"0", b"1", b"2", b"3", b"4"]
    await proxy.aclose()


async def test_end_of_a_stream_ends_its_reads(log: LogWorld) -> None:
    proxy = await a_proxy(log, ProxyConfig())
    writer = await log.writer("s")
    reading = asyncio.ensure_future(payloads(proxy, await proxy.open("test", "s", EARLIEST), 99))
    await writer.append(b"last")
    await writer.end_stream()
    assert await asyncio.wait_for(reading, 60) == [b"last"]
    assert await payloads(proxy, await proxy.open("test", "s", EARLIEST), 99) == [b"last"]
    await proxy.aclose()


async def test_truncated_start_fails_or_is_advanced(log: LogWorld) -> None:
    proxy = await a_proxy(log, ProxyConfig())
    writer = await log.writer("s")
    positions = [(await writer.append(b"%d" % n)).dlsn for n in range(5)]
    await log.namespace.truncate("s", positions[2])
    with pytest.raises(TruncatedError):
        await proxy.open("test", "s", positions[0])
    opened = await proxy.open("test", "s", positions[0], advances_if_truncated=True)
    assert (opened.truncated, opened.position) == (positions[0], positions[2])
    assert await payloads(proxy, opened, 3) == [b"2", b"3", b"4"]
    await proxy.aclose()
    await writer.close()


async def test_readers_are_limited_and_redirected_to_the_proxy_of_their_stream(
    log: LogWorld,
) -> None:
    await log.namespace.create_stream("s")
    one = await a_proxy(log, ProxyConfig(readers_max=1), "one:1")
    two = await a_proxy(log, ProxyConfig(readers_max=1), "two:1")
    await asyncio.sleep(0.01)
    right, wrong, address = one, two, "one:1"
    try:
        opened = await one.open("test", "s", LATEST)
    except NotOwnerError as error:
        right, wrong, address = two, one, "two:1"
        assert error.owner == address
        opened = await two.open("test", "s", LATEST)
    with pytest.raises(TooManyRequestsError):
        await right.open("test", "s", LATEST)
    with pytest.raises(NotOwnerError):
        await wrong.open("test", "s", LATEST)
    await wrong.close(await wrong.open("test", "s", LATEST, tried=(address,)))
    await right.close(opened)
    await right.close(await right.open("test", "s", LATEST))
    await one.aclose()
    await two.aclose()


async def test_timeout_of_a_waiting_reader_loses_no_entry(log: LogWorld) -> None:
    proxy = await a_proxy(log, ProxyConfig())
    writer = await log.writer("s")
    await writer.append(b"0")
    opened = await proxy.open("test", "s", LATEST)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await opened.cursor.next(1.0)
    await writer.append(b"1")
    block = await opened.cursor.next(1.0)
    assert block is not None and len(block.entries) == 1
    with pytest.raises(TimeoutError):
        await opened.cursor.next(1.0)
    await proxy.close(opened)
    await proxy.aclose()
    await writer.close()


async def test_readers_return_when_their_preferred_proxy_is_back(log: LogWorld) -> None:
    await log.namespace.create_stream("s")
    one = await a_proxy(log, ProxyConfig(), "one:1")
    two = await a_proxy(log, ProxyConfig(), "two:1")
    far = await a_proxy(log, ProxyConfig(), "far:1", "west")
    await asyncio.sleep(0.01)
    home, other, address = one, two, "one:1"
    try:
        await home.close(await home.open("test", "s", LATEST))
    except NotOwnerError:
        home, other, address = two, one, "two:1"
    unreachable = [await p.open("test", "s", LATEST, tried=(address,)) for p in (other, far)]
    assert [p.find_better_proxy(o) for p, o in zip((other, far), unreachable, strict=True)] == [
        "",
        "",
    ]

    await home.aclose()
    await asyncio.sleep(0.01)
    displaced = [await p.open("test", "s", LATEST, tried=(address,)) for p in (other, far)]
    assert [p.find_better_proxy(o) for p, o in zip((other, far), displaced, strict=True)] == [
        "",
        "",
    ]
    home = await a_proxy(log, ProxyConfig(), address)
    await asyncio.sleep(0.01)
    for proxy, opened in zip((other, far), displaced, strict=True):
        assert proxy.find_better_proxy(opened) == address
    again = [await p.open("test", "s", LATEST, tried=(address,)) for p in (other, far)]
    assert [p.find_better_proxy(o) for p, o in zip((other, far), again, strict=True)] == ["", ""]
    for proxy in (home, other, far):
        await proxy.aclose()

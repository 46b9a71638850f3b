"""The wheel, the tail cache, group bytes, limits, verification, and very many ledgers."""

import asyncio
from random import Random

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.index.tiered_index import MemoryIndexStore
from rhumbline.core.bookie.ledger_records import LedgerRecords
from rhumbline.core.bookie.log.commit_group import Outbox
from rhumbline.core.bookie.log.log_format import (
    LOG_KIND,
    FileHeader,
    GroupHeader,
    check_record,
    decode_file_header,
    decode_group_header,
    encode_file_header,
    encode_group_header,
    encode_record,
    iterate_records,
)
from rhumbline.core.bookie.log.tail_cache import TailCache
from rhumbline.core.bookie.maintenance.offline_verify import verify_storage
from rhumbline.core.bookie.server.timer_wheel import TimerWheel
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    CorruptionError,
    ForeignDataError,
    RhumblineError,
)
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, FixedClock, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

ME = BookieId("b1@0000abcd")


class Item:
    """Waits on a wheel."""

    def __init__(self, log: list[str], name: str) -> None:
        self.tick = 0
        self._log = log
        self._name = name

    def expired(self) -> None:
        self._log.append(self._name)


def test_wheel_keeps_deadlines_in_order_and_never_early() -> None:
    async def main() -> None:
        log: list[str] = []
        wheel = TimerWheel(tick_ms=5)
        loop = asyncio.get_running_loop()
        start = loop.time()
        items = [Item(log, name) for name in "abcd"]
        for item, delay_ms in zip(items, (40, 10, 25, 30), strict=True):
            wheel.add(item, delay_ms)
        wheel.remove(items[3])
        wheel.remove(items[3])
        assert wheel.count == 3
        while len(log) < 3:
            await asyncio.sleep(0.002)
            assert loop.time() - start < 5
        assert log == ["b", "c", "a"]
        assert loop.time() - start >= 0.04
        assert wheel.count == 0
        wheel.add(items[3], 1)
        wheel.close()
        await asyncio.sleep(0.02)
        assert log == ["b", "c", "a"]

    asyncio.run(main())


def test_tail_cache_holds_the_newest_bytes_and_no_more() -> None:
    cache = TailCache(10_000)
    for number in range(1000):
        cache.put(number * 1000, bytes([number % 256]) * 300)
        assert cache.held_bytes <= 10_000
    assert cache.get(999_000, 300) == bytes([999 % 256]) * 300
    assert cache.get(999_010, 5) == bytes([999 % 256]) * 5
    assert cache.get(999_290, 20) is None
    assert cache.get(1000, 5) is None
    assert TailCache(0).get(0, 1) is None


def test_group_bytes_round_trip_and_every_flip_is_seen() -> None:
    random = Random(4)
    header = FileHeader(LOG_KIND, 7, 2**63 + 5, 6, 12345, 99, ME)
    data = bytearray(encode_file_header(header))
    assert decode_file_header(bytes(data), "log/7") == header
    for _ in range(200):
        at, bit = random.randrange(len(data)), random.randrange(8)
        data[at] ^= 1 << bit
        with pytest.raises((CorruptionError, ForeignDataError)):
            decode_file_header(bytes(data), "log/7")
        data[at] ^= 1 << bit
    group = GroupHeader(3, 2**63 + 5, 4, 10, 20, 30, 40)
    raw = bytearray(encode_group_header(group))
    assert decode_group_header(bytes(raw)) == group
    for at in range(len(raw)):
        raw[at] ^= 1
        assert decode_group_header(bytes(raw)) is None
        raw[at] ^= 1
    body = encode_record(b"entry") + encode_record(b"state", is_state=True)
    assert list(iterate_records(body)) == [(8, b"entry", False), (21, b"state", True)]
    assert check_record(encode_record(b"entry"), 5) == b"entry"
    for cut in range(1, len(body)):
        if cut != 13:
            with pytest.raises(CorruptionError):
                list(iterate_records(body[:cut]))
    with pytest.raises(CorruptionError):
        check_record(encode_record(b"entry")[:-1] + b"Y", 5)


def test_damaged_state_records_raise_only_the_typed_error() -> None:
    random = Random(9)
    states = LedgerRecords()
    ledger = states.create(5, KEY)
    ledger.is_fenced = True
    records = list(states.snapshot())
    for record in records:
        LedgerRecords().apply(record)
        for _ in range(100):
            rotten = bytearray(record)
            del rotten[random.randrange(1, len(rotten) + 1) :]
            if rotten:
                rotten[random.randrange(len(rotten))] ^= 1 << random.randrange(8)
            try:
                LedgerRecords().apply(bytes(rotten))
            except CorruptionError:
                continue


def test_bad_limits_are_all_named_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"log_file_bytes.*group_count_max.*reserve"):
        BookieConfig(
            log_file_bytes=1, group_count_max=0, reserve_below_bytes=2, read_only_below_bytes=1
        )


def test_verification_reads_everything_and_changes_nothing() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        config = BookieConfig(log_file_bytes=1 << 16, sealed_logs_kept=1)
        async with one_bookie(config, disk) as (_, bookie, wire):
            for number in range(200):
                assert await wire.add(entry(1, number, bytes(900))) == Code.OK
            assert await wire.fence(2) == Code.NO_ENTRY
            await bookie.maintenance.step()
            assert bookie.storage.sorted
            image = disk.copy()
        before = {path: bytes(content) for path, content in image.files.items()}
        summary = await verify_storage(image)
        assert summary.damages == ()
        assert (summary.entry_count, len(summary.ledgers)) == (200, 2)
        assert summary.ledgers[1].is_fenced
        assert {path: bytes(content) for path, content in image.files.items()} == before
        for path in [path for path in image.files if "." in path]:
            rotten = image.copy()
            rotten.files[path][len(rotten.files[path]) // 3] ^= 2
            damages = (await verify_storage(rotten)).damages
            is_newest = path == max(p for p in image.files if p.startswith("log/"))
            assert damages or is_newest, path

    asyncio.run(main())


class Counting:
    """Counts answers."""

    def __init__(self) -> None:
        self.count = 0

    def answered(self, outbox: Outbox) -> None:
        self.count += len(outbox.answers)

    def refused(self, outbox: Outbox, error: RhumblineError) -> None:
        raise error


def test_a_hundred_thousand_ledgers_in_one_bookie() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        runtime = Runtime(FixedClock(), Random(1))
        config = BookieConfig(tail_cache_bytes=1 << 20)
        storage = Storage(runtime, disk, config, ME, MemoryIndexStore())
        await storage.open()
        teller = Counting()
        count = 100_000
        for ledger_id in range(count):
            ledger = storage.create_ledger(ledger_id, KEY, is_proven=True)
            storage.add(ledger, entry(ledger_id, 0), teller, b"")
            if ledger_id % 1000 == 0:
                await asyncio.sleep(0)
        storage.fence(storage.states.ledgers[count - 1], lambda error: None)
        await storage.aclose()
        assert teller.count == count
        again = Storage(runtime, disk, config, ME, MemoryIndexStore())
        await again.open()
        assert len(again.states.ledgers) == count
        assert again.states.ledgers[count - 1].is_fenced
        location = again.find(count - 1, 0)
        assert await again.read(count - 1, 0, location) == entry(count - 1, 0)
        await again.aclose()

    asyncio.run(main())

"""Sorting takes the share that it may, holds the loop for no long time, and moves any order."""

import asyncio
import time
from random import Random

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.index.tiered_index import MemoryIndexStore
from rhumbline.core.bookie.log.commit_group import Outbox
from rhumbline.core.bookie.log.log_format import SORTED_KIND
from rhumbline.core.bookie.maintenance.compactor import Compactor
from rhumbline.core.bookie.maintenance.duty_cycle import DutyCycle
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import DiskFullError, RhumblineError
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, FixedClock, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

ME = BookieId("sort@0000c0de")


class Nobody:
    """Does not mind the answers."""

    def answered(self, outbox: Outbox) -> None:
        pass

    def refused(self, outbox: Outbox, error: RhumblineError) -> None:
        raise error


@pytest.mark.parametrize(("share", "pause_ms"), [(0.1, 90), (0.5, 10), (1.0, 0)])
def test_a_pause_is_as_long_as_the_share_says(share: float, pause_ms: int) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        pace = DutyCycle(lambda: share)
        pace.begin()
        for _ in range(3):
            await asyncio.sleep(0.01)  # the work
            before_s = loop.time()
            await pace.pause()
            assert round((loop.time() - before_s) * 1000) == pause_ms

    run_jumping(main())


def test_the_share_grows_with_the_backlog_while_clients_add() -> None:
    async def main() -> None:
        config = BookieConfig(log_file_bytes=1 << 16, sealed_logs_kept=2, sort_backlog_logs=4)
        async with one_bookie(config) as (_, bookie, wire):
            maintenance, storage = bookie.maintenance, bookie.storage
            shares = []
            for logs in (1, 3, 4, 6, 60):
                await wire.add(entry(1, logs))
                storage.sealed_logs = list(range(logs))
                shares.append(maintenance._share())
            assert shares == [0.25, 0.25, 0.5, 1.0, 1.0]
            await asyncio.sleep(0.15)
            assert maintenance._share() == 0.5  # nobody adds
            storage.sealed_logs = []

    asyncio.run(main())


async def filled(
    disk: MemoryDisk, config: BookieConfig, kind: type[Storage] = Storage
) -> tuple[Storage, dict[int, bytes]]:
    """A sealed log in which ids fall, have holes, and come twice; what must be read of ledger 1."""
    storage = kind(Runtime(FixedClock(), Random(1)), disk, config, ME, MemoryIndexStore())
    await storage.open()
    random = Random(2)
    kept: dict[int, bytes] = {}
    ledgers = [storage.create_ledger(number, KEY, is_proven=True) for number in (1, 2)]
    while not storage.sealed_logs:
        for _ in range(20):
            number = random.randrange(5_000)
            kept[number] = entry(1, number, random.randbytes(random.randrange(20, 300)))
            storage.add(ledgers[0], kept[number], Nobody(), b"")
            storage.add(ledgers[1], entry(2, number, b"other"), Nobody(), b"")
        await asyncio.sleep(0)
    await storage.journal(storage.states.manifest.encode())
    await storage.checkpoint()
    return storage, kept


def test_entries_in_any_order_and_twice_are_sorted_and_found() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
        storage, kept = await filled(disk, config)
        sorter = Compactor(storage, slice_bytes=100_000)
        await sorter.sort_log(storage.sealed_logs[0])
        (number,) = storage.sorted
        for _ in range(2):
            for entry_id, data in kept.items():
                assert await storage.read(1, entry_id, storage.find(1, entry_id)) == data
            if number in storage.sorted:
                storage.delete_ledger(2)
                assert await sorter.compact(number)
        image = disk.copy()
        await storage.aclose()
        again = Storage(Runtime(FixedClock(), Random(3)), image, config, ME, MemoryIndexStore())
        await again.open()
        assert again.damages == []
        for entry_id, data in kept.items():
            assert await again.read(1, entry_id, again.find(1, entry_id)) == data
        await again.aclose()

    asyncio.run(main())


class Reluctant(Storage):
    """Its journal refuses a manifest now and then."""

    refuses = (2, 5)
    """Which ones, in the order of the attempts: those that leave a rewritten file out."""
    attempts = 0

    async def write_manifest(self) -> None:
        self.attempts += 1
        if self.attempts in self.refuses:
            raise DiskFullError("no space left")
        await super().write_manifest()


def test_file_whose_end_the_journal_did_not_take_is_rewritten_again() -> None:
    async def main() -> None:
        config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
        storage, kept = await filled(MemoryDisk(), config, Reluctant)
        sorter = Compactor(storage, slice_bytes=100_000)
        log = storage.sealed_logs[0]
        with pytest.raises(DiskFullError):
            await sorter.sort_log(log)
        assert await sorter.sort_log(log)
        storage.delete_ledger(2)
        (number,) = storage.sorted
        with pytest.raises(DiskFullError):
            await sorter.compact(number)
        assert await sorter.compact(number)
        assert number not in storage.sorted
        for entry_id, data in kept.items():
            assert await storage.read(1, entry_id, storage.find(1, entry_id)) == data
        await storage.aclose()

    asyncio.run(main())


class ReluctantAtFirst(Reluctant):
    """Its journal does not take the first two files that were written."""

    refuses = (1, 2)


def test_file_whose_beginning_the_journal_did_not_take_leaves_nothing_behind() -> None:
    async def main() -> None:
        config = BookieConfig(log_file_bytes=1 << 19, tail_cache_bytes=0)
        disk = MemoryDisk()
        storage, kept = await filled(disk, config, ReluctantAtFirst)
        sorter = Compactor(storage, slice_bytes=100_000)
        log = storage.sealed_logs[0]
        for count in (1, 2):
            with pytest.raises(DiskFullError):
                await sorter.sort_log(log)
            assert (storage.sorted, storage.states.manifest.sorted_files) == ({}, {})
            assert storage.states.manifest.log_floor == log
            assert len(await storage.files.numbers(SORTED_KIND)) == count
        assert await sorter.sort_log(log)
        (number,) = storage.sorted
        assert list(storage.states.manifest.sorted_files) == [number]
        assert await storage.files.numbers(SORTED_KIND) == [number]
        image = disk.copy()
        await storage.aclose()
        again = Storage(Runtime(FixedClock(), Random(3)), image, config, ME, MemoryIndexStore())
        await again.open()
        assert again.damages == []
        for entry_id, data in kept.items():
            assert await again.read(1, entry_id, again.find(1, entry_id)) == data
        await again.aclose()

    asyncio.run(main())


def test_sorting_lets_others_run_every_few_milliseconds() -> None:
    """By the CPU time of this thread: what else the machine does is no matter."""

    async def main() -> None:
        disk = MemoryDisk()
        storage, _ = await filled(disk, BookieConfig(log_file_bytes=1 << 22, tail_cache_bytes=0))
        sorting = asyncio.ensure_future(Compactor(storage).sort_log(storage.sealed_logs[0]))
        held_ms = []
        while not sorting.done():
            before = time.thread_time_ns()
            await asyncio.sleep(0)
            held_ms.append((time.thread_time_ns() - before) / 1e6)
        await sorting
        await storage.aclose()
        held_ms.sort()
        assert len(held_ms) > 30
        assert held_ms[len(held_ms) * 9 // 10] < 10
        assert held_ms[-1] < 1000, "a busy machine was seen to add 200 ms to one turn"

    asyncio.run(main())

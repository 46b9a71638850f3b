"""A data directory that fails loses only what it held, and the bookie never denies that."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.disks import lost_files, spread_disk
from rhumbline.core.bookie.disks.attach_directories import attach_configured
from rhumbline.core.bookie.disks.lost_files import LostFiles
from rhumbline.core.bookie.disks.spread_disk import SpreadDisk
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.protocol.errors import DiskFailedError
from rhumbline.core.wire import v2
from rhumbline.core.wire.lost_ledgers import NONE_LOST, LostLedgers
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, World, entry
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import PAYLOAD, SMALL, all_there, fill

COUNT = 240


class UnevenDisk(MemoryDisk):
    """A disk whose free space differs each time, so that every directory gets some files."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

        self.measured: int | None = None
        self.is_hanging = False
        self.on_sync_directory: Callable[[], None] = lambda: None

    async def sync_directory(self, path: str) -> None:
        self.on_sync_directory()

    async def free_bytes(self) -> int:
        if self.is_hanging:
            await asyncio.Event().wait()
        return self.measured or self._random.getrandbits(30) + (2 << 30)


class Spread:
    """A bookie with two data directories."""

    def __init__(self, config: BookieConfig) -> None:
        self.config = config
        self.world = World()
        self.main = MemoryDisk()
        self.data = {path: UnevenDisk(Random(path)) for path in ("/d1", "/d2")}
        self.bookie: Bookie
        self.disk: SpreadDisk
        self.lost: LostFiles

    async def open(self, *paths: str, lost: tuple[str, ...] = ()) -> None:
        config = replace(self.config, data_dirs=paths, lost_data_dirs=lost)
        disk = await attach_configured(
            self.main, config, self.data.__getitem__, self.world.runtime.random
        )
        assert isinstance(disk, SpreadDisk)
        self.disk = disk
        self.bookie = await Bookie.open(
            self.world.runtime, disk, self.config, self.world.ledgers, self.world.directory
        )
        await self.bookie.serve("127.0.0.1", 0)
        self.lost = LostFiles(disk, self.bookie, 100)

    def sorted_in(self, path: str) -> list[str]:
        return [name for name in self.data[path].files if name.startswith("sorted/")]


@asynccontextmanager
async def filled(config: BookieConfig = SMALL) -> AsyncIterator[tuple[Spread, Wire]]:
    """Yield a bookie that has entries in sorted files of both directories."""
    spread = Spread(config)
    await spread.world.start()
    bookie_id = await spread.world.format(spread.main)
    await spread.open("/d1", "/d2")
    for ledger_id in range(1, 5):
        await spread.world.make_ledger(ledger_id, bookie_id)
    wire = await Wire.connect(spread.bookie)
    await fill(wire, COUNT)
    await spread.bookie.maintenance.step()
    assert spread.sorted_in("/d1") and spread.sorted_in("/d2")
    assert not [name for name in spread.main.files if name.startswith("sorted/")]
    try:
        yield spread, wire
    finally:
        await wire.aclose()
        await spread.bookie.aclose()
        await spread.world.aclose()


async def fetch(ledger_id: int, entry_id: int) -> bytes | None:
    return entry(ledger_id, entry_id, PAYLOAD)


async def unknown(wire: Wire) -> int:
    """Count the entries that cannot be read now, none of which may be denied."""
    count = 0
    for ledger_id in (1, 2, 3):
        for number in range(COUNT):
            code, body = await wire.read(ledger_id, number)
            assert code in (Code.OK, Code.IO)
            assert code == Code.IO or body == entry(ledger_id, number, PAYLOAD)
            count += code == Code.IO
    return count


async def run_for_a_while(spread: Spread, until: Callable[[], bool]) -> None:
    task = asyncio.get_running_loop().create_task(spread.lost.run())
    async with asyncio.timeout(20):
        while not until():
            await asyncio.sleep(0.01)
            await spread.bookie.maintenance.step()
    task.cancel()


async def test_sorted_files_are_spread_and_found_again() -> None:
    async with filled() as (spread, wire):
        await all_there(wire, (1, 2, 3), COUNT)
        await wire.aclose()
        await spread.bookie.aclose()
        await spread.open("/d2", "/d1")
        assert not spread.bookie.limbo_reason
        again = await Wire.connect(spread.bookie)
        await all_there(again, (1, 2, 3), COUNT)
        await again.aclose()


async def test_a_directory_that_vanishes_loses_only_what_it_held() -> None:
    async with filled() as (spread, wire):
        spread.data["/d1"].files.clear()
        with recorded_log() as log:
            await run_for_a_while(spread, lambda: spread.lost.unreadable_count > 0)
        bookie_id = spread.bookie.bookie_id
        missing = await unknown(wire)
        assert 0 < missing == spread.lost.unreadable_count < 3 * COUNT
        assert log.events(bookie=bookie_id) == ["data directory failed", "lost files restored"]
        assert log.fields("data directory failed")[0]["directory"] == "/d1"
        assert log.fields("lost files restored")[0]["missing"] == missing
        assert await wire.add(entry(4, 0)) == Code.OK
        assert not spread.bookie.is_read_only
        listed = [await spread.bookie.service.entry_ids(ledger) for ledger in (1, 2, 3)]
        assert sum(map(len, listed)) == 3 * COUNT - missing, "lost entries are not listed"
        lacking = [ledger for ledger, ids in enumerate(listed, 1) if len(ids) < COUNT]
        assert await published(spread) == LostLedgers(frozenset(lacking))
        found = spread.lost.statistics()
        assert (found["data_directories_failed"], found["failed_directories"]) == (1, ["/d1"])
        spread.bookie.scrubber.fetch = fetch
        await run_for_a_while(spread, lambda: not spread.lost.numbers())
        await all_there(wire, (1, 2, 3), COUNT)
        assert not spread.sorted_in("/d1")
        await run_for_a_while(spread, lambda: not spread.lost.statistics()["incomplete_ledgers"])
        assert await published(spread) == NONE_LOST


async def test_a_directory_that_cannot_be_written_fails_and_the_other_one_is_used() -> None:
    async with filled() as (spread, wire):
        spread.data["/d1"].is_failing = True
        spread.bookie.scrubber.fetch = fetch
        before = len(spread.sorted_in("/d2"))
        await run_for_a_while(
            spread, lambda: spread.disk.directories[0].failure is not None and not _lost(spread)
        )
        await all_there(wire, (1, 2, 3), COUNT)
        assert len(spread.sorted_in("/d2")) > before


async def test_a_directory_that_does_not_respond_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stopped the creation of sorted files, and the watch over all directories (rule DSK-7)."""
    for module in (spread_disk, lost_files):
        monkeypatch.setattr(module, "RESPONSE_S_MAX", 0.1)
    async with filled() as (spread, wire):
        spread.data["/d1"].is_hanging = True
        before = len(spread.sorted_in("/d2"))
        for number in range(COUNT):
            assert await wire.add(entry(4, number, PAYLOAD)) == Code.OK
        async with asyncio.timeout(20):
            await spread.bookie.maintenance.step()
        first, second = spread.disk.directories
        assert "no measurement ended" in str(first.failure) and second.failure is None
        assert len(spread.sorted_in("/d2")) > before
        await all_there(wire, (4,), COUNT)


async def test_a_log_is_kept_if_its_new_file_lies_in_a_directory_that_fails_meanwhile() -> None:
    """The log was removed, so that the bookie lost entries although the disk of the log works."""
    async with filled() as (spread, wire):
        for directory in spread.disk.directories:
            failing = partial(directory.fail, DiskFailedError("it has gone"))
            spread.data[directory.path].on_sync_directory = failing
        for number in range(COUNT):
            assert await wire.add(entry(4, number, PAYLOAD)) == Code.OK
        await spread.bookie.maintenance.step()
        assert all(directory.failure for directory in spread.disk.directories)
        await all_there(wire, (4,), COUNT)
        await spread.bookie.maintenance.step()
        assert [name for name in spread.main.files if name.startswith("sorted/")]
        await all_there(wire, (4,), COUNT)


async def published(spread: Spread) -> LostLedgers:
    """Return what the bookie's registration says, once it has not changed for a while."""
    await asyncio.sleep(0.05)
    directory = BookieDirectory(spread.world.store)
    try:
        return (await directory.registration(spread.bookie.bookie_id)).lost_ledgers
    finally:
        directory.close()


async def test_every_ledger_with_lost_files_is_published_before_any_attempt() -> None:
    async with filled() as (spread, _):
        spread.disk.directories[0].fail(DiskFailedError("it has gone"))
        found = await published(spread)
        assert found.ids and found.ids <= {1, 2, 3}
        lacking = {ledger for ledger in (1, 2, 3) if await lacks_entries(spread, ledger)}
        assert found.ids >= lacking
        assert not found.are_all


async def lacks_entries(spread: Spread, ledger_id: int) -> bool:
    return len(await spread.bookie.service.entry_ids(ledger_id)) < COUNT


def _lost(spread: Spread) -> list[int]:
    return spread.lost.numbers()


async def test_a_directory_below_its_limit_gets_no_new_files_until_it_has_space_again() -> None:
    async with filled() as (spread, _):
        full, other = spread.disk.directories
        first, second = spread.data.values()
        first.measured, second.measured = 1, 2 << 30
        with recorded_log() as log:
            await spread.disk.measure()
            await spread.disk.measure()
        assert log.events() == ["data directory full"]
        assert log.fields("data directory full")[0]["directory"] == "/d1"
        assert (full.is_full, other.is_full) == (True, False)
        assert [one.path for one in await spread.disk._by_free_space()] == ["/d2"]
        await spread.lost._measure()
        assert spread.bookie._space.data_free_bytes == 2 << 30
        statistics = spread.lost.statistics()
        assert statistics["data_directories_full"] == 1
        assert statistics["data_directory"]["/d1"]["full"] is True
        first.measured = 2 << 30
        with recorded_log() as log:
            await spread.disk.measure()
        assert log.events() == ["data directory usable"]
        assert not full.is_full


async def test_a_full_directory_is_left_out() -> None:
    async with filled() as (spread, wire):
        for disk in spread.data.values():
            disk.room = 0
        for number in range(COUNT):
            assert await wire.add(entry(4, number, PAYLOAD)) == Code.OK
        await spread.bookie.maintenance.step()
        assert [name for name in spread.main.files if name.startswith("sorted/")]
        await spread.lost._probe(spread.disk.directories[0])
        assert spread.lost.statistics()["data_directories_failed"] == 0


@pytest.mark.parametrize("is_restored", [True, False])
async def test_a_start_without_a_lost_directory_begins_a_limbo(is_restored: bool) -> None:
    """If all entries were restored before, nothing is missing, and there is no limbo."""
    async with filled() as (spread, wire):
        spread.data["/d1"].files.clear()
        if is_restored:
            spread.bookie.scrubber.fetch = fetch
            await run_for_a_while(
                spread, lambda: spread.disk.directories[0].failure is not None and not _lost(spread)
            )
        await wire.aclose()
        await spread.bookie.aclose()
        await spread.open("/d2", lost=("/d1",))
        assert bool(spread.bookie.limbo_reason) != is_restored
        again = await Wire.connect(spread.bookie)
        assert bool(await unknown(again)) != is_restored
        await again.aclose()


async def test_disk_that_hangs_holds_up_the_reads_of_its_own_files_only() -> None:
    async with filled(replace(SMALL, file_reads_max=2, read_cache_bytes=0)) as (spread, wire):
        storage = spread.bookie.storage
        places: dict[str, list[int]] = {"/d1": [], "/d2": []}
        for number in range(COUNT):
            directory = storage.directory_of(await storage.locate(1, number))
            if directory:
                places[directory].append(number)
        assert len(places["/d1"]) > 20 and places["/d2"]
        gate = spread.data["/d1"].read_gate = asyncio.Event()
        hanging = await Wire.connect(spread.bookie)
        for number in places["/d1"]:
            hanging.send(v2.encode_read(1, number))
        for number in places["/d2"]:
            assert (await wire.read(1, number))[0] == Code.OK
        for number in places["/d2"]:
            hanging.send(v2.encode_read(1, number))
        found = [await read_response(hanging) for _ in places["/d2"]]
        assert sorted(found) == [(Code.OK, number) for number in places["/d2"]]
        spread.disk.directories[0].fail(DiskFailedError("it hangs"))
        found = [await read_response(hanging) for _ in places["/d1"]]
        assert sorted(found) == [(Code.IO, number) for number in places["/d1"]]
        assert storage.directory_of(await storage.locate(1, places["/d1"][0])) == ""
        gate.set()
        await hanging.aclose()


async def read_response(wire: Wire) -> tuple[int, int]:
    response = v2.decode_response(await wire.frame())
    assert isinstance(response, v2.ReadResponse)
    return response.code, response.entry_id

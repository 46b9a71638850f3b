"""The reserve is allocated, lent in steps and allocated again; what is lent is not for adds."""

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.free_space import FreeSpaceMonitor
from rhumbline.core.bookie.maintenance.disk_reserve import (
    PARTS,
    DiskReserve,
    release_for_start,
    reserve_path,
)
from rhumbline.core.protocol.errors import DiskFullError
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk, MemoryFile

WANTED = 8_000


class AllocatingDisk(MemoryDisk):
    """A disk on which allocated space is not free."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.total = 1_000_000
        self.allocated: dict[str, int] = {}

    async def open(self, path: str, *, create: bool = False, allocate_bytes: int = 0) -> MemoryFile:
        file = await super().open(path, create=create, allocate_bytes=allocate_bytes)
        self.allocated[path] = allocate_bytes
        assert self.room is not None
        self.room -= allocate_bytes
        return file

    async def remove(self, path: str) -> None:
        await super().remove(path)
        assert self.room is not None
        self.room += self.allocated.pop(path, 0)

    async def total_bytes(self) -> int:
        return self.total


def reserve_on(disk: MemoryDisk, wanted: int = WANTED) -> tuple[DiskReserve, FreeSpaceMonitor]:
    config = BookieConfig(
        maintenance_reserve_bytes=wanted, read_only_below_bytes=2_000, reserve_below_bytes=500
    )
    space = FreeSpaceMonitor(disk, config)
    return DiskReserve(disk, space), space


async def test_reserve_is_allocated_once_and_replaces_that_of_an_earlier_process() -> None:
    disk = AllocatingDisk(20_000)
    for _ in range(2):
        reserve, space = reserve_on(disk)
        assert await reserve.fill()
        assert await reserve.fill()
        assert sorted(disk.allocated) == [reserve_path(part) for part in range(PARTS)]
        assert (reserve.held_bytes, reserve.missing_bytes, disk.room) == (WANTED, 0, 12_000)
        assert (space.lent_bytes, space.missing_bytes) == (0, 0)


async def test_one_part_is_lent_first_then_all_but_the_last_which_is_for_records() -> None:
    disk = AllocatingDisk(10_000)
    reserve, space = reserve_on(disk)
    await reserve.fill()
    assert await reserve.lend()
    assert (reserve.held_bytes, space.lent_bytes, disk.room) == (7_000, 1_000, 3_000)
    assert await reserve.lend()
    assert (reserve.held_bytes, space.lent_bytes, disk.room) == (1_000, 7_000, 9_000)
    assert not await reserve.lend()
    assert await reserve.lend(for_records=True)
    assert (reserve.held_bytes, space.lent_bytes, disk.room) == (0, 8_000, 10_000)
    assert not await reserve.lend(for_records=True)
    assert await reserve.fill()
    assert (reserve.held_bytes, space.lent_bytes, disk.room) == (8_000, 0, 2_000)


async def test_what_is_lent_is_neither_for_plain_adds_nor_for_recovery_adds() -> None:
    disk = AllocatingDisk(8_400)
    reserve, space = reserve_on(disk)
    await reserve.fill()
    for _ in range(3):
        await space.check()
        assert (space.has_room, space.has_reserve) == (False, False)
        await reserve.lend(for_records=True)
    assert disk.room == 8_400


async def test_what_was_never_reserved_is_only_for_recovery_adds() -> None:
    disk = AllocatingDisk(6_000)
    reserve, space = reserve_on(disk)
    assert not await reserve.fill()
    assert (space.lent_bytes, space.missing_bytes, reserve.held_bytes) == (0, 2_000, 6_000)
    disk.room = 3_900
    await space.check()
    assert (space.has_room, space.has_reserve) == (False, True)
    disk.room = 12_000
    assert await reserve.fill()
    await space.check()
    assert (space.has_room, space.has_reserve) == (True, True)


async def test_bookie_without_a_reserve_lends_nothing() -> None:
    disk = AllocatingDisk(6_000)
    reserve, space = reserve_on(disk, 0)
    assert await reserve.fill()
    assert not await reserve.lend(for_records=True)
    assert (disk.allocated, space.lent_bytes) == ({}, 0)


async def test_parts_that_others_took_are_allocated_when_there_is_room_again() -> None:
    disk = AllocatingDisk(8_000)
    reserve, space = reserve_on(disk)
    await reserve.fill()
    await reserve.lend()
    disk.room = 0  # another process wrote a file
    assert not await reserve.fill()
    assert (space.lent_bytes, reserve.missing_bytes) == (1_000, 1_000)
    with pytest.raises(DiskFullError):
        await disk.open("x", create=True, allocate_bytes=1)
    disk.room = 1_000
    assert await reserve.fill()
    assert (space.lent_bytes, reserve.missing_bytes) == (0, 0)


async def test_a_start_frees_half_of_the_reserve_if_the_disk_is_full() -> None:
    disk = AllocatingDisk(8_000)
    reserve, _ = reserve_on(disk)
    await reserve.fill()
    await release_for_start(disk, WANTED)
    assert (disk.room, len(disk.allocated)) == (4_000, 4)
    await release_for_start(disk, WANTED)
    assert len(disk.allocated) == 4
    again, space = reserve_on(disk)
    disk.room = 3_900  # the start began a log
    assert not await again.fill()
    assert (again.held_bytes, space.missing_bytes, space.lent_bytes) == (7_000, 1_000, 0)
    empty = AllocatingDisk(10)
    await release_for_start(empty, WANTED)
    assert empty.room == 10

"""Adds stop and resume with the free space, at limits that fit the disk."""

import asyncio

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.free_space import FreeSpaceMonitor
from rhumbline.core.protocol.errors import DiskFailedError
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


class SizedDisk(MemoryDisk):
    """A disk whose size and free space are set by the test."""

    def __init__(self, free: int, total: int) -> None:
        super().__init__()
        self.free, self.total = free, total
        self.check_count = 0

    async def free_bytes(self) -> int:
        self.check_count += 1
        if self.is_failing:
            raise DiskFailedError("I/O error")
        return self.free

    async def total_bytes(self) -> int:
        return self.total


def monitor_of(
    disk: SizedDisk, space_check_ms: int = 5_000
) -> tuple[FreeSpaceMonitor, list[tuple[bool, bool]]]:
    """Return a monitor, and the flags at each change that it reports."""
    config = BookieConfig(
        read_only_below_bytes=1_000, reserve_below_bytes=200, space_check_ms=space_check_ms
    )
    monitor = FreeSpaceMonitor(disk, config)
    changes: list[tuple[bool, bool]] = []
    monitor.on_change = lambda: changes.append((monitor.has_room, monitor.has_reserve))
    return monitor, changes


@pytest.mark.parametrize(
    ("total", "limit", "reserve"),
    [(1 << 30, 1_000, 200), (10_000, 500, 125), (18_000, 900, 200), (10_392, 519, 129)],
)
async def test_limits_are_lowered_on_a_small_disk_and_have_a_margin(
    total: int, limit: int, reserve: int
) -> None:
    disk = SizedDisk(1 << 20, total)
    monitor, changes = monitor_of(disk)
    assert (monitor.free_bytes, monitor.total_bytes) == (0, 0)
    assert (monitor.has_room, monitor.has_reserve) == (True, True)
    await monitor.check()
    assert (monitor.free_bytes, monitor.total_bytes, changes) == (1 << 20, total, [])
    for free, expected in (
        (limit + 1, (True, True)),
        (limit, (False, True)),
        (limit + 1, (False, True)),
        (reserve + 1, (False, True)),
        (reserve, (False, False)),
        (reserve * 11 // 10, (False, False)),
        (reserve * 11 // 10 + 1, (False, True)),
        (limit * 11 // 10, (False, True)),
        (limit * 11 // 10 + 1, (True, True)),
    ):
        disk.free = free
        await monitor.check()
        assert (monitor.has_room, monitor.has_reserve) == expected, free
    assert changes == [(False, True), (False, False), (False, True), (True, True)]


@pytest.mark.run_by(runner=run_jumping)
async def test_full_disk_is_checked_again_and_a_failed_check_changes_nothing() -> None:
    disk = SizedDisk(1 << 20, 1 << 30)
    monitor, changes = monitor_of(disk, space_check_ms=500)
    monitor.mark_full()
    assert (monitor.has_room, monitor.has_reserve, changes) == (False, False, [])
    disk.is_failing = True
    running = asyncio.ensure_future(monitor.run())
    await asyncio.sleep(0.49)
    assert disk.check_count == 0
    await asyncio.sleep(0.02)
    assert (disk.check_count, changes) == (1, [])
    disk.is_failing = False
    await asyncio.sleep(0.5)
    assert changes == [(True, True)]
    await asyncio.sleep(5)
    assert disk.check_count == 12
    running.cancel()


async def test_a_shift_by_a_tenth_of_the_disk_is_reported_once() -> None:
    disk = SizedDisk(500_000, 1_000_000)
    monitor, _ = monitor_of(disk)
    shifts: list[int] = []
    monitor.on_shift = shifts.append
    for free in (500_000, 400_001, 400_000, 400_000, 499_999, 500_000, 300_000):
        disk.free = free
        await monitor.check()
    assert shifts == [400_000, 500_000, 300_000]

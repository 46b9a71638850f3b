"""The maintenance reserve: disk space that only maintenance may use (rule BKE-29).

Freeing space needs space: an index file, or the live entries of a file that is rewritten. The
reserve consists of files that have blocks and no contents. Maintenance removes some of them when a
write of its own found no space, and creates them again right after that. Meanwhile the free-space
monitor does not count what was lent, so that adds do not use it up.

Another process may take what was lent before it is reserved again. Therefore a loan begins with one
part, and the last part is lent for nothing but records of the log, such as a fence, the deletion of
a ledger, or the removal of garbage.
"""

import asyncio

from ...protocol.errors import DiskFullError
from ...runtime.disk import Disk
from ..free_space import FreeSpaceMonitor

PARTS = 8


def reserve_path(part: int) -> str:
    """Return the path of one part of the reserve, from 0 on."""
    return f"maintenance.reserve.{part}"


async def release_for_start(disk: Disk, reserve_bytes: int) -> None:
    """Frees the reserve of an earlier process until half of ``reserve_bytes`` is free.

    A start begins a log file with a snapshot of all state, which is at most a 16th of a log file.
    The reserve is allocated anew when the bookie runs. Raises DiskFailedError.
    """
    for part in reversed(range(PARTS)):
        if await disk.free_bytes() >= reserve_bytes // 2:
            return
        try:
            await disk.remove(reserve_path(part))
        except FileNotFoundError:
            continue


class DiskReserve:
    """Reserves space on one disk and lends it, to maintenance and to the log."""

    def __init__(self, disk: Disk, space: FreeSpaceMonitor) -> None:
        self._disk = disk
        self._space = space
        self._part_bytes = 0
        self._held: list[int] = []
        """The parts that are reserved."""
        self._lock = asyncio.Lock()
        self._was_held = False
        self._is_prepared = False

    @property
    def held_bytes(self) -> int:
        """Bytes that are reserved on the disk now."""
        return self._part_bytes * len(self._held)

    @property
    def missing_bytes(self) -> int:
        """Bytes that should be reserved too."""
        return max(0, self._space.limits.maintenance_reserve_bytes - self.held_bytes)

    async def fill(self) -> bool:
        """Reserves what is missing; returns False if the disk has no room for all of it yet.

        Cheap if nothing is missing. Raises DiskFailedError.
        """
        async with self._lock:
            return await self._fill()

    async def _fill(self) -> bool:
        part_bytes = -(-self._space.limits.maintenance_reserve_bytes // PARTS)
        if part_bytes != self._part_bytes or not self._is_prepared:
            for part in range(PARTS):  # also those of an earlier process
                await self._remove(part)
            self._held.clear()
            self._part_bytes, self._is_prepared = part_bytes, True
        for part in range(PARTS if part_bytes else 0):
            if part not in self._held and not await self._reserve(part):
                break
        self._was_held = self._was_held or not self.missing_bytes
        self._note()
        return not self.missing_bytes

    async def lend(self, *, for_records: bool = False) -> bool:
        """Frees one part, or all of them if one was lent before; False if none may be lent.

        The last part is only lent ``for_records`` of the log. Raises DiskFailedError.
        """
        async with self._lock:
            parts = self._held if for_records else self._held[1:]
            if len(self._held) == PARTS:
                parts = parts[-1:]
            self._held = [part for part in self._held if part not in parts]
            self._note()
            await self._space.check()  # before the space is free, so that no add takes it
            for part in parts:
                await self._remove(part)
            return bool(parts)

    def _note(self) -> None:
        """Tells the monitor which part of the free space is not for adds.

        What was lent is for maintenance alone. What was never reserved, because the disk was full
        when the bookie started, goes to recoveries first.
        """
        space, missing = self._space, self.missing_bytes
        space.lent_bytes = missing if self._was_held else 0
        space.missing_bytes = 0 if self._was_held else missing

    async def _reserve(self, part: int) -> bool:
        try:
            file = await self._disk.open(
                reserve_path(part), create=True, allocate_bytes=self._part_bytes
            )
        except DiskFullError:
            return False
        await file.close()
        self._held.append(part)
        self._held.sort()
        return True

    async def _remove(self, part: int) -> None:
        try:
            await self._disk.remove(reserve_path(part))
        except FileNotFoundError:
            return

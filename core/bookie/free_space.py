"""The free-space monitor: a bookie stops accepting adds on a full disk (rule BKE-20)."""

import asyncio
from collections.abc import Callable

from ..protocol.errors import RhumblineError
from ..runtime.disk import Disk
from .config import BookieConfig

_TOTAL_PER_LIMIT = 20
_TOTAL_PER_RESERVE = 80
_TOTAL_PER_SHIFT = 10


class FreeSpaceMonitor:
    """Checks the free disk space periodically.

    The configured limits are lowered on a small disk: the limit for plain adds is at most a 20th
    of the disk, the limit for recovery adds at most an 80th.
    """

    def __init__(self, disk: Disk, config: BookieConfig) -> None:
        self._disk = disk
        self._config = config
        self.on_change: Callable[[], None] = lambda: None
        self.on_shift: Callable[[int], None] = lambda free_bytes: None
        """Called when the free space has changed by a tenth of the disk since the last call."""
        self._shifted_from: int | None = None
        self.free_bytes = 0
        self.total_bytes = 0
        self.has_room = True
        """True if there is space for plain adds."""
        self.has_reserve = True
        """True if there is space for recovery adds."""

    async def check(self) -> None:
        """Reads the free space and updates both flags. Raises DiskFailedError."""
        self.free_bytes = await self._disk.free_bytes()
        total = self.total_bytes = await self._disk.total_bytes()
        limit = min(self._config.read_only_below_bytes, total // _TOTAL_PER_LIMIT)
        reserve = min(self._config.reserve_below_bytes, total // _TOTAL_PER_RESERVE)
        # Adds resume a tenth above the limit, so that the mode does not flap.
        room = self.free_bytes > (limit if self.has_room else limit * 11 // 10)
        spare = self.free_bytes > (reserve if self.has_reserve else reserve * 11 // 10)
        if (room, spare) != (self.has_room, self.has_reserve):
            self.has_room, self.has_reserve = room, spare
            self.on_change()
        if self._shifted_from is None:
            self._shifted_from = self.free_bytes
        elif abs(self.free_bytes - self._shifted_from) * _TOTAL_PER_SHIFT >= total:
            self._shifted_from = self.free_bytes
            self.on_shift(self.free_bytes)

    def mark_full(self) -> None:
        """Records that a write found no space: no adds until the next check finds some."""
        self.has_room = self.has_reserve = False

    async def run(self) -> None:
        """Checks periodically until cancelled. A failed check leaves both flags unchanged."""
        while True:
            await asyncio.sleep(self._config.space_check_ms / 1000)
            try:
                await self.check()
            except RhumblineError:
                continue

"""The free-space monitor: a bookie stops accepting adds on a full disk (rule BKE-20)."""

import asyncio
from collections.abc import Callable

from ..protocol.errors import RhumblineError
from ..runtime.disk import Disk
from .config import BookieConfig
from .space_limits import configured_limits, limits_on_disk, lowered_limits

_TOTAL_PER_SHIFT = 10


class FreeSpaceMonitor:
    """Checks the free disk space periodically, against limits that fit the disk."""

    def __init__(self, disk: Disk, config: BookieConfig) -> None:
        self._disk = disk
        self._config = config
        self.on_change: Callable[[], None] = lambda: None
        self.on_lowered: Callable[[dict[str, str]], None] = lambda lowered: None
        """Called when the disk's size lowers other settings than before (``lowered_limits``)."""
        self.on_shift: Callable[[int], None] = lambda free_bytes: None
        """Called when ``published_bytes`` changed by a tenth of all space since the last call."""
        self._shifted_from: int | None = None
        self._lowered: dict[str, str] = {}
        self.limits = configured_limits(config)
        """The limits that apply, lowered to the size of the disk."""
        self.free_bytes = 0
        self.total_bytes = 0
        self.data_free_bytes = 0
        """Free space of the data directories that get new files, as the owner measured it."""
        self.data_total_bytes = 0
        self.lent_bytes = 0
        """Part of the free space that the maintenance reserve has lent to maintenance."""
        self.missing_bytes = 0
        """Part of the maintenance reserve that was not reserved yet: there was no space for it."""
        self.has_room = True
        """True if there is space for plain adds."""
        self.has_reserve = True
        """True if there is space for recovery adds."""

    async def check(self) -> None:
        """Reads the free space and updates both flags. Raises DiskFailedError."""
        lent_bytes = self.lent_bytes  # it may be reserved again before the free space is known
        self.free_bytes = await self._disk.free_bytes()
        total = self.total_bytes = await self._disk.total_bytes()
        self.limits = limits_on_disk(self._config, total)
        self._report_lowered()
        limit, reserve = self.limits.read_only_below_bytes, self.limits.reserve_below_bytes
        # What was lent is for maintenance alone. What was never reserved goes to recoveries first.
        free = self.free_bytes - max(lent_bytes, self.lent_bytes)
        # Adds resume a tenth above the limit, so that the mode does not flap.
        room = free - self.missing_bytes > (limit if self.has_room else limit * 11 // 10)
        spare = free > (reserve if self.has_reserve else reserve * 11 // 10)
        room = room and spare
        if (room, spare) != (self.has_room, self.has_reserve):
            self.has_room, self.has_reserve = room, spare
            self.on_change()
        self._note_shift(total + self.data_total_bytes)

    @property
    def published_bytes(self) -> int:
        """Free space for new data, also in data directories."""
        return self.free_bytes + self.data_free_bytes

    def _note_shift(self, total: int) -> None:
        published = self.published_bytes
        if self._shifted_from is None:
            self._shifted_from = published
        elif abs(published - self._shifted_from) * _TOTAL_PER_SHIFT >= total:
            self._shifted_from = published
            self.on_shift(published)

    def _report_lowered(self) -> None:
        lowered = lowered_limits(self._config, self.limits)
        if lowered.keys() != self._lowered.keys():
            self.on_lowered(lowered)
        self._lowered = lowered

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

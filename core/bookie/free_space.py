"""Free space: when a bookie stops taking adds, and when it takes them again."""

import asyncio
from collections.abc import Callable

from ..protocol.errors import RhumblineError
from ..runtime.disk import Disk
from .config import BookieConfig

_TOTAL_PER_LIMIT = 20
_TOTAL_PER_RESERVE = 80


class FreeSpaceMonitor:
    """Looks at the disk now and then.

    The limits of the configuration are lowered on a small disk: plain adds stop at the latest when
    a 20th of it is left, recovery adds when an 80th is left.
    """

    def __init__(self, disk: Disk, config: BookieConfig) -> None:
        self._disk = disk
        self._config = config
        self.on_change: Callable[[], None] = lambda: None
        self.free_bytes = 0
        self.total_bytes = 0
        self.has_room = True
        """Plain adds are taken."""
        self.has_reserve = True
        """Recovery adds are taken."""

    async def look(self) -> None:
        """Asks the disk, and decides. Raises DiskFailedError."""
        self.free_bytes = await self._disk.free_bytes()
        total = self.total_bytes = await self._disk.total_bytes()
        limit = min(self._config.read_only_below_bytes, total // _TOTAL_PER_LIMIT)
        reserve = min(self._config.reserve_below_bytes, total // _TOTAL_PER_RESERVE)
        # To come back it takes a tenth more than to go, so that the mode does not flutter.
        room = self.free_bytes > (limit if self.has_room else limit * 11 // 10)
        spare = self.free_bytes > (reserve if self.has_reserve else reserve * 11 // 10)
        if (room, spare) != (self.has_room, self.has_reserve):
            self.has_room, self.has_reserve = room, spare
            self.on_change()

    def ran_out(self) -> None:
        """A write found no space: nothing is taken until the next look says that there is."""
        self.has_room = self.has_reserve = False

    async def run(self) -> None:
        """Looks again and again; a disk that cannot say leaves things as they are."""
        while True:
            await asyncio.sleep(self._config.space_check_ms / 1000)
            try:
                await self.look()
            except RhumblineError:
                continue

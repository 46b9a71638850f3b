"""Keeps copying at a given number of bytes a second, so that writers keep their disks and links."""

import asyncio


class Pace:
    """Shared by all workers of a process."""

    def __init__(self, bytes_per_second: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._loop = asyncio.get_running_loop()
        self._free_at = 0.0

    async def take(self, size: int) -> None:
        """Waits until ``size`` more bytes may go."""
        now = self._loop.time()
        start = max(now, self._free_at)
        self._free_at = start + size / self._bytes_per_second
        if start > now:
            await asyncio.sleep(start - now)

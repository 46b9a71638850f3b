"""Bandwidth of background work: bytes a second, with a burst of one second."""

import asyncio


class Pace:
    """``spend`` waits until so many bytes may be moved. ``None``: no limit."""

    def __init__(self, bytes_per_s: int | None) -> None:
        assert bytes_per_s is None or bytes_per_s > 0
        self._bytes_per_s = bytes_per_s
        self._paid_until_s = 0.0  # loop time at which what was spent is paid for

    async def spend(self, size_bytes: int) -> None:
        """Takes ``size_bytes``, and waits while more than a second's worth is unpaid."""
        if self._bytes_per_s is None:
            return
        now = asyncio.get_running_loop().time()
        self._paid_until_s = max(now, self._paid_until_s) + size_bytes / self._bytes_per_s
        wait_s = self._paid_until_s - now - 1
        if wait_s > 0:
            await asyncio.sleep(wait_s)

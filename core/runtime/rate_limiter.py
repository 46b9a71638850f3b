"""A limit of bytes per second for background work that shares disks and links with writers."""

import asyncio


class RateLimiter:
    """Delays callers so that their bytes stay below a rate in the long run.

    All tasks of one event loop may share an instance.
    """

    def __init__(self, bytes_per_s: int | None, *, burst_s: float | None = None) -> None:
        """``bytes_per_s`` must be above 0; None disables the limit.

        ``burst_s`` is the burst in seconds of the rate: a call waits until no more than that is
        left to be paid for, its own bytes included. With None a call waits until everything before
        it is paid for, so the burst is the size of one call.
        """
        assert bytes_per_s is None or bytes_per_s > 0
        self._bytes_per_s = bytes_per_s
        self._burst_s = burst_s
        self._paid_until_s = 0.0  # loop time at which all bytes taken so far are paid for

    async def take(self, size_bytes: int) -> None:
        """Take ``size_bytes`` and wait until they may be transferred."""
        if self._bytes_per_s is None:
            return
        now = asyncio.get_running_loop().time()
        start_s = max(now, self._paid_until_s)
        self._paid_until_s = start_s + size_bytes / self._bytes_per_s
        if self._burst_s is None:
            wait_s = start_s - now
        else:
            wait_s = self._paid_until_s - now - self._burst_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)

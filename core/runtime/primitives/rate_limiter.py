"""A token bucket: limits a rate by waiting, or tells callers that refuse how long to wait."""

import asyncio
from math import inf


class RateLimiter:
    """Keeps the sum of all amounts (bytes, records, requests) below a rate in the long run.

    The bucket holds at most ``burst`` and is full in the beginning. An amount may pass once the
    bucket holds it; a larger one than ``burst`` passes when the bucket is full, and what follows
    waits until it is paid for. So nothing waits for ever, and with the default of 0 an amount waits
    until everything before it is paid for.

    The methods with ``now`` (seconds) are pure. All tasks of one event loop may share an instance.
    """

    __slots__ = ("_at", "_burst", "_level", "_per_second")

    def __init__(self, per_second: float | None, *, burst: float = 0.0) -> None:
        """``per_second``: None disables the limit; with 0 only ``earn`` fills the bucket."""
        assert per_second is None or per_second >= 0
        self._per_second = per_second
        self._burst = float(burst)
        self._level = self._burst
        self._at = -inf  # when the level was computed

    def wait_s(self, amount: float, now: float) -> float:
        """Return the seconds until ``amount`` may pass; 0 if it may pass now."""
        if self._per_second is None:
            return 0.0
        self._refill(now)
        missing = min(amount, self._burst) - self._level
        if missing <= 0:
            return 0.0
        return missing / self._per_second if self._per_second else inf

    def take(self, amount: float, now: float) -> None:
        """Count ``amount`` as passed."""
        if self._per_second is not None:
            self._refill(now)
            self._level -= amount

    def earn(self, amount: float) -> None:
        """Put ``amount`` into the bucket, in addition to the rate."""
        self._level = min(self._burst, self._level + amount)

    async def acquire(self, amount: float) -> None:
        """Take ``amount`` and wait until it may pass. Callers pass in the order of their calls."""
        now = asyncio.get_running_loop().time()
        wait_s = self.wait_s(amount, now)
        self.take(amount, now)
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def _refill(self, now: float) -> None:
        if self._per_second and now > self._at:
            earned = (now - self._at) * self._per_second
            self._level = min(self._burst, self._level + earned)
        self._at = max(self._at, now)

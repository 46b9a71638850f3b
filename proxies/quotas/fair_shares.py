"""Keeps a principal that floods a proxy from delaying the others (rule SEC-27).

What one principal has in flight delays the record sets of others behind it, in the writer, at the
bookies and on their disks. While several principals append, each may therefore have only a limited
number of bytes in flight; alone, a principal is limited by its calls only. A call that is over the
limit is not read, so that gRPC's flow control stops its client.

The limit depends on what the others have in flight. A flood beside a principal that appends little
is limited strictly, to keep the queues short. Principals that all append much may fill the queues.
"""

import asyncio
from collections import deque

ACTIVE_S = 1.0
"""Time after its last record set for which a principal counts as one that appends."""

SMALL_SHARE_BYTES = 64 << 10
"""Bytes that each principal may have in flight beside others, however little they append."""

_MULTIPLE = 4
"""The limit of a principal, as a multiple of the largest peak of another one."""


class _Share:
    """A principal: its bytes in flight, and its calls that wait."""

    __slots__ = ("active_at", "in_flight", "peak", "peak_since", "waiting")

    def __init__(self) -> None:
        self.in_flight = 0
        self.active_at = 0.0
        self.peak = 0
        """The most that was in flight since ``peak_since``; starts again after ACTIVE_S."""
        self.peak_since = 0.0
        self.waiting: deque[asyncio.Future[None]] = deque()

    def add(self, size: int, now: float) -> None:
        """Count a record set in flight."""
        self.in_flight += size
        self.active_at = now
        if now - self.peak_since > ACTIVE_S:
            self.peak_since = now
            self.peak = self.in_flight
        elif self.in_flight > self.peak:
            self.peak = self.in_flight


class FairShares:
    """The principals that append through one proxy.

    Invariant: a call waits only while its principal has bytes in flight, so their results wake it.
    """

    def __init__(self, shared_bytes_max: int) -> None:
        """``shared_bytes_max`` is the upper bound of the limit, in bytes."""
        self.waited_count = 0
        """Number of times that a call had to wait."""
        self._bytes_max = shared_bytes_max
        self._bytes_min = min(SMALL_SHARE_BYTES, shared_bytes_max)
        self._shares: dict[str, _Share] = {}
        self._loop = asyncio.get_running_loop()
        self._forget_at = 0.0

    def add(self, principal: str, size: int) -> None:
        """Count a record set in flight."""
        share = self._shares.get(principal)
        if share is None:
            share = self._shares[principal] = _Share()
        share.add(size, self._loop.time())

    def remove(self, principal: str, size: int) -> None:
        """Stop counting a record set whose result is known."""
        share = self._shares[principal]
        share.in_flight -= size
        assert share.in_flight >= 0
        if share.waiting and not self._is_over(share):
            _wake(share.waiting, 1 if share.in_flight else len(share.waiting))
        if not share.in_flight:
            self._forget_idle()

    async def room(self, principal: str) -> None:
        """Wait until the principal may have more in flight."""
        while self.is_over(principal):
            self.waited_count += 1
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._shares[principal].waiting.append(waiter)
            await waiter

    def is_over(self, principal: str) -> bool:
        """Return whether a principal has more than its share in flight, beside others."""
        share = self._shares.get(principal)
        return share is not None and self._is_over(share)

    def _is_over(self, share: _Share) -> bool:
        if share.in_flight <= self._bytes_min or len(self._shares) < 2:
            return False
        since = self._loop.time() - ACTIVE_S
        peaks = [
            other.peak
            for other in self._shares.values()
            if other is not share and (other.in_flight or other.active_at >= since)
        ]
        if not peaks:
            return False
        return share.in_flight > max(self._bytes_min, min(self._bytes_max, _MULTIPLE * max(peaks)))

    def _forget_idle(self) -> None:
        """Forget the principals that have not appended lately."""
        now = self._loop.time()
        if now < self._forget_at:
            return
        self._forget_at = now + ACTIVE_S
        since = now - ACTIVE_S
        for name, share in list(self._shares.items()):
            if not share.in_flight and not share.waiting and share.active_at < since:
                del self._shares[name]


def _wake(waiting: deque[asyncio.Future[None]], count: int) -> None:
    """Wake calls in the order in which they wait; those that ended meanwhile are skipped."""
    while waiting and count:
        waiter = waiting.popleft()
        if not waiter.done():
            waiter.set_result(None)
            count -= 1

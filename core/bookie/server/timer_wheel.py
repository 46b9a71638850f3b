"""A timer wheel: one event-loop timer serves the deadlines of many entries, kept in buckets."""

import asyncio
from heapq import heappop, heappush
from typing import Protocol


class TimerEntry(Protocol):
    """An entry with a deadline."""

    tick: int
    """Number of the entry's bucket, 0 if it is not on the wheel. Set by the wheel."""

    def expired(self) -> None:
        """Called when the deadline has passed."""
        ...


class TimerWheel:
    """Buckets of ``tick_ms`` each; an entry expires at most one bucket late and never early."""

    def __init__(self, tick_ms: int = 10) -> None:
        self._tick_ms = tick_ms
        self._buckets: dict[int, dict[TimerEntry, None]] = {}
        self._ticks: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_tick = 0
        self.count = 0

    def add(self, item: TimerEntry, delay_ms: int) -> None:
        """Calls ``item.expired`` after ``delay_ms`` unless the entry is removed before."""
        assert item.tick == 0, "the entry is already on the wheel"
        loop = asyncio.get_running_loop()
        tick = int((loop.time() * 1000 + delay_ms) // self._tick_ms) + 1
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = {}
            heappush(self._ticks, tick)
            self._arm(loop)
        bucket[item] = None
        item.tick = tick
        self.count += 1

    def remove(self, item: TimerEntry) -> None:
        """Removes an entry. Does nothing if it is not on the wheel."""
        bucket = self._buckets.get(item.tick)
        if bucket is not None and item in bucket:
            del bucket[item]
            self.count -= 1
        item.tick = 0

    def close(self) -> None:
        """Drops all entries without calling them. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._buckets.clear()
        self._ticks.clear()
        self.count = 0

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._ticks:
            return
        first = self._ticks[0]
        if self._timer is not None:
            if self._timer_tick <= first:
                return
            self._timer.cancel()
        self._timer_tick = first
        self._timer = loop.call_at(first * self._tick_ms / 1000, self._fire, loop)

    def _fire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        due = self._timer_tick
        while self._ticks and self._ticks[0] <= due:
            bucket = self._buckets.pop(heappop(self._ticks))
            for item in bucket:
                self.count -= 1
                item.tick = 0
                item.expired()
        self._arm(loop)

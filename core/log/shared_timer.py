"""A timer that many idle writers share.

A process may have thousands of idle writers. They have no event loop timer of their own: each
schedules a callback here, and only the earliest of all times is set in the event loop.
"""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

Callback = Callable[[], None]


class SharedTimer:
    """Runs callbacks at their scheduled times, in order of time. For one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: list[tuple[float, int, Callback]] = []
        self._scheduled: dict[Callback, int] = {}
        self._counter = count()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of scheduled callbacks."""
        return len(self._scheduled)

    def schedule(self, at: float, callback: Callback) -> None:
        """Schedule ``callback`` for loop time ``at`` (seconds), replacing its earlier schedule."""
        number = next(self._counter)
        self._scheduled[callback] = number
        heapq.heappush(self._due, (at, number, callback))
        if len(self._due) > 2 * len(self._scheduled) + 16:
            self._due = [due for due in self._due if self._scheduled.get(due[2]) == due[1]]
            heapq.heapify(self._due)
        self._rearm()

    def cancel(self, callback: Callback) -> None:
        """Remove ``callback`` from the schedule. Safe to repeat."""
        if self._scheduled.pop(callback, None) is not None and not self._scheduled:
            self._due.clear()
            self._rearm()

    def _rearm(self) -> None:
        soonest = self._due[0][0] if self._due else None
        if self._timer is not None:
            if self._timer.when() == soonest:
                return
            self._timer.cancel()
        self._timer = None if soonest is None else self._loop.call_at(soonest, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._due and self._due[0][0] <= now:
            _, number, callback = heapq.heappop(self._due)
            if self._scheduled.get(callback) == number:
                del self._scheduled[callback]
                callback()
        self._rearm()

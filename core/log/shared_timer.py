"""One timer for many: when each of thousands of idle writers must be looked at.

A writer at rest has no timer of its own; it asks to be called at a time, and the soonest of all
such times is the only one that the event loop knows.
"""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

Callback = Callable[[], None]


class SharedTimer:
    """Calls back at the times that were asked for, in their order. For one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: list[tuple[float, int, Callback]] = []
        self._wanted: dict[Callback, int] = {}
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many are set."""
        return len(self._wanted)

    def set(self, at: float, callback: Callback) -> None:
        """Calls ``callback`` once at loop time ``at``, in place of what it was set to before."""
        number = next(self._numbers)
        self._wanted[callback] = number
        heapq.heappush(self._due, (at, number, callback))
        if len(self._due) > 2 * len(self._wanted) + 16:
            self._due = [due for due in self._due if self._wanted.get(due[2]) == due[1]]
            heapq.heapify(self._due)
        self._rearm()

    def drop(self, callback: Callback) -> None:
        """Does not call it. Safe to repeat."""
        if self._wanted.pop(callback, None) is not None and not self._wanted:
            self._due.clear()
            self._rearm()

    def _rearm(self) -> None:
        soonest = self._due[0][0] if self._due else None
        if self._timer is not None:
            if self._timer.when() == soonest:
                return
            self._timer.cancel()
        self._timer = None if soonest is None else self._loop.call_at(soonest, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._due and self._due[0][0] <= now:
            _, number, callback = heapq.heappop(self._due)
            if self._wanted.get(callback) == number:
                del self._wanted[callback]
                callback()
        self._rearm()

"""Frames that have begun and do not end: bounded in bytes over all connections, and in time.

A peer that sends the beginning of a frame and no more costs memory for nothing. One that is merely
slow is let be as long as each frame is complete in time.
"""

import asyncio
from typing import Protocol


class Holder(Protocol):
    """A connection."""

    @property
    def is_paused(self) -> bool:
        """Whether we don't read what it sends: then it is not late."""
        ...

    def hang_up(self, reason: str) -> None:
        """Closes it."""
        ...


class PartialFrames:
    """Who holds how much since when, oldest first. A timer runs only while somebody does."""

    def __init__(self, bytes_max: int, age_ms_max: int) -> None:
        self._bytes_max = bytes_max
        self._age_s_max = age_ms_max / 1000
        self._held: dict[Holder, tuple[int, float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.held_bytes = 0

    def hold(self, holder: Holder, held_bytes: int, *, is_new: bool) -> None:
        """So many bytes are held for a connection; ``is_new``: of a frame that begins with them.

        Hangs up on it when that is too much.
        """
        loop = asyncio.get_running_loop()
        before = self._held.get(holder)
        since_s = loop.time() if is_new or before is None else before[1]
        self.release(holder)
        if self.held_bytes + held_bytes > self._bytes_max:
            holder.hang_up("half-frames-too-large")
            return
        self.held_bytes += held_bytes
        self._held[holder] = (held_bytes, since_s)
        if self._timer is None:
            self._timer = loop.call_later(self._age_s_max, self._look)

    def release(self, holder: Holder) -> None:
        """Nothing is held for this connection. Safe to repeat."""
        before = self._held.pop(holder, None)
        if before is not None:
            self.held_bytes -= before[0]

    def _look(self) -> None:
        self._timer = None
        now_s = asyncio.get_running_loop().time()
        oldest_s = now_s
        for holder, (held_bytes, since_s) in list(self._held.items()):
            if holder.is_paused:
                self._held[holder] = (held_bytes, now_s)
            elif now_s - since_s >= self._age_s_max:
                self.release(holder)
                holder.hang_up("half-frame-too-old")
            else:
                oldest_s = min(oldest_s, since_s)
        if self._held:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(oldest_s + self._age_s_max, self._look)

    def close(self) -> None:
        """Stops the timer. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

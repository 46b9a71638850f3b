"""Limits on partial frames: their bytes over all connections, and the time to complete a frame.

A peer that sends the beginning of a frame and then nothing would occupy memory forever. A slow
peer is accepted as long as each of its frames is complete in time.
"""

import asyncio
from typing import Protocol


class FrameHolder(Protocol):
    """A connection that may hold a partial frame."""

    @property
    def is_paused(self) -> bool:
        """True if the bookie does not read from the connection: then its frame is not late."""
        ...

    def close(self, reason: str) -> None:
        """Closes the connection and counts the reason."""
        ...


class PartialFrames:
    """The partial frames of all connections, oldest first. A timer runs while there are any."""

    def __init__(self, bytes_max: int, age_ms_max: int) -> None:
        self._bytes_max = bytes_max
        self._age_s_max = age_ms_max / 1000
        self._held: dict[FrameHolder, tuple[int, float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.held_bytes = 0

    def hold(self, holder: FrameHolder, held_bytes: int, *, is_new: bool) -> None:
        """Records the bytes of a connection's partial frame; ``is_new`` if the frame just began.

        Closes the connection if that exceeds the limit.
        """
        loop = asyncio.get_running_loop()
        before = self._held.get(holder)
        since_s = loop.time() if is_new or before is None else before[1]
        self.release(holder)
        if self.held_bytes + held_bytes > self._bytes_max:
            holder.close("half-frames-too-large")
            return
        self.held_bytes += held_bytes
        self._held[holder] = (held_bytes, since_s)
        if self._timer is None:
            self._timer = loop.call_later(self._age_s_max, self._close_expired)

    def release(self, holder: FrameHolder) -> None:
        """Removes the record of a connection. Safe to repeat."""
        before = self._held.pop(holder, None)
        if before is not None:
            self.held_bytes -= before[0]

    def _close_expired(self) -> None:
        self._timer = None
        now_s = asyncio.get_running_loop().time()
        oldest_s = now_s
        for holder, (held_bytes, since_s) in list(self._held.items()):
            if holder.is_paused:
                self._held[holder] = (held_bytes, now_s)
            elif now_s - since_s >= self._age_s_max:
                self.release(holder)
                holder.close("half-frame-too-old")
            else:
                oldest_s = min(oldest_s, since_s)
        if self._held:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(oldest_s + self._age_s_max, self._close_expired)

    def close(self) -> None:
        """Stops the timer. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

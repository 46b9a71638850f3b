"""Decides if a durable write is written in the event loop or in a thread.

Writing a small group into the page cache takes microseconds, less than handing it to a thread. But
the kernel may block a writer while too many dirty pages exist. So after a slow write, threads write
for a while: the loop is blocked once and not repeatedly.
"""

_SMALL_BYTES = 256 * 1024
_SLOW_S = 0.005
_REST_S = 1.0


class InlineWritePolicy:
    """The policy of one disk. Times are those of ``time.perf_counter``, in seconds."""

    __slots__ = ("_thread_until",)

    def __init__(self) -> None:
        self._thread_until = 0.0

    def may_write_inline(self, size: int, now: float) -> bool:
        """Return whether ``size`` bytes should be written in the event loop."""
        return size <= _SMALL_BYTES and now >= self._thread_until

    def note(self, began: float, ended: float) -> None:
        """Record the duration of a write in the event loop."""
        if ended - began > _SLOW_S:
            self._thread_until = ended + _REST_S

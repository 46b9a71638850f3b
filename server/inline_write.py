"""Where a durable write is written: in the event loop, or in a thread.

Writing a small group into the page cache takes microseconds, less than handing it to a thread. But
the kernel may make a writer wait, when too much of all memory is not written yet. So the first slow
write ends it for a while: the loop is held up once, not again and again.
"""

_SMALL_BYTES = 256 * 1024
_SLOW_S = 0.005
_REST_S = 1.0


class InlineWritePolicy:
    """Of one disk. Times are of ``time.perf_counter``."""

    __slots__ = ("_thread_until",)

    def __init__(self) -> None:
        self._thread_until = 0.0

    def may_write_here(self, size: int, now: float) -> bool:
        """Whether ``size`` bytes are best written in the loop itself."""
        return size <= _SMALL_BYTES and now >= self._thread_until

    def note(self, began: float, ended: float) -> None:
        """How long such a write took."""
        if ended - began > _SLOW_S:
            self._thread_until = ended + _REST_S

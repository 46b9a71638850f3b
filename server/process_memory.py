"""How a process of large, short-lived buffers gives memory back to the operating system."""

import ctypes

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGE_BYTES = 2 << 20
_TRIM_BYTES = 8 << 20


def bound_heap() -> None:
    """Tells glibc to map large buffers one by one, and to keep little of what is free.

    By itself it raises its limit to the largest buffer ever freed, and keeps twice as much in an
    arena of each thread: with files read in threads that is more than all caches together. Another
    C library has other habits, and is left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
        mallopt(_M_ARENA_MAX, 2)

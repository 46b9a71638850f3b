"""Syncs a file without a thread, through Linux asynchronous I/O (used for nothing else).

Handing a sync to a thread and its result back takes about nine thread switches and 0.1 ms of CPU,
more than the sync itself on a fast disk. Here a kernel worker syncs the file and then signals an
eventfd, which the event loop polls like a socket.
"""

import asyncio
import ctypes
import os
import platform
from collections.abc import Callable

OnEnd = Callable[[object, BaseException | None], None]
"""Called with (None, the error or None)."""

_NUMBERS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""System call numbers of io_setup, io_destroy, io_getevents and io_submit, by machine."""
_FDSYNC = 3
_NOTIFY_EVENTFD = 1
_CONCURRENT_MAX = 64
"""Maximum number of concurrent syncs; further ones run in threads."""


class _Request(ctypes.Structure):
    """The struct iocb of linux/aio_abi.h, little endian."""

    _fields_ = (
        ("number", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("descriptor", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("eventfd", ctypes.c_uint32),
    )


class _Event(ctypes.Structure):
    """The struct io_event of linux/aio_abi.h."""

    _fields_ = (
        ("number", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    )


class AioSync:
    """Syncs files for one event loop; created by ``open_aio``."""

    def __init__(self, numbers: tuple[int, int, int, int]) -> None:
        self._setup, self._destroy, self._getevents, self._submit = numbers
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._context = ctypes.c_ulong(0)
        if self._call(self._setup, _CONCURRENT_MAX, ctypes.byref(self._context)) != 0:
            raise OSError(ctypes.get_errno(), "io_setup")
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._request = _Request(opcode=_FDSYNC, flags=_NOTIFY_EVENTFD, eventfd=self._eventfd)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._events = (_Event * _CONCURRENT_MAX)()
        self._in_progress: dict[int, OnEnd] = {}
        self._last_number = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def submit(self, descriptor: int, on_end: OnEnd) -> bool:
        """Start to sync a file's data; ``on_end`` is called in the loop afterwards.

        Return False if a thread has to sync instead.
        """
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._eventfd, self._on_events)
        if self._is_closed or self._loop is not loop or len(self._in_progress) >= _CONCURRENT_MAX:
            return False
        self._last_number += 1
        self._request.number = self._last_number
        self._request.descriptor = descriptor
        count = ctypes.c_long(1)
        if self._call(self._submit, self._context, count, self._requests) != 1:
            return False  # the sync in a thread meets the same error and reports it
        self._in_progress[self._last_number] = on_end
        return True

    def close(self) -> None:
        """Wait for the syncs in progress, fail their callbacks and release the kernel context."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._eventfd)
        self._call(self._destroy, self._context)
        os.close(self._eventfd)
        closed = OSError("the disk was closed")
        in_progress, self._in_progress = self._in_progress, {}
        for on_end in in_progress.values():
            on_end(None, closed)

    def _on_events(self) -> None:
        os.eventfd_read(self._eventfd)
        none, most = ctypes.c_long(0), ctypes.c_long(_CONCURRENT_MAX)
        count = self._call(self._getevents, self._context, none, most, self._events, None)
        for index in range(count):
            event = self._events[index]
            on_end = self._in_progress.pop(event.number)
            error = None
            if event.result < 0:
                error = OSError(-event.result, os.strerror(-event.result))
            on_end(None, error)


def open_aio() -> AioSync | None:
    """Return an ``AioSync``; None if the kernel has no support or no free context for it."""
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None or not hasattr(os, "eventfd"):
        return None
    try:
        return AioSync(numbers)
    except OSError:
        return None

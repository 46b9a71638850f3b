"""The queue of a connection's file reads, of which a limited number run concurrently.

A read that has ended holds a response until the client takes it. So no read starts while the client
does not read its responses, and the reads of all connections share a limited number of slots.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from ...runtime.tasks import Tasks
from .requests import FileRead

READERS_MAX = 16
"""Maximum number of concurrent file reads of one connection."""


class ReadQueue:
    """Runs queued reads and calls ``on_read`` after each. The caller limits the queue's length."""

    def __init__(self, tasks: Tasks, slots: asyncio.Semaphore, on_read: Callable[[], None]) -> None:
        """``slots`` limits the concurrent reads of all queues that share it."""
        self._tasks = tasks
        self._slots = slots
        self._on_read = on_read
        self._waiting: deque[FileRead] = deque()
        self._reader_count = 0
        self._is_held = False

    def __len__(self) -> int:
        """Return the number of reads that have not started."""
        return len(self._waiting)

    @property
    def is_active(self) -> bool:
        """True while a read runs, or waits for anything but the client."""
        return self._reader_count > 0

    def add(self, read: FileRead) -> None:
        """Queues a read."""
        self._waiting.append(read)
        self._start_readers(1)

    def hold(self) -> None:
        """Starts no further read until ``resume``."""
        self._is_held = True

    def resume(self) -> None:
        """Starts reads again."""
        self._is_held = False
        self._start_readers(len(self._waiting))

    def clear(self) -> None:
        """Drops the reads that have not started."""
        self._waiting.clear()

    def _start_readers(self, count: int) -> None:
        if self._is_held or self._tasks.is_closed:
            return
        for _ in range(min(count, READERS_MAX - self._reader_count)):
            self._reader_count += 1
            self._tasks.spawn(self._run(), "read")

    async def _run(self) -> None:
        try:
            while self._waiting and not self._is_held:
                async with self._slots:
                    if self._waiting and not self._is_held:
                        await self._waiting.popleft().run()
                self._on_read()
        finally:
            self._reader_count -= 1

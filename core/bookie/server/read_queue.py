"""The queue of a connection's file reads, of which a limited number run concurrently."""

from collections import deque
from collections.abc import Callable

from ...runtime.tasks import Tasks
from .requests import FileRead

READERS_MAX = 16
"""Maximum number of concurrent file reads of one connection."""


class ReadQueue:
    """Runs queued reads and calls ``on_read`` after each. The caller limits the queue's length."""

    def __init__(self, tasks: Tasks, on_read: Callable[[], None]) -> None:
        self._tasks = tasks
        self._on_read = on_read
        self._waiting: deque[FileRead] = deque()
        self._reader_count = 0

    def __len__(self) -> int:
        """Return the number of reads that have not started."""
        return len(self._waiting)

    @property
    def is_active(self) -> bool:
        """True while a read waits or runs."""
        return self._reader_count > 0

    def add(self, read: FileRead) -> None:
        """Queues a read."""
        self._waiting.append(read)
        if self._reader_count < READERS_MAX and not self._tasks.is_closed:
            self._reader_count += 1
            self._tasks.spawn(self._run(), "read")

    def clear(self) -> None:
        """Drops the reads that have not started."""
        self._waiting.clear()

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._waiting.popleft().run()
                self._on_read()
        finally:
            self._reader_count -= 1

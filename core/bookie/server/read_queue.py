"""Reads of one connection that need a file: so many side by side, the others in their turn."""

from collections import deque
from collections.abc import Callable

from ...runtime.tasks import Tasks
from .requests import FileRead

READERS_MAX = 16
"""File reads of one connection that run side by side."""


class ReadQueue:
    """``on_read`` is called after each read. Whoever adds reads bounds how many wait."""

    def __init__(self, tasks: Tasks, on_read: Callable[[], None]) -> None:
        self._tasks = tasks
        self._on_read = on_read
        self._waiting: deque[FileRead] = deque()
        self._reader_count = 0

    def __len__(self) -> int:
        """How many have not begun."""
        return len(self._waiting)

    def add(self, read: FileRead) -> None:
        """Runs a read as soon as it is its turn."""
        self._waiting.append(read)
        if self._reader_count < READERS_MAX and not self._tasks.is_closed:
            self._reader_count += 1
            self._tasks.spawn(self._run(), "read")

    def clear(self) -> None:
        """Forgets those that have not begun."""
        self._waiting.clear()

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._waiting.popleft().run()
                self._on_read()
        finally:
            self._reader_count -= 1

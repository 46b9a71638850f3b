"""Hands repair tasks to the workers of a process, so that no two of them get the same one."""

import asyncio
from collections import deque
from collections.abc import Iterable

from .task_store import TaskStore


class TaskFeed:
    """Goes through all tasks in the order of their ledgers, in passes that all workers share."""

    def __init__(self, tasks: TaskStore) -> None:
        self._tasks = tasks
        self._page: deque[int] = deque()
        self._after: int | None = None
        self._is_over = True
        self._is_listing = asyncio.Lock()
        self._missing: dict[int, None] = {}

    def begin(self, known: Iterable[int]) -> None:
        """Begin a pass, unless one is in progress; ``known`` are ledgers that had tasks before."""
        if self._is_over:
            self._is_over = False
            self._after = None
            self._missing = dict.fromkeys(known)

    async def next(self) -> int | None:
        """Return the next ledger that has a task; None at the end of the pass.

        Raises MetadataUnavailableError; a repeated call continues.
        """
        async with self._is_listing:
            if not self._page and not self._is_over:
                page = await self._tasks.ids(self._after)
                if page:
                    self._after = page[-1]
                self._is_over = not page
                self._page.extend(page)
                for ledger_id in page:
                    self._missing.pop(ledger_id, None)
            return self._page.popleft() if self._page else None

    def take_missing(self) -> list[int]:
        """Return the known ledgers that no longer had a task; empty if that was returned before.

        Call this at the end of a pass.
        """
        missing, self._missing = list(self._missing), {}
        return missing

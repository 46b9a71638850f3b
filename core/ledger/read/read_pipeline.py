"""Batch reads of one ledger that are sent before they are asked for, so that round trips overlap.

A response ends at a limit of bytes, so where the next one has to begin is known only when it has
arrived. The pipeline estimates it from the size of the entries before. If a response ends early,
the missing entries are read next; what was read behind them is kept.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from ...runtime.tasks import Tasks
from ...wire.entry import Entry
from ..config import LedgerConfig

_HEADER_BYTES = 128
"""Bytes of an entry in a response besides its payload, at most."""

_FILL = 0.95
"""Part of a response that is expected to be filled: entries may become a little larger."""

ReadEntries = Callable[[int, int], Coroutine[Any, Any, list[Entry]]]
"""Reads one or more entries from the first id on, at most up to the last one."""


class _Read:
    """A read in flight, or complete."""

    __slots__ = ("first", "last", "task")

    def __init__(self, first: int, last: int, task: asyncio.Task[list[Entry]]) -> None:
        self.first = first
        self.last = last
        self.task = task


class ReadPipeline:
    """Returns consecutive entries of a ledger. One ``read`` at a time."""

    __slots__ = ("_config", "_entry_bytes", "_name", "_read", "_reads", "_tasks")

    def __init__(self, read: ReadEntries, config: LedgerConfig, name: str) -> None:
        self._read = read
        self._config = config
        self._name = name
        self._reads: deque[_Read] = deque()
        """They read consecutive ranges."""
        self._entry_bytes = 0.0
        """Mean size of the entries of the last batch; 0: not known yet."""
        self._tasks = Tasks(on_failure=lambda _: None)
        """``read`` raises the error of a read; one that is dropped has nobody to report to."""

    async def read(self, first: int, last: int, ahead_bytes: int) -> list[Entry]:
        """Return one or more entries from ``first`` on, at most up to ``last``.

        Begins to read about ``ahead_bytes`` of the entries behind them. Raises what the read of the
        returned entries raises; the reads ahead of it are then dropped.
        """
        if not self._reads or self._reads[0].first != first:
            self._drop()
            end = self._expected_end(first, last)
            if not self._entry_bytes or end == last:  # nothing can be read ahead
                return self._measured(await self._read(first, last))
            self._reads.append(self._begin(first, end))
        self._begin_ahead(last, ahead_bytes)
        head = self._reads[0]
        try:
            entries = self._measured(await head.task)
        except BaseException:
            self._drop()
            raise
        self._reads.popleft()
        next_id = first + len(entries)
        if self._reads and next_id <= head.last:
            self._reads.appendleft(self._begin(next_id, head.last))
        return entries

    async def aclose(self) -> None:
        """Cancel all reads. Safe to repeat."""
        await self._tasks.aclose()

    def _measured(self, entries: list[Entry]) -> list[Entry]:
        payloads = sum(len(entry.payload) for entry in entries)
        self._entry_bytes = _HEADER_BYTES + payloads / len(entries)
        return entries

    def _begin_ahead(self, last: int, ahead_bytes: int) -> None:
        behind_head = self._reads[-1].last - self._reads[0].last
        room = ahead_bytes - behind_head * self._entry_bytes
        while (first := self._reads[-1].last + 1) <= last:
            end = self._expected_end(first, last)
            room -= (end - first + 1) * self._entry_bytes
            if room < 0:
                return
            self._reads.append(self._begin(first, end))

    def _expected_end(self, first: int, last: int) -> int:
        """Return the last entry, up to ``last``, that fits into a response with ``first``."""
        count = self._config.read_batch_entries_max
        if self._entry_bytes:
            fitting = int(_FILL * self._config.read_batch_bytes_max / self._entry_bytes)
            count = max(1, min(count, fitting))
        return min(last, first + count - 1)

    def _begin(self, first: int, last: int) -> _Read:
        return _Read(first, last, self._tasks.spawn(self._read(first, last), self._name))

    def _drop(self) -> None:
        while self._reads:
            self._reads.popleft().task.cancel()

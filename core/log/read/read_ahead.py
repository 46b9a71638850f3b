"""Read-ahead: fetches entries before the consumer needs them, within an adaptive byte budget.

The budget begins small and doubles whenever the consumer has to wait although entries were
available. A consumer that is slower than the source therefore keeps a small buffer. Behind the
chunk that is fetched, the source may read as much as the budget leaves. At the tail
nothing is fetched ahead: a task exists only while the consumer waits or entries are known to exist.
"""

import asyncio
from collections import deque

from ...runtime.tasks import Tasks
from ..decoded_entry import size_of
from .entry_source import Chunk, EntryFetcher

BUDGET_BYTES_MIN = 256 * 1024


class ReadAhead:
    """Returns the chunks of one source in order, fetching ahead. One ``next`` at a time."""

    def __init__(self, source: EntryFetcher, *, bytes_max: int, name: str) -> None:
        self.bytes = 0
        """Payload bytes of the fetched chunks that ``next`` has not returned yet."""
        self._source = source
        self._bytes_max = bytes_max
        self._budget = min(BUDGET_BYTES_MIN, bytes_max)
        self._name = name
        self._chunks: deque[tuple[Chunk, int]] = deque()
        self._failure: Exception | None = None  # occurred after the chunks
        self._is_fetching = False
        self._arrival: asyncio.Future[None] | None = None
        self._tasks = Tasks()

    async def next(self) -> Chunk:
        """Wait for and return the next chunk. Raises an error of ``fetch`` in its place in order.

        Cancelling loses nothing: a running fetch completes and its chunk waits for the next call.
        """
        if not self._chunks and self._failure is None:
            if self._is_fetching or self._source.is_ready:
                self._budget = min(2 * self._budget, self._bytes_max)
            self._fetch()
            while not self._chunks and self._failure is None:
                self._arrival = asyncio.get_running_loop().create_future()
                await self._arrival
        if not self._chunks:
            failure, self._failure = self._failure, None
            assert failure is not None
            raise failure
        chunk, size = self._chunks.popleft()
        self.bytes -= size
        if self._source.is_ready and self.bytes < self._budget and self._failure is None:
            self._fetch()
        return chunk

    async def aclose(self) -> None:
        """Stop fetching. Safe to repeat."""
        await self._tasks.aclose()

    def _fetch(self) -> None:
        if not self._is_fetching:
            self._is_fetching = True
            self._tasks.spawn(self._run(), f"read {self._name}")

    async def _run(self) -> None:
        try:
            while True:
                chunk = await self._source.fetch(self._budget - self.bytes)
                size = sum(map(size_of, chunk.entries))
                self._chunks.append((chunk, size))
                self.bytes += size
                self._wake()
                if not self._source.is_ready or self.bytes >= self._budget:
                    return
        except Exception as error:
            self._failure = error  # the next call raises it, even if it is a bug
        finally:
            self._is_fetching = False
            self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

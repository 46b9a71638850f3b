"""One stream that is read for many readers, each entry once (rules PRX-18, PRX-36).

Cursors take blocks from the cache. What is not cached is fetched by a *run*, which reads forward
from one position for all cursors that arrive there. The tail is the run at the end of the stream;
readers that return after an outage form another one. A cursor that needs an entry which a fetch in
progress may return waits for that fetch. A reader that has become too slow finds its next block
evicted and begins a run of its own, which others near it share in turn.

Invariants:

1. At each position there is at most one run, and each run has at most one fetch at a time.
2. Each run has at least one cursor; a run without cursors is closed.
"""

import asyncio
from collections.abc import Awaitable, Callable

from ...core.log.read.entry_source import Chunk, EntryFetcher
from ...core.protocol.errors import NotOwnerError
from ...core.runtime.tasks import Tasks, wait_until_done
from .block_cache import BlockCache, StreamKey
from .entry_block import EntryBlock, EntryPosition, segment_end, split_into_blocks
from .shared_run import Outcome, SharedRun

Reopen = Callable[[EntryPosition], Awaitable[EntryFetcher]]
"""Opens the stream at a position."""


class SharingCounts:
    """Counters of a read proxy over all streams."""

    __slots__ = (
        "delivered_bytes",
        "fetched_bytes",
        "fetched_entries",
        "fetches_waiting",
        "hits",
        "misses",
    )

    def __init__(self) -> None:
        self.fetched_entries = 0
        self.fetched_bytes = 0
        """Bytes of entries that were read from bookies and archives."""
        self.delivered_bytes = 0
        """Bytes of entries that readers received."""
        self.hits = 0
        """Number of blocks that readers found in the cache."""
        self.fetches_waiting = 0
        """Number of fetches that wait for their turn now."""
        self.misses = 0
        """Number of times that a reader waited for a fetch, alone or with others."""


class SharedStream:
    """The runs of one stream, and its part of the cache. ``readers`` counts its open cursors."""

    def __init__(
        self,
        key: StreamKey,
        cache: BlockCache,
        counts: SharingCounts,
        reopen: Reopen,
        end: EntryPosition,
        catch_up: asyncio.Semaphore,
    ) -> None:
        """``end`` is the end of the stream as far as it is known.

        ``catch_up`` limits the fetches behind the end, of all streams of the proxy together.
        """
        self.key = key
        self.readers = 0
        self.counts = counts
        self.end = end
        """Readers here and beyond have everything, as far as it is known."""
        self.is_closed = False
        self._cache = cache
        self._blocks = cache.open(key)
        self._reopen = reopen
        self._catch_up = catch_up
        self._runs: dict[EntryPosition, SharedRun] = {}
        self._closing: dict[SharedRun, None] = {}
        self._tasks = Tasks()

    @property
    def run_count(self) -> int:
        """The number of positions at which the stream is read."""
        return len(self._runs)

    def take(self, position: EntryPosition) -> EntryBlock | None:
        """Return the cached block that holds ``position``, or None."""
        return self._cache.take(self._blocks, position)

    def learn_end(self, end: EntryPosition) -> None:
        """Raise the known end of the stream."""
        self.end = max(self.end, end)

    # --- runs -----------------------------------------------------------------------------------

    def run_for(self, position: EntryPosition, source: EntryFetcher | None) -> SharedRun:
        """Return a run whose fetch is in progress and may return the entry at ``position``.

        A new run uses ``source`` if that is at the position; a source that is not used is closed.
        Raises NotOwnerError once the proxy is stopping.
        """
        if self.is_closed:
            raise NotOwnerError("this proxy is stopping")
        run = self._runs.get(position)
        if run is None or run.fetching is None:
            run = self._fetching_near(position) or run
        if run is None:
            is_there = source is not None and (source.lssn, source.entry_id) == position
            run = self._runs[position] = SharedRun(position, source if is_there else None)
        if source is not None and source is not run.source:
            self._tasks.spawn(source.aclose(), f"close {self.key[0]}")
        self._fetch(run)
        return run

    def release(self, run: SharedRun) -> None:
        """Note that a cursor does not continue with this run."""
        run.users -= 1
        if run.users == 0 and not run.is_closed:
            self._close(run)

    def read_ahead(self, position: EntryPosition) -> None:
        """Fetch what follows ``position`` if a run is there and entries are known to follow.

        Nothing is fetched if that is cached, or if another run is fetching it.
        """
        run = self._runs.get(position)
        if run is None or run.fetching is not None or run.source is None:
            return
        is_known = self._blocks.find(position) is not None or self._fetching_near(position)
        if run.source.is_ready and not is_known:
            self._fetch(run)

    def _fetching_near(self, position: EntryPosition) -> SharedRun | None:
        """Return a run whose fetch in progress may return the entry at ``position``, or None."""
        return next((run for run in self._runs.values() if run.may_reach(position)), None)

    def _fetch(self, run: SharedRun) -> None:
        if run.fetching is None:
            run.fetching = self._tasks.spawn(self._run_fetch(run), f"read {self.key[0]}")

    async def _run_fetch(self, run: SharedRun) -> None:
        outcome: Outcome
        try:
            if self.end > (run.position[0], run.position[1] + 1):
                source, chunk = await self._fetch_in_turn(run)
            else:
                source, chunk = await self._fetch_chunk(run)
            run.fetching = None
            outcome = self._store(run, source, chunk)
        except Exception as error:  # every waiting reader raises it; the next one begins again
            run.fetching = None
            self._close(run)
            outcome = error
        run.wake(outcome)

    async def _fetch_in_turn(self, run: SharedRun) -> tuple[EntryFetcher, Chunk]:
        """Fetch when few enough other runs of the proxy are catching up (rule PRX-56)."""
        self.counts.fetches_waiting += 1
        try:
            await self._catch_up.acquire()
        finally:
            self.counts.fetches_waiting -= 1
        try:
            return await self._fetch_chunk(run)
        finally:
            self._catch_up.release()

    async def _fetch_chunk(self, run: SharedRun) -> tuple[EntryFetcher, Chunk]:
        source = run.source
        if source is None:
            source = run.source = await self._reopen(run.position)
        return source, await source.fetch()

    def _store(self, run: SharedRun, source: EntryFetcher, chunk: Chunk) -> list[EntryBlock]:
        """Put the blocks of a chunk into the cache and move the run behind them."""
        blocks = split_into_blocks(chunk)
        for block in blocks:
            self._cache.add(self._blocks, block)
            self.counts.fetched_bytes += block.size
        self.counts.fetched_entries += len(chunk.entries)
        run.reach = max(1, len(chunk.entries))
        position = source.lssn, source.entry_id
        first = blocks[0].start if blocks else position
        if first[0] > run.position[0]:
            end = segment_end(run.position, first)
            self._cache.end_segment(self._blocks, end)
            blocks.insert(0, end)
        self._move(run, position)
        # If more is known to follow, the end is beyond the position.
        self.learn_end((position[0], position[1] + 1) if source.is_ready else position)
        return blocks

    def _move(self, run: SharedRun, position: EntryPosition) -> None:
        if self._runs.get(run.position) is run:
            del self._runs[run.position]
        run.position = position
        if position in self._runs:  # its cursors continue with the run that is there
            self._close(run)
        else:
            self._runs[position] = run

    def _close(self, run: SharedRun) -> None:
        run.is_closed = True
        if self._runs.get(run.position) is run:
            del self._runs[run.position]
        self._closing[run] = None
        if not self._tasks.is_closed:
            self._tasks.spawn(self._end(run), f"close {self.key[0]}")

    async def _end(self, run: SharedRun) -> None:
        if run.fetching is not None:
            run.fetching.cancel()
            await wait_until_done(run.fetching)
        if run.source is not None:
            await run.source.aclose()
        self._closing.pop(run, None)

    async def aclose(self) -> None:
        """Stop reading; waiting readers raise NotOwnerError. Safe to repeat."""
        if not self.is_closed:
            self.is_closed = True
            self._cache.close(self._blocks)
        for run in list(self._runs.values()):
            run.wake(NotOwnerError("this proxy is stopping"))
            self._close(run)
        await self._tasks.aclose()
        for run in list(self._closing):
            await self._end(run)

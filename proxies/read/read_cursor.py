"""The cursor of one reader: its position in a shared stream (rule PRX-19).

A cursor holds no entries. It takes the next block from the cache, or waits for a run that fetches
it. A slow reader therefore neither delays other readers nor uses their memory.
"""

from ...core.log.read.entry_source import EntryFetcher
from ...core.log.read.reader_lag import ReaderLag
from ...core.protocol.errors import EndOfStreamError
from .entry_block import EntryBlock, EntryPosition
from .shared_run import SharedRun
from .shared_stream import SharedStream


class ReadCursor:
    """The position of one reader in a stream."""

    def __init__(
        self, stream: SharedStream, source: EntryFetcher, *, end: EntryPosition | None
    ) -> None:
        """``source`` was opened for this reader and not read yet; ``end``: the read stops there."""
        self.position: EntryPosition = (source.lssn, source.entry_id)
        self.stream = stream
        self.lag = ReaderLag()
        """The lag of the reader behind the end of the stream."""
        self._source: EntryFetcher | None = source
        self._end = end
        self._run: SharedRun | None = None

    async def next(self, timeout_s: float | None = None) -> EntryBlock | None:
        """Return the next block; None at the end of the stream or at ``end``. Waits at the tail.

        Raises TimeoutError, what reading raises, and NotOwnerError once the proxy is stopping. No
        block is lost then.
        """
        stream, counts = self.stream, self.stream.counts
        while self._end is None or self.position < self._end:
            block = stream.take(self.position)
            if block is not None:
                counts.hits += 1
            else:
                try:
                    block = await self._fetched(timeout_s)
                except EndOfStreamError:
                    return None
                counts.misses += 1
                if block is None:
                    continue
            start, self.position = self.position, block.end
            if block.is_segment_end:
                continue
            stream.read_ahead(self.position)
            block = block.starting_at(start)
            counts.delivered_bytes += block.size
            return block
        return None

    async def _fetched(self, timeout_s: float | None) -> EntryBlock | None:
        """Wait for a fetch and return the next block if the fetch has returned it."""
        stream, position = self.stream, self.position
        run = stream.run_for(position, self._source)
        self._source = None
        if run is not self._run:
            run.users += 1
            self._release()
            self._run = run
        if position >= stream.end:
            self.lag.begin_wait()
        try:
            blocks = await run.arrival(timeout_s)
        finally:
            self.lag.end_wait()
        return stream.take(position) or next((one for one in blocks if one.holds(position)), None)

    def _release(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            self.stream.release(run)

    async def aclose(self) -> None:
        """Close the cursor. Safe to repeat."""
        self._release()
        source, self._source = self._source, None
        if source is not None:
            await source.aclose()

"""Streaming queries: each micro-batch is a half-open range that ends at an entry boundary.

The start and end offsets alone define a micro-batch, and Spark logs both before it runs the batch.
A repeated read of [start, end), after any crash, therefore returns the same rows, from the archive
or from ledgers. This module keeps no state between batches and does not rely on ``commit``.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ...core.protocol.dlsn import FIRST_DLSN, Dlsn
from ...core.protocol.errors import NoSuchStreamError
from .options import Options, format_offsets, parse_offsets
from .planner import Planner
from .split_reader import read_split

if TYPE_CHECKING:
    import pyarrow as pa


class RhumblineStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads the micro-batches of a query. See DataSourceStreamReader."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._planner: Planner | None = None
        self._target: dict[str, Dlsn] | None = None

    # --- offsets --------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, str]:
        """Return the start offsets of a query without a checkpoint."""
        return format_offsets(
            {stream: self._plan().start(stream) for stream in self._plan().streams()}
        )

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of ``maxOffsetsPerTrigger``, in records."""
        limit = self._options.max_offsets
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """Return the end of the next micro-batch; ``start`` if there is nothing new.

        A limit of records is divided evenly among the streams. Each stream with new records adds at
        least one entry, so a batch can exceed the limit by less than one entry a stream.
        """
        begin = self._from(start)
        end: dict[str, Dlsn] = {}
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        share = None if rows is None else max(1, rows // len(begin))
        for stream, position in begin.items():
            newest = self._latest(stream)
            position = self._plan().position_now(stream, position, newest.stream_id)
            latest = max(position, newest)
            if share is None or latest == position:
                end[stream] = latest
            else:
                end[stream] = self._plan().boundary(stream, position, latest, share)
        return format_offsets(end)

    def reportLatestOffset(self) -> dict[str, str]:
        """Return the newest visible offsets, for the progress report of the query."""
        return format_offsets({s: self._plan().end(s) for s in self._plan().streams()})

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end offsets of this run: it reads no record that is written later."""
        self._target = {s: self._plan().end(s) for s in self._plan().streams()}

    def _latest(self, stream: str) -> Dlsn:
        if self._target is not None:
            return self._target.get(stream, FIRST_DLSN)
        try:
            return self._plan().end(stream)
        except NoSuchStreamError:
            if self._options.fails_on_data_loss:
                raise
            return FIRST_DLSN  # the stream was deleted: nothing remains to be read

    def _from(self, start: dict[str, str]) -> dict[str, Dlsn]:
        """Return the positions of all streams. A new stream starts at its first position.

        With a pattern, positions of streams that no longer match are kept: they may return.
        """
        known = parse_offsets(start)
        streams = self._plan().streams() if self._target is None else tuple(self._target)
        added = {s: self._plan().first(s) for s in streams if s not in known}
        if self._options.pattern is not None:
            return known | added
        return {s: known[s] if s in known else added[s] for s in streams}

    # --- rows -----------------------------------------------------------------------------------

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """Return the splits of [start, end)."""
        begin, stop = parse_offsets(start), parse_offsets(end)
        return [
            split
            for stream in sorted(stop)
            if self._is_subscribed(stream)
            for split in self._splits(stream, begin.get(stream), stop[stream])
        ]

    def _splits(self, stream: str, begin: Dlsn | None, stop: Dlsn) -> list[InputPartition]:
        begin = begin or self._plan().first(stream)
        begin = self._plan().position_now(stream, begin, stop.stream_id)
        return self._plan().splits(stream, begin, stop) if begin < stop else []

    def _is_subscribed(self, stream: str) -> bool:
        return not self._options.subscribe or stream in self._options.subscribe

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the rows of one split."""
        return read_split(self._options, partition)

    def stop(self) -> None:
        """Close connections."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None

    # --- on the driver, never in executors ------------------------------------------------------

    def _plan(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._options)
        return self._planner

"""Streaming queries: each micro-batch is a half-open range that ends at an entry boundary.

The start and end offsets alone define a micro-batch, and Spark logs both before it runs the batch.
A repeated read of [start, end), after any crash, therefore returns the same rows, from the archive
or from ledgers. The only state between batches is the time of the last one, for
``maxTriggerDelay``, and what the last progress report needs. ``commit`` is not relied on.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ...core.protocol.dlsn import FIRST_DLSN, Dlsn
from ...core.protocol.errors import NoSuchStreamError, TruncatedError, UnavailableError
from ..progress import RECORDS_BEHIND
from .bounds import format_offsets, parse_offsets
from .division import Split, divide
from .options import Options
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
        self._newest: dict[str, Dlsn] | None = None
        self._end: dict[str, Dlsn] = {}
        self._batch_ended_s = time.monotonic()

    # --- offsets --------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, str]:
        """Return the start offsets of a query without a checkpoint."""
        self._plan().begin()
        return format_offsets(
            {stream: self._plan().start(stream) for stream in self._plan().streams()}
        )

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limits of ``maxOffsetsPerTrigger`` and ``minOffsetsPerTrigger``, in records.

        Spark passes one limit only; the lower one is then applied from the options.
        """
        most, least = self._options.max_offsets, self._options.min_offsets
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """Return the end of the next micro-batch; ``start`` if there is nothing new.

        A limit of records is divided evenly among the streams. Each stream with new records adds at
        least one entry, so a batch can exceed the limit by less than one entry a stream. With
        ``minOffsetsPerTrigger`` nothing counts as new until there are so many records, or until
        ``maxTriggerDelay`` has passed since the last batch.
        """
        self._plan().begin()
        begin = self._from(start)
        newest: dict[str, Dlsn] = {}
        for stream, position in begin.items():
            latest = self._latest(stream)
            begin[stream] = self._plan().position_now(stream, position, latest.stream_id)
            newest[stream] = max(begin[stream], latest)
        self._newest = newest
        if not isinstance(limit, ReadAllAvailable) and self._waits(begin, newest):
            self._end = begin
            return start
        self._end = self._limited(begin, newest, limit)
        self._batch_ended_s = time.monotonic()
        return format_offsets(self._end)

    def _limited(
        self, begin: dict[str, Dlsn], newest: dict[str, Dlsn], limit: ReadLimit
    ) -> dict[str, Dlsn]:
        """Return the end of a batch from ``begin`` on that is within the limit."""
        if not isinstance(limit, ReadMaxRows) or not begin:
            return newest
        share = max(1, limit.max_rows // len(begin))
        return {
            stream: latest
            if latest == begin[stream]
            else self._plan().boundary(stream, begin[stream], latest, share)
            for stream, latest in newest.items()
        }

    def _waits(self, begin: dict[str, Dlsn], newest: dict[str, Dlsn]) -> bool:
        """True if there are fewer new records than ``minOffsetsPerTrigger`` and time is left."""
        least = self._options.min_offsets
        if least is None or self._target is not None:  # a run that ends does not wait
            return False
        if (time.monotonic() - self._batch_ended_s) * 1000 >= self._options.max_trigger_delay_ms:
            return False
        found = 0
        for stream, latest in newest.items():
            if begin[stream] < latest:
                records = self._count(stream, begin[stream], latest)
                if records is None or (found := found + records) >= least:
                    return False
        return True

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the newest visible offsets and the lag, for the progress report of the query.

        The lag is the number of records by stream that remain after the current batch.
        """
        if self._newest is None:
            return {**format_offsets({s: self._plan().end(s) for s in self._plan().streams()})}
        counts = {
            stream: self._count(stream, self._end[stream], latest)
            for stream, latest in self._newest.items()
            if self._end[stream] < latest
        }
        behind = {stream: records for stream, records in counts.items() if records}
        return {**format_offsets(self._newest), RECORDS_BEHIND: behind}

    def _count(self, stream: str, start: Dlsn, end: Dlsn) -> int | None:
        """Return the number of records in [start, end); None if it is not known at the moment."""
        try:
            return self._plan().count(stream, start, end)
        except (UnavailableError, TruncatedError):
            return None

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end offsets of this run: it reads no record that is written later."""
        self._plan().begin()
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
        self._plan().begin()
        begin, stop = parse_offsets(start), parse_offsets(end)
        found = [
            split
            for stream in sorted(stop)
            if self._is_subscribed(stream)
            for split in self._splits(stream, begin.get(stream), stop[stream])
        ]
        return divide(
            found,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_partition_records,
        )

    def _splits(self, stream: str, begin: Dlsn | None, stop: Dlsn) -> list[Split]:
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

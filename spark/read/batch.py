"""Batch queries: archive and ledgers as they are when the query is planned."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from .filters import Ranges
from .options import Options
from .planner import Planner
from .split_reader import read_split

if TYPE_CHECKING:
    import pyarrow as pa


class RhumblineBatchReader(DataSourceReader):
    """See DataSourceReader. It travels to executors, so it holds only options and ranges."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._ranges = Ranges()

    def partitions(self) -> list[InputPartition]:
        """Part files of the archive, and the rest by segments."""
        planner = Planner(self._options)
        try:
            found: list[InputPartition] = []
            for stream in planner.streams():
                if self._ranges.wants(stream):
                    start = planner.start(stream)
                    end = planner.stop(stream)
                    found += planner.splits(stream, start, end, self._ranges)
        finally:
            planner.close()
        return found or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one of them."""
        return read_split(self._options, partition)


class FilteringBatchReader(RhumblineBatchReader):
    """Reads only what the filters of the query can need.

    Only where it is asked for: Spark (4.3) plans a loaded DataFrame once, with the filters of the
    query that it sees first, and keeps that plan also for uses of the DataFrame without them.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Learns which files and row groups are needed; Spark applies all filters itself."""
        for one in filters:
            self._ranges.learn(one)
            yield one

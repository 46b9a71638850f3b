"""Batch queries: they read archive and ledgers as of the moment of planning."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from .division import Split, divide
from .filters import Ranges
from .options import Options
from .planner import Planner
from .split_reader import read_split

if TYPE_CHECKING:
    import pyarrow as pa


class RhumblineBatchReader(DataSourceReader):
    """See DataSourceReader. It is pickled for executors, so it holds only options and ranges."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._ranges = Ranges()

    def partitions(self) -> list[InputPartition]:
        """Return the tasks: parts of the archive and ranges of segments, divided as asked."""
        planner = Planner(self._options)
        try:
            planner.begin()
            found: list[Split] = []
            for stream in planner.streams():
                if self._ranges.includes_stream(stream):
                    start = planner.start(stream)
                    end = planner.stop(stream)
                    found += planner.splits(stream, start, end, self._ranges)
        finally:
            planner.close()
        options = self._options
        tasks = divide(
            found,
            min_partitions=options.min_partitions,
            max_records=options.max_partition_records,
        )
        return tasks or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the rows of one split."""
        return read_split(self._options, partition)


class FilteringBatchReader(RhumblineBatchReader):
    """Skips files and row groups that cannot pass the filters of the query.

    This reader is used only with the option ``pushFilters``. Spark 4.3 plans a loaded DataFrame
    once, with the filters of the first query, and reuses that plan for later queries on the same
    DataFrame even if they have other filters. Those queries would miss rows.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the ranges, and return all filters, because Spark applies each one itself."""
        for pushed in filters:
            self._ranges.add_filter(pushed)
            yield pushed

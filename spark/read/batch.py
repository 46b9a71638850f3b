"""Batch queries: they read archive and ledgers as of the moment of planning."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from .conditions import Ranges
from .division import Split, divide
from .options import Options
from .planner import Planner
from .split_reader import read_split

if TYPE_CHECKING:
    import pyarrow as pa


class RhumblineBatchReader(DataSourceReader):
    """See DataSourceReader. It is pickled for executors, so it holds only options."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the tasks: parts of the archive and ranges of segments, divided as asked."""
        options = self._options
        planner, ranges = Planner(options), Ranges.of(options.where)
        try:
            planner.begin()
            found: list[Split] = []
            for stream in planner.streams():
                if options.where.includes_stream(stream):
                    start = planner.start(stream)
                    end = planner.stop(stream)
                    found += planner.splits(stream, start, end, ranges)
        finally:
            planner.close()
        tasks = divide(
            found,
            min_partitions=options.min_partitions,
            max_records=options.max_partition_records,
        )
        return tasks or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the rows of one split."""
        return read_split(self._options, partition)

"""Reads what was archived since the last run of a job, and appends it to streams exactly once.

The state of a job is the checkpoint of a streaming query: positions of the source, with the id of
its stream. Positions do not change when retention deletes segments, so a repeat neither leaves out
nor repeats records. Records that were deleted before the job has read them are an error, and so is
a checkpoint of another stream of the same name.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class ArchivedSource:
    """An archived stream, and where the first run of a job begins in it."""

    cold: str
    namespace: str
    stream: str
    starting: str = "earliest"
    """A value of the option ``startingOffsets``; later runs continue at their checkpoint."""


@dataclass(frozen=True, slots=True)
class AppendTarget:
    """The cluster to whose streams a job appends, and the checkpoint of the job."""

    metadata: str
    namespace: str
    region: str | None
    checkpoint: str
    """Path or URI of a folder, the same in each run."""


def read_new(spark: SparkSession, source: ArchivedSource, columns: tuple[str, ...]) -> DataFrame:
    """Return the records that no earlier run has read, with these columns of the data source."""
    return (
        spark.readStream.format("rhumbline")
        .option("archive", source.cold)
        .option("namespace", source.namespace)
        .option("subscribe", source.stream)
        .option("startingOffsets", source.starting)
        .option("columns", ",".join(columns))
        .load()
    )


def append_new(rows: DataFrame, target: AppendTarget, **options: str) -> int:
    """Append rows in order, in one task, and return their number when they are acknowledged.

    ``options`` are further options of the sink. Raises the errors of Spark.
    """
    writing = (
        rows.coalesce(1)  # one task reads the splits in order
        .writeStream.format("rhumbline")
        .option("metadata", target.metadata)
        .option("namespace", target.namespace)
        .option("checkpointLocation", target.checkpoint)
        .options(**options)
    )
    if target.region is not None:
        writing = writing.option("region", target.region)
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    return input_rows(query)


def input_rows(query: StreamingQuery) -> int:
    """Return the number of rows that a run has read."""
    return sum(progress["numInputRows"] for progress in query.recentProgress)

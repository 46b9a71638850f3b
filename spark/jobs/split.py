"""The job ``split``: appends archived records to other streams, with other keys, exactly once."""

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from .incremental import AppendTarget, ArchivedSource, append_new, read_new


@dataclass(frozen=True, slots=True)
class SplitJob:
    """The archived stream, the cluster, and the SQL expressions that choose stream and key.

    The expressions may use the columns ``txid``, ``created``, ``payload``, ``key``, ``headers`` and
    ``event_time`` of a record.
    """

    source: ArchivedSource
    target: AppendTarget
    stream: str
    """SQL expression for the name of the target stream; null leaves the record out."""
    key: str = "key"
    """SQL expression for the new key."""


def split(spark: SparkSession, job: SplitJob) -> int:
    """Append each archived record to the stream that the expression names, in order, in one task.

    The streams must exist. Return the number of records that were read. A repeat appends what was
    archived since the last run, whatever was deleted from the archive meanwhile. Records get new
    positions and txids. Raises the errors of Spark.
    """
    columns = ("txid", "created", "payload", "key", "headers", "event_time")
    rows = read_new(spark, job.source, columns)
    routed = rows.select(
        sql.expr(job.stream).cast("string").alias("stream"),
        "payload",
        sql.expr(job.key).cast("binary").alias("key"),
        "headers",
        "event_time",
    ).where("stream IS NOT NULL")
    return append_new(routed, job.target)

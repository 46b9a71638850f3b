"""The job ``replay``: appends archived records to a stream, exactly once."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from .incremental import AppendTarget, ArchivedSource, append_new, read_new


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The source and the target of a replay."""

    source: ArchivedSource
    target: AppendTarget
    stream: str
    """The stream to append to."""
    keeps_txids: bool = True


def replay(spark: SparkSession, job: ReplayJob) -> int:
    """Append the archived records to the target stream in order, in one task; return their number.

    A repeat continues where the last run ended, also if the archive has grown meanwhile, and if old
    segments of it were deleted. Records get new positions. With ``keeps_txids`` they keep their
    txids; the last txid of the target must then not be above the first archived one. Raises the
    errors of Spark.
    """
    rows = read_new(spark, job.source, ("txid", "payload", "key", "headers", "event_time"))
    keeps_txids = str(job.keeps_txids).lower()
    return append_new(rows, job.target, stream=job.stream, keepTxids=keeps_txids)

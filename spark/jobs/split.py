"""The job ``split``: appends archived records to other streams, with other keys, exactly once."""

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql


@dataclass(frozen=True, slots=True)
class SplitJob:
    """The archived stream, the cluster, and the SQL expressions that choose stream and key.

    The expressions may use the columns ``txid``, ``created``, ``payload``, ``key``, ``headers`` and
    ``event_time`` of a record.
    """

    cold: str
    source_namespace: str
    source: str
    metadata: str
    namespace: str
    region: str | None
    stream: str
    """SQL expression for the name of the target stream; null leaves the record out."""
    key: str = "key"
    """SQL expression for the new key."""


def split(spark: SparkSession, job: SplitJob) -> None:
    """Append each archived record to the stream that the expression names, in order, in one task.

    The streams must exist. A repeat with the same expressions writes nothing twice, and appends
    what was archived since. Records get new positions and txids. Raises the errors of Spark.
    """
    rows = (
        spark.read.format("rhumbline")
        .option("archive", job.cold)
        .option("namespace", job.source_namespace)
        .option("subscribe", job.source)
        .option("columns", "txid,created,payload,key,headers,event_time")
        .load()
    )
    routed = rows.select(
        sql.expr(job.stream).cast("string").alias("stream"),
        "payload",
        sql.expr(job.key).cast("binary").alias("key"),
        "headers",
        "event_time",
    ).where("stream IS NOT NULL")
    source = f"{job.cold} {job.source_namespace}/{job.source}"
    writing = (
        routed.coalesce(1)  # one task reads the splits in order
        .write.format("rhumbline")
        .option("metadata", job.metadata)
        .option("namespace", job.namespace)
        .option("writeId", f"split {source} {job.stream} {job.key}")
    )
    if job.region is not None:
        writing = writing.option("region", job.region)
    writing.mode("append").save()

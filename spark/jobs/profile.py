"""The job ``profile``: describes archived streams by hour, as a Parquet table and an HTML page."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from .profile_page import Hour, render_page

_STREAMS_SHOWN = 50
"""Largest number of streams on the page: those with the most bytes."""


@dataclass(frozen=True, slots=True)
class ProfileJob:
    """The archive, the streams (a regular expression for whole names) and the outputs."""

    cold: str
    namespace: str
    pattern: str
    table: str
    """Path or URI of the Parquet table, which is replaced."""
    page: Path | None
    """The HTML page, on the machine of the driver."""


def profile(spark: SparkSession, job: ProfileJob) -> list[Hour]:
    """Write the table and the page, and return the hours of the streams on the page.

    The hours are in UTC, by the time at which records were created. The numbers of keys are
    approximate, within 5 %. Raises the errors of Spark.
    """
    rows = (
        spark.read.format("rhumbline")
        .option("archive", job.cold)
        .option("namespace", job.namespace)
        .option("subscribePattern", job.pattern)
        .option("columns", "stream,created,payload,key")
        .load()
    )
    _by_hour(rows).coalesce(1).write.mode("overwrite").parquet(job.table)
    table = spark.read.parquet(job.table)
    largest = (
        table.groupBy("stream").agg(sql.sum("payload_bytes").alias("total"))
        .orderBy(sql.desc("total"), "stream").limit(_STREAMS_SHOWN).select("stream")
    )  # fmt: skip
    found = table.join(largest, "stream").orderBy("stream", "hour").collect()
    hours = [Hour(**row.asDict()) for row in found]
    if job.page is not None:
        job.page.parent.mkdir(parents=True, exist_ok=True)
        job.page.write_text(render_page(hours), encoding="utf-8")
    return hours


def _by_hour(rows: DataFrame) -> DataFrame:
    size = sql.octet_length("payload")
    hour = (sql.floor(sql.unix_millis("created") / 3_600_000) * 3_600_000).cast("bigint")
    return (
        rows.groupBy("stream", hour.alias("hour_ms"))
        .agg(
            sql.count("*").alias("records"),
            sql.sum(size).alias("payload_bytes"),
            sql.min(size).alias("size_min"),
            sql.percentile_approx(size, 0.5).alias("size_median"),
            sql.percentile_approx(size, 0.99).alias("size_p99"),
            sql.max(size).alias("size_max"),
            sql.count("key").alias("keyed_records"),
            sql.approx_count_distinct("key").alias("keys"),
        )
        .withColumn("hour", sql.timestamp_millis("hour_ms"))
        .drop("hour_ms")
        .withColumn("records_per_s", sql.col("records") / 3600)
        .orderBy("stream", "hour")
    )

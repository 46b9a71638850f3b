"""The job ``convert``: decodes archived payloads into a typed, date-partitioned Parquet table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructField, StructType

from ...core.protocol.errors import ConfigurationError
from ...typed import SchemaHistory
from .incremental import ArchivedSource, input_rows, read_new
from .stored_schema import StoredSchemaDecoder

Decode = Callable[[bytes], Mapping[str, Any]]
"""A function that returns the columns of a payload."""

_POSITION = ("stream", "dlsn", "txid", "created", "key", "event_time")
_CORRUPT = "_corrupt"


@dataclass(frozen=True, slots=True)
class ConvertJob:
    """The archived stream, the table, and how payloads become columns."""

    cold: str
    namespace: str
    stream: str
    table: str
    """Path or URI of the table. The state of the job is in its folder ``_checkpoint``."""
    columns: str | None
    """The columns of a payload, as DDL of Spark: ``id BIGINT, name STRING``.

    None: payloads are decoded by ``schemas``.
    """
    function: str | None = None
    """``module:function``, which returns a dict with these columns; None: the payload is JSON."""
    schemas: SchemaHistory = SchemaHistory()
    """The schemas that the stream has stored."""
    date: str = "created"
    """The time by which rows are partitioned: ``created`` or ``event_time``."""


def convert(spark: SparkSession, job: ConvertJob) -> int:
    """Append what was archived since the last run to the table; return the number of new rows.

    A row has the columns of the payload, ``record`` (its position, txid, times and key),
    ``decode_error`` and ``date``. If a payload cannot be decoded, its columns are null and
    ``decode_error`` says why; no row is lost. A run that is killed is continued by the next one,
    and Spark reads every row once. Raises the errors of Spark, ConfigurationError, and
    InvalidArgumentError for stored schemas that Spark has no columns for.
    """
    shape, decode = _decoding(spark, job)
    taken = {"record", "decode_error", "date"}.intersection(shape.names)
    if taken:
        raise ConfigurationError(
            f"convert: the columns {', '.join(sorted(taken))} are the job's own"
        )
    source = ArchivedSource(job.cold, job.namespace, job.stream)
    rows = read_new(spark, source, (*_POSITION, "payload"))
    query = (
        _typed(rows, job, shape, decode)
        .writeStream.format("parquet")
        .option("path", job.table)
        .option("checkpointLocation", f"{job.table}/_checkpoint")
        .partitionBy("date")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return input_rows(query)


def _decoding(spark: SparkSession, job: ConvertJob) -> tuple[StructType, Decode | None]:
    """Return the columns of a payload and the function that decodes it; None: Spark's own."""
    if job.columns is None:
        if job.function is not None:
            raise ConfigurationError("convert: --function needs the columns that it returns")
        stored = StoredSchemaDecoder(job.schemas)
        return stored.columns, stored
    shape = spark.createDataFrame([], job.columns).schema
    if job.function is None:
        return shape, None
    module, _, name = job.function.partition(":")
    if not module or not name:
        raise ConfigurationError(f"convert: {job.function!r} is not of the form module:function")
    return shape, lambda payload: getattr(import_module(module), name)(payload)


def _typed(rows: DataFrame, job: ConvertJob, shape: StructType, decode: Decode | None) -> DataFrame:
    value, error = _decoded_json(shape) if decode is None else _decoded_by(decode, shape)
    decoded = rows.withColumn("_value", value)
    time = sql.coalesce(sql.col(job.date), sql.col("created"))
    return decoded.select(
        *(sql.col("_value")[name].alias(name) for name in shape.names),
        sql.struct(*_POSITION).alias("record"),
        error.alias("decode_error"),
        sql.to_date(time).alias("date"),
    )


def _decoded_json(shape: StructType) -> tuple[Column, Column]:
    """Return the decoded value and the error, for payloads in JSON."""
    fields = [*shape.fields, StructField(_CORRUPT, StringType())]
    value = sql.from_json(
        sql.col("payload").cast("string"),
        StructType(fields),
        {"columnNameOfCorruptRecord": _CORRUPT},
    )
    fault = sql.when(
        sql.col("_value").isNull() | sql.col("_value")[_CORRUPT].isNotNull(),
        sql.lit("not JSON of these columns"),
    )
    return value, fault


def _decoded_by(decode: Decode, shape: StructType) -> tuple[Column, Column]:
    """Return the decoded value and the error, for payloads that a function decodes."""

    def decoded(payload: bytes) -> tuple[Any, ...]:
        try:
            found = decode(bytes(payload))
            return (*(found.get(column) for column in shape.names), None)
        except Exception as error:  # the user's function may raise anything
            return (*(None for _ in shape.names), f"{type(error).__name__}: {error}"[:1000])

    fields = [StructField(one.name, one.dataType) for one in shape.fields]
    wanted = StructType([*fields, StructField(_CORRUPT, StringType())])
    return sql.udf(decoded, wanted, useArrow=False)(sql.col("payload")), sql.col("_value")[_CORRUPT]

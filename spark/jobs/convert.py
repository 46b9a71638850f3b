"""The job ``convert``: decodes archived payloads into a typed, date-partitioned Parquet table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    _make_type_verifier,
)

from ...core.protocol.errors import ConfigurationError
from ...typed import SchemaHistory
from .incremental import ArchivedSource, input_rows, read_new
from .stored_schema import StoredSchemaDecoder

Decode = Callable[[bytes], Mapping[str, Any]]
"""A function that returns the columns of a payload."""
FindDecode = Callable[[], Decode]
"""Executors call it for the function, because not every function can be sent to them."""

_POSITION = ("stream", "dlsn", "txid", "created", "key", "event_time")
_CORRUPT = "_corrupt"
_UNDECODED = "undecoded"


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


class ConvertedRows(NamedTuple):
    """The rows that a run has added to a table."""

    rows: int
    undecoded: int
    """Those with a ``decode_error``."""


def convert(spark: SparkSession, job: ConvertJob) -> ConvertedRows:
    """Append what was archived since the last run to the table; return how many rows these are.

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
    failed = sql.count("decode_error").alias(_UNDECODED)
    query = (
        _typed(rows, job, shape, decode)
        .observe(_UNDECODED, failed)
        .writeStream.format("parquet")
        .option("path", job.table)
        .option("checkpointLocation", f"{job.table}/_checkpoint")
        .partitionBy("date")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    undecoded = sum(
        progress["observedMetrics"][_UNDECODED][_UNDECODED]
        for progress in query.recentProgress
        if _UNDECODED in progress["observedMetrics"]
    )
    return ConvertedRows(input_rows(query), undecoded)


def _decoding(spark: SparkSession, job: ConvertJob) -> tuple[StructType, FindDecode | None]:
    """Return the columns of a payload and what finds its decoder; None: Spark's own decoder."""
    if job.columns is None:
        if job.function is not None:
            raise ConfigurationError("convert: --function needs the columns that it returns")
        stored = StoredSchemaDecoder(job.schemas)
        return stored.columns, lambda: stored
    shape = spark.createDataFrame([], job.columns).schema
    if job.function is None:
        return shape, None
    function = job.function
    find_function(function)
    return shape, lambda: find_function(function)


def find_function(function: str) -> Decode:
    """Return the function that ``module:function`` names. Raises ConfigurationError."""
    module, _, name = function.partition(":")
    if not module or not name:
        raise ConfigurationError(f"convert: {function!r} is not of the form module:function")
    try:
        found: Decode = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"convert: cannot import {function!r}: {error}") from error
    return found


def _typed(
    rows: DataFrame, job: ConvertJob, shape: StructType, find: FindDecode | None
) -> DataFrame:
    value, error = _decoded_json(shape) if find is None else _decoded_by(find, shape)
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


def _decoded_by(find: FindDecode, shape: StructType) -> tuple[Column, Column]:
    """Return the decoded value and the error, for payloads that a function decodes."""
    fields = [StructField(one.name, one.dataType) for one in shape.fields]
    wanted = StructType([*fields, StructField(_CORRUPT, StringType())])
    decoded = sql.udf(row_decoder(find, wanted), wanted, useArrow=False)
    return decoded(sql.col("payload")), sql.col("_value")[_CORRUPT]


def row_decoder(find: FindDecode, wanted: StructType) -> Callable[[bytes], tuple[Any, ...]]:
    """Return a function that decodes payloads to rows whose last column is the error.

    Values are verified: of those with a wrong type, Spark stores some as null and fails for others.
    """

    def decoded(payload: bytes) -> tuple[Any, ...]:
        decode = find()
        try:
            found = decode(bytes(payload))
            row = (*(found.get(column) for column in columns), None)
            verify(row)
            wanted.toInternal(row)
            for column, value in zip(wanted.fields, row, strict=True):
                _check_digits(column.name, column.dataType, value)
        except Exception as error:  # the user's function may raise anything
            return (*(None for _ in columns), f"{type(error).__name__}: {error}"[:1000])
        return row

    columns = wanted.names[:-1]
    verify = _make_type_verifier(wanted)
    return decoded


def _check_digits(name: str, kind: DataType, value: Any) -> None:  # noqa: ANN401 - verified
    """Raise ValueError for a decimal with more digits than its type, which Spark fails for."""
    if value is None:
        return
    if isinstance(kind, DecimalType):
        if abs(round(value, kind.scale)) >= 10 ** (kind.precision - kind.scale):
            raise ValueError(f"{name}: {value} has too many digits for {kind.simpleString()}")
    elif isinstance(kind, ArrayType):
        for one in value:
            _check_digits(name, kind.elementType, one)
    elif isinstance(kind, MapType):
        for key, one in value.items():
            _check_digits(name, kind.keyType, key)
            _check_digits(name, kind.valueType, one)
    elif isinstance(kind, StructType):
        values = [value.get(one) for one in kind.names] if isinstance(value, dict) else value
        for field, one in zip(kind.fields, values, strict=True):
            _check_digits(f"{name}.{field.name}", field.dataType, one)

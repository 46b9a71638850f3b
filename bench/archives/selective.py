"""Compares a selective query in Spark with the same query on the Iceberg table and in DuckDB.

The query is for a hundredth of the creation times, and for two columns: it counts the records, adds
up their lengths, and takes the largest txid. Spark runs it with its own Parquet reader, with
``read_archive`` and with the data source. There is no Iceberg runtime for Spark 4.3, so pyiceberg
scans the table. DuckDB reads the folder of the stream.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pyarrow.compute as pc
from pyiceberg import expressions as iceberg
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ...coldstore.iceberg.catalog_uri import CATALOG_NAME, catalog_properties
from ...spark.read.archive_frame import read_archive
from ..scan_archive import FIRST_TXID, NAMESPACE, SET_RECORDS, STREAM, ArchiveShape

COLUMNS = ("txid", "payload")


class Totals(NamedTuple):
    """The result of the query."""

    payload_bytes: int
    last_txid: int
    records: int


class TimeRange(NamedTuple):
    """The creation times that the query selects, and what it must return."""

    begin_ms: int
    end_ms: int
    expected: Totals

    @property
    def times(self) -> tuple[datetime, datetime]:
        """The first time, and the end, which is not included."""
        begin, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in self[:2])
        return begin, end


@dataclass(frozen=True, slots=True)
class SelectiveScan:
    """The median time of the query with one reader."""

    reader: str
    seconds: float
    records: int


def hundredth(shape: ArchiveShape) -> TimeRange:
    """Return a hundredth of the creation times, in whole record sets, within a middle segment."""
    numbers = shape.numbers(shape.segments // 2 + 1)
    count = max(1, shape.records // 100 // SET_RECORDS) * SET_RECORDS
    assert count <= len(numbers), "the segment has fewer records"
    first = numbers.start
    totals = Totals(count * shape.size, FIRST_TXID + first + count - 1, count)
    return TimeRange(shape.created_ms(first), shape.created_ms(first + count), totals)


def measure_selective(
    spark: SparkSession, root: Path, catalog_uri: str, shape: ArchiveShape, rounds: int
) -> Iterator[SelectiveScan]:
    """Run the query with each reader, once unmeasured and then ``rounds`` times.

    DuckDB is left out where it is not installed. Raises AssertionError if a result is wrong.
    """
    wanted = hundredth(shape)
    readers: dict[str, Callable[[], Totals]] = {
        "native Parquet": lambda: _in_spark(_filtered(_native(spark, root), wanted)),
        "read_archive": lambda: _in_spark(_verified(spark, root, wanted)),
        "data source": lambda: _in_spark(_source(spark, root, wanted)),
        "pyiceberg": lambda: _in_iceberg(catalog_uri, wanted),
    }
    if find_spec("duckdb") is not None:
        readers["DuckDB"] = lambda: _in_duckdb(root, wanted)
    for name, read in readers.items():
        took_s = []
        for _ in range(rounds + 1):
            begun_s = time.monotonic()
            found = read()
            took_s.append(time.monotonic() - begun_s)
            assert found == wanted.expected, f"{name}: {found} instead of {wanted.expected}"
        yield SelectiveScan(name, median(took_s[1:]), found.records)


def _in_spark(frame: DataFrame) -> Totals:
    found = frame.agg(f.sum(f.length("payload")), f.max("txid"), f.count("*")).first()
    assert found is not None
    return Totals(*found)


def _filtered(frame: DataFrame, wanted: TimeRange) -> DataFrame:
    begin, end = map(f.lit, wanted.times)
    return frame.where((f.col("created") >= begin) & (f.col("created") < end)).select(*COLUMNS)


def _native(spark: SparkSession, root: Path) -> DataFrame:
    return spark.read.parquet(_folder(root))


def _verified(spark: SparkSession, root: Path, wanted: TimeRange) -> DataFrame:
    return read_archive(
        spark,
        archive=root.as_uri(),
        namespace=NAMESPACE,
        subscribe=STREAM,
        columns=",".join(COLUMNS),
        startingTimestamp=str(wanted.begin_ms),
        endingTimestamp=str(wanted.end_ms),
    )


def _source(spark: SparkSession, root: Path, wanted: TimeRange) -> DataFrame:
    begin, end = (time.isoformat() for time in wanted.times)
    given = {
        "archive": root.as_uri(),
        "namespace": NAMESPACE,
        "subscribe": STREAM,
        "columns": ",".join(COLUMNS),
        "where": f"created >= '{begin}' and created < '{end}'",
    }
    return spark.read.format("rhumbline").options(**given).load()


def _in_iceberg(catalog_uri: str, wanted: TimeRange) -> Totals:
    catalog = load_catalog(CATALOG_NAME, **catalog_properties(catalog_uri))
    begin, end = (time.isoformat() for time in wanted.times)
    late: Any = iceberg.GreaterThanOrEqual
    early: Any = iceberg.LessThan
    between = iceberg.And(late("created", begin), early("created", end))
    table = catalog.load_table((NAMESPACE, STREAM))
    rows = table.scan(between, selected_fields=COLUMNS).to_arrow()
    size = pc.sum(pc.binary_length(rows["payload"])).as_py()
    return Totals(size, pc.max(rows["txid"]).as_py(), rows.num_rows)


def _in_duckdb(root: Path, wanted: TimeRange) -> Totals:
    import duckdb

    begin, end = (time.isoformat() for time in wanted.times)
    found = duckdb.execute(
        "SELECT sum(octet_length(payload)), max(txid), count(*) FROM read_parquet(?) "
        "WHERE created >= ?::TIMESTAMPTZ AND created < ?::TIMESTAMPTZ",
        [_folder(root), begin, end],
    ).fetchone()
    assert found is not None
    return Totals(*map(int, found))


def _folder(root: Path) -> str:
    return str(root / NAMESPACE / STREAM / "*/*.parquet")

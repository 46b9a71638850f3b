"""The folder of a stream opens in every tool without a glob or an option, with equal content."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.archive.schema import COLUMNS
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.tests.unit.spark.spark_world import Row, archive_on_disk

NAMES = [column.name for column in COLUMNS]
_KINDS = "bigint bigint int int bigint timestamp binary bigint binary binary timestamp"
SPARK = [*_KINDS.split(), "map<string,binary>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Row]]:
    """Return the folder of a stream with four segments and many parts, and its records.

    The first parts have no keys, event times or headers; later ones have some.
    """
    root = tmp_path_factory.mktemp("cold")
    with pytest.MonkeyPatch.context() as patch:
        small = ArchiveConfig(part_bytes=1, row_group_bytes=25)
        patch.setattr(archive_module, "DEFAULTS", small)
        rows = archive_on_disk(root)
    (found,) = root.glob("test/s/[0-9a-f]*")
    (root / "test/s/_iceberg").mkdir()
    assert len(list(found.iterdir())) > 4
    return str(found), rows


def plain(value: Any) -> Any:  # noqa: ANN401 - a value of any tool
    """Return a value in the form that all tools are compared in."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime()
    if isinstance(value, datetime):
        aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return aware.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict):
        if set(value) == {"key", "value"}:  # DuckDB's older form of a map
            value = dict(zip(value["key"], value["value"], strict=True))
        return sorted((name, bytes(one)) for name, one in value.items())
    if isinstance(value, list):
        pairs = [tuple(one.values()) if isinstance(one, dict) else tuple(one) for one in value]
        return sorted((name, bytes(one)) for name, one in pairs)
    return value


def digest(rows: Iterable[Iterable[Any]]) -> tuple[int, str]:
    """Return the number of rows and the SHA-256 of all values, in order of position."""
    ordered = sorted([plain(value) for value in row] for row in rows)
    return len(ordered), hashlib.sha256(repr(ordered).encode()).hexdigest()


def of_arrow(table: pa.Table) -> tuple[int, str]:
    return digest([row[name] for name in NAMES] for row in table.to_pylist())


def test_counts_types_and_digests_are_equal(
    spark: SparkSession, folder: tuple[str, list[Row]]
) -> None:
    path, rows = folder
    found: dict[str, tuple[int, str]] = {}
    types: dict[str, list[str]] = {}

    arrow = ds.dataset(path).to_table()
    types["pyarrow"] = [str(field.type) for field in arrow.schema]
    found["pyarrow"] = of_arrow(arrow)

    frame = pd.read_parquet(path)
    types["pandas"] = [str(kind) for kind in frame.dtypes]
    whole = frame.astype({"sequence": "Int64"}).astype(object)
    found["pandas"] = digest(whole.itertuples(index=False))

    polars = pl.read_parquet(path)
    types["polars"] = [str(kind) for kind in polars.dtypes]
    found["polars"] = digest(polars.iter_rows())

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        source = f"read_parquet('{path}')"
        described = connection.sql(f"DESCRIBE SELECT * FROM {source}").fetchall()
        types["duckdb"] = [row[1] for row in described]
        found["duckdb"] = of_arrow(connection.sql(f"SELECT * FROM {source}").to_arrow_table())

    files = spark.read.parquet(path)
    types["spark"] = [kind for _, kind in files.dtypes]
    found["spark"] = of_arrow(files.toArrow())

    columns = ", ".join(f"{name} {kind}" for name, kind in zip(NAMES, SPARK, strict=True))
    spark.sql(f"CREATE TABLE visits ({columns}) USING parquet LOCATION '{path}'")
    types["external table"] = [kind for _, kind in spark.table("visits").dtypes]
    found["external table"] = of_arrow(spark.table("visits").toArrow())
    spark.sql("DROP TABLE visits")

    for tool, result in found.items():
        print(f"{tool:15} {result[0]} {result[1]} {', '.join(types[tool])}")
    assert len(set(found.values())) == 1
    assert found["pyarrow"][0] == len(rows)
    assert types["spark"] == types["external table"] == SPARK
    moment = "timestamp[us, tz=UTC]"
    assert [types["pyarrow"][NAMES.index(one)] for one in ("created", "event_time")] == [moment] * 2
    assert types["pandas"].count("datetime64[us, UTC]") == 2
    assert types["polars"].count("Datetime(time_unit='us', time_zone='UTC')") == 2
    assert types["duckdb"].count("TIMESTAMP WITH TIME ZONE") == 2


def test_a_folder_with_times_prunes_them(folder: tuple[str, list[Row]]) -> None:
    """A reader that knows only Parquet skips files by their statistics."""
    path, _ = folder
    fragments = list(ds.dataset(path).get_fragments())
    bounds = []
    for fragment in fragments:
        fragment.ensure_complete_metadata()
        groups = [group.statistics["created"] for group in fragment.row_groups]
        bounds.append((min(one["min"] for one in groups), max(one["max"] for one in groups)))
    assert all(low <= high for low, high in bounds)

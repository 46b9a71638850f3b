"""Spark reads archives: batches, filters, limited micro-batches, and Spark's Parquet reader."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.tests.unit.spark.spark_world import (
    Row,
    archive_on_disk,
    manifest_path,
    read_chain,
    write_chain,
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Row]]]:
    """Yield an archive of many small parts and its rows."""
    root = tmp_path_factory.mktemp("cold")
    with pytest.MonkeyPatch.context() as patch:
        small = ArchiveConfig(part_bytes=2000, row_group_bytes=25)
        patch.setattr(archive_module, "DEFAULTS", small)
        yield root, archive_on_disk(root)


def options(root: Path, **more: str) -> dict[str, str]:
    return {"archive": root.as_uri(), "namespace": "test", "subscribe": "s", **more}


def test_a_batch_has_every_record(spark: SparkSession, archive: tuple[Path, list[Row]]) -> None:
    root, rows = archive
    frame = spark.read.format("rhumbline").options(**options(root)).load()
    assert frame.columns == [
        "stream", "lssn", "entry_id", "slot", "dlsn", "txid", "created", "payload",
        "key", "headers", "event_time",
    ]  # fmt: skip
    found = frame.orderBy("lssn", "entry_id", "slot").collect()
    assert [(r.dlsn, r.txid, bytes(r.payload)) for r in found] == rows
    assert {r.created.timestamp() for r in found} == {1000.0}


def test_files_without_selected_rows_are_not_read(
    spark: SparkSession, archive: tuple[Path, list[Row]], tmp_path: Path
) -> None:
    """Files that a condition excludes are not read, so the query works without them."""
    root, rows = archive
    shutil.copytree(root, tmp_path / "cold")
    for number in (1, 3, 4):
        for part in (tmp_path / "cold").glob(f"test/s/*/segment-*{number}-*-*.parquet"):
            part.unlink()

    def where(text: str) -> DataFrame:
        given = options(tmp_path / "cold", where=text)
        return spark.read.format("rhumbline").options(**given).load()

    expected = {row[0] for row in rows if 40 <= row[1] < 43}
    for few in ("txid >= 40 and txid < 43", "txid in (40, 41, 42)"):
        assert {r.dlsn for r in where(few).where("length(payload) > 0").collect()} == expected
    assert where("lssn = 2").count() == 30
    assert where("dlsn = '2:1:0'").count() == 1
    assert where("txid = 100000").count() == 0


def test_a_dataframe_that_was_filtered_still_has_every_record(
    spark: SparkSession, archive: tuple[Path, list[Row]]
) -> None:
    """Spark keeps the latest plan of a loaded DataFrame, so that must not depend on one filter."""
    root, rows = archive
    for where, lssns in (("txid >= 0", 4), ("lssn in (2, 3)", 2)):
        given = options(root) | {"where": where}
        frame = spark.read.format("rhumbline").options(**given).load()
        few = {lssn: frame.where(f"lssn = {lssn}") for lssn in (2, 3)}
        assert few[2].union(few[3]).count() == 60
        assert few[2].count() == 30
        assert frame.count() == 30 * lssns <= len(rows)
        assert few[2].union(frame).count() == 30 + 30 * lssns
        joined = few[2].alias("a").join(few[3].alias("b"), "entry_id")
        assert joined.count() > 30


def test_the_parquet_reader_of_spark_reads_the_same_records(
    spark: SparkSession, archive: tuple[Path, list[Row]]
) -> None:
    root, rows = archive
    native = spark.read.parquet(
        str(manifest_path(root, 1).parents[2] / manifest_path(root, 1).parent.name)
    )
    assert native.count() == len(rows)
    frame = spark.read.format("rhumbline").options(**options(root)).load()
    sums = [f.sum(f.length("payload")), f.max("txid"), f.count("*")]
    assert native.agg(*sums).first() == frame.agg(*sums).first()


def test_streaming_continues_from_its_checkpoint_in_limited_batches(
    spark: SparkSession, archive: tuple[Path, list[Row]], tmp_path: Path
) -> None:
    root, rows = archive
    sizes: list[int] = []
    seen: list[Any] = []

    def keep(frame: Any, number: int) -> None:  # noqa: ANN401 - a DataFrame
        found = [(r.dlsn, r.txid, bytes(r.payload)) for r in frame.collect()]
        sizes.append(len(found))
        seen.extend(found)

    def run(**more: str) -> None:
        query = (
            spark.readStream.format("rhumbline")
            .options(**options(root, startingOffsets="earliest", **more))
            .load()
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)
        assert query.exception() is None

    manifests = read_chain(root)
    write_chain(root, manifests[:-1])
    run(maxOffsetsPerTrigger="20")
    assert sorted(seen) == sorted(row for row in rows if not row[0].startswith("4:"))
    assert max(sizes) <= 20
    assert len(sizes) >= 5
    write_chain(root, manifests)
    run(maxOffsetsPerTrigger="1000")
    assert sorted(seen) == sorted(rows)
    run()
    assert len(seen) == len(rows), "no new rows and no repeated ones"

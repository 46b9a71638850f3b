"""The scan benchmark gets the same results from all readers, and filters skip data."""

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rhumbline.bench.archives.pruned import register_table
from rhumbline.bench.archives.selective import measure_selective
from rhumbline.bench.scan import measure_filters, measure_scans
from rhumbline.bench.scan_archive import ArchiveShape, write_archive

RECORDS = 400_000


@pytest.mark.long
def test_all_readers_agree_and_filters_read_only_the_needed_row_groups(
    spark: SparkSession, tmp_path: Path
) -> None:
    manifests = write_archive(tmp_path, ArchiveShape(RECORDS, 512))
    scans = list(measure_scans(spark, tmp_path, manifests, rounds=1))
    assert [one.reader for one in scans] == ["native Parquet", "read_archive", "data source"]
    assert min(one.rows_per_s for one in scans) > 0
    # The machine may be busy, so this compares CPU time and finds only gross regressions.
    assert max(scan.cpu_seconds for scan in scans) < 20 * scans[0].cpu_seconds + 5
    whole, *few = measure_filters(spark, tmp_path, manifests)
    assert (whole.files, whole.rows) == (5, RECORDS)
    assert whole.row_groups == 15
    for one in few:
        assert one.rows == 1000
        assert (one.files, one.row_groups) == (1, 1)
        assert one.bytes_read < whole.bytes_read / 10


@pytest.mark.long
def test_all_readers_agree_on_a_hundredth_of_the_times(spark: SparkSession, tmp_path: Path) -> None:
    root, catalog_uri = tmp_path / "cold", f"sqlite://{tmp_path}/catalog.db"
    root.mkdir()
    shape = ArchiveShape(50_000, 64)
    write_archive(root, shape)
    asyncio.run(register_table(root, catalog_uri))
    scans = list(measure_selective(spark, root, catalog_uri, shape, rounds=1))
    names = ["native Parquet", "read_archive", "data source", "pyiceberg", "DuckDB"]
    assert [one.reader for one in scans] == names
    assert {one.records for one in scans} == {500}

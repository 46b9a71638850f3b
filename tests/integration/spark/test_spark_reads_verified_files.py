"""``read_archive`` returns the records of the data source, and refuses files that were damaged."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.archive.archive_folder import ArchiveFolder
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.protocol.errors import ConfigurationError, CorruptionError, GapError
from rhumbline.spark import read_archive
from rhumbline.tests.crash.archive_damages import DamagedArchive, Outcome
from rhumbline.tests.unit.coldstore.compact.compaction_world import (
    GRACE_MS,
    LAST_RUN_MS,
    compact_once,
)
from rhumbline.tests.unit.spark.spark_world import Row, archive_on_disk

SEGMENTS = 4


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Row]]]:
    """Yield an archive of small parts, below a folder whose name is a pattern, and its rows."""
    root = tmp_path_factory.mktemp("cold") / "a [b] {c}"
    with pytest.MonkeyPatch.context() as patch:
        small = ArchiveConfig(part_bytes=4000, row_group_bytes=100)
        patch.setattr(archive_module, "DEFAULTS", small)
        yield root, archive_on_disk(root, SEGMENTS)


@pytest.fixture
def copy(archive: tuple[Path, list[Row]], tmp_path: Path) -> tuple[Path, list[Row]]:
    """Return a copy of the archive that the test may change."""
    root, rows = archive
    shutil.copytree(root, tmp_path / "cold")
    return tmp_path / "cold", rows


def read(spark: SparkSession, root: Path, **options: str) -> list[Row]:
    """Return the rows of stream "s" in order."""
    given = {"archive": root.as_uri(), "namespace": "test", **options}
    frame = read_archive(spark, **({"subscribe": "s"} if len(given) == 2 else {}), **given)
    rows = frame.orderBy("stream", "lssn", "entry_id", "slot").collect()
    assert {row.stream for row in rows} <= {"s"}
    return [(row.dlsn, row.txid, bytes(row.payload)) for row in rows]


def test_rows_and_types_are_those_of_the_data_source(
    spark: SparkSession, archive: tuple[Path, list[Row]]
) -> None:
    root, rows = archive
    given = {"archive": root.as_uri(), "namespace": "test", "subscribe": "s"}
    slow = spark.read.format("rhumbline").options(**given).load()
    fast = read_archive(spark, **given)
    assert fast.dtypes == slow.dtypes
    order = ("lssn", "entry_id", "slot")
    assert fast.orderBy(*order).collect() == slow.orderBy(*order).collect()
    assert read(spark, root, subscribePattern=".") == rows
    assert read_archive(spark, **given, columns="txid,stream").columns == ["txid", "stream"]


def test_positions_select_records_within_files(
    spark: SparkSession, archive: tuple[Path, list[Row]]
) -> None:
    root, rows = archive
    for first, end in ((3, 9), (31, 117)):
        found = read(
            spark,
            root,
            subscribe="s",
            startingOffsets=f'{{"s": "{rows[first][0]}"}}',
            endingOffsets=f'{{"s": "{rows[end][0]}"}}',
        )
        assert found == rows[first:end]
    at = f'{{"s": "{rows[5][0]}"}}'
    assert read(spark, root, subscribe="s", startingOffsets=at, endingOffsets=at) == []


@pytest.mark.long
def test_each_record_is_read_once_at_every_stage_of_a_compaction(
    spark: SparkSession, copy: tuple[Path, list[Row]]
) -> None:
    root, rows = copy
    cold = LocalColdStore(root)
    for now_ms in range(0, LAST_RUN_MS + 1, 2 * GRACE_MS):
        asyncio.run(compact_once(cold, now_ms))
        assert read(spark, root) == rows
        middle = f'{{"s": "{rows[45][0]}"}}'
        assert read(spark, root, subscribe="s", startingOffsets=middle) == rows[45:]
    (merged,) = root.rglob("*.parquet")
    merged.write_bytes(merged.read_bytes() + b"x")
    with pytest.raises(CorruptionError, match=r"merged-.*the manifest lists"):
        read(spark, root)


def test_damaged_and_missing_files_are_refused(
    spark: SparkSession, copy: tuple[Path, list[Row]]
) -> None:
    root, rows = copy
    path = sorted(root.rglob("*.parquet"))[1]
    data = path.read_bytes()
    for at in (4, len(data) // 2, len(data) - 100):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(CorruptionError, match=f"{path.name}.*(CRC|SHA-256)"):
            read(spark, root)
        only_first = f'{{"s": "{rows[20][0]}"}}'
        assert read(spark, root, subscribe="s", endingOffsets=only_first) == rows[:20]
    path.unlink()
    with pytest.raises(GapError, match="no longer exist"):
        read(spark, root)
    assert read(spark, root, subscribe="s", failOnDataLoss="false") == [
        row for row in rows if not row[0].startswith("2:")
    ]


def test_damage_after_the_check_is_found_by_the_checksums_of_pages(
    spark: SparkSession, copy: tuple[Path, list[Row]]
) -> None:
    root, rows = copy
    frame = read_archive(spark, archive=root.as_uri(), namespace="test", subscribe="s")
    assert frame.count() == len(rows)
    for path in root.rglob("*.parquet"):
        data = bytearray(path.read_bytes())
        data[data.index(b"\x28\xb5\x2f\xfd") + 12] ^= 1  # in the first page, which zstd compressed
        path.write_bytes(data)
    with pytest.raises(Exception, match=r"[Cc]hecksum|CRC"):
        frame.collect()
    shutil.rmtree(root / ArchiveFolder("test", "s", "").records)
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
        frame.collect()


@pytest.mark.long
def test_random_damages_never_change_a_result(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short form of ``make archive-damages`` with ``read_archive``."""
    outcome = Outcome()
    DamagedArchive(monkeypatch, spark, tmp_path).run(range(20_000, 20_020), outcome)
    assert outcome.missed == []
    assert outcome.wrong == []
    assert outcome.reads["read_archive: refused"] > 2
    assert outcome.reads["read_archive with the index: whole"] > 2


def test_options_for_other_readers_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("metadata", "minPartitions", "where", "nonsense"):
        with pytest.raises(ConfigurationError, match=f"{name}: not an option"):
            read_archive(spark, archive=tmp_path.as_uri(), subscribe="s", **{name: "1"})
    with pytest.raises(ConfigurationError, match="archive, metadata: set at least one"):
        read_archive(spark, subscribe="s")

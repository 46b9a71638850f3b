"""Splits that were planned before a compaction return their records afterwards (rule ARC-61)."""

import asyncio
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.protocol.errors import GapError
from rhumbline.spark.read.batch import RhumblineBatchReader
from rhumbline.spark.read.streaming import RhumblineStreamReader
from rhumbline.tests.unit.coldstore.compact.compaction_world import (
    GRACE_MS,
    LAST_RUN_MS,
    compact_completely,
    compact_once,
)
from rhumbline.tests.unit.spark.spark_world import archive_on_disk, options, read_all, rows_of


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    small = ArchiveConfig(part_bytes=1000, row_group_bytes=25)
    monkeypatch.setattr(archive_module, "DEFAULTS", small)


def run_compaction(root: Path, now_ms: int | None = None) -> None:
    """Run a compaction at a time; None: run several until the replaced files are deleted."""

    async def work() -> None:
        cold = LocalColdStore(root)
        try:
            if now_ms is None:
                await compact_completely(cold)
            else:
                await compact_once(cold, now_ms)
        finally:
            await cold.close()

    asyncio.run(work())


def test_queries_return_each_record_once_at_every_stage(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    plans = []
    for now_ms in range(0, LAST_RUN_MS + 1, 2 * GRACE_MS):
        reader = RhumblineBatchReader(options(tmp_path))
        plans.append((reader, reader.partitions()))
        run_compaction(tmp_path, now_ms)
        assert read_all(RhumblineBatchReader(options(tmp_path))) == rows
        for planned, splits in plans:
            assert rows_of([b for split in splits for b in planned.read(split)]) == rows
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_parts_of_segments_are_found_after_a_compaction(tmp_path: Path) -> None:
    """A split of some entries of a part reads just these, wherever they lie."""
    rows = archive_on_disk(tmp_path)
    numbers = range(3, len(rows), len(rows) // 5)
    ranges = [(rows[n][0], rows[min(n + 11, len(rows) - 1)][0]) for n in numbers]
    readers = [
        RhumblineBatchReader(
            options(
                tmp_path,
                startingOffsets=f'{{"s": "{start}"}}',
                endingOffsets=f'{{"s": "{end}"}}',
                columns="dlsn,txid,payload",
            )
        )
        for start, end in ranges
    ]
    planned = [reader.partitions() for reader in readers]
    before = [read_all(reader) for reader in readers]
    run_compaction(tmp_path)
    after = [
        rows_of([batch for split in splits for batch in reader.read(split)])
        for reader, splits in zip(readers, planned, strict=True)
    ]
    assert after == before
    assert all(before)


def test_a_streaming_query_continues_over_a_compaction(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    reader = RhumblineStreamReader(options(tmp_path, is_streaming=True, startingOffsets="earliest"))
    start, found = reader.initialOffset(), []
    while True:
        end = reader.latestOffset(start, ReadMaxRows(17))
        if end == start:
            break
        for split in reader.partitions(start, end):
            found += rows_of(list(reader.read(split)))
        start = end
        run_compaction(tmp_path)
    reader.stop()
    assert found == rows


def test_a_deleted_segment_is_still_data_loss(tmp_path: Path) -> None:
    archive_on_disk(tmp_path)
    reader = RhumblineBatchReader(options(tmp_path))
    splits = reader.partitions()
    run_compaction(tmp_path)

    async def expire() -> None:
        cold = LocalColdStore(tmp_path)
        stream_id = next((tmp_path / "test/s/_chain").iterdir()).name
        await ColdArchives(cold, "test").expire("s", stream_id, below=9, completed_by_ms=2**60)
        await cold.close()

    asyncio.run(expire())
    with pytest.raises(GapError, match="no longer exist"):
        list(reader.read(splits[0]))

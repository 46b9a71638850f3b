"""Spark passes the limits of a streaming query to the source, and the lag to its progress."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import rhumbline.spark
from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.spark.progress import RECORDS_BEHIND
from rhumbline.tests.unit.spark.spark_world import Row, archive_on_disk

DELAY_MS = 1500

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Row]]]:
    """Yield an archive of many small parts and its rows."""
    root = tmp_path_factory.mktemp("cold")
    with pytest.MonkeyPatch.context() as patch:
        small = ArchiveConfig(part_bytes=2000, row_group_bytes=25)
        patch.setattr(archive_module, "DEFAULTS", small)
        yield root, archive_on_disk(root)


class Batches:
    """The micro-batches of a query: their sizes, their numbers of tasks, and when they ran."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.tasks: list[int] = []
        self.began_s: list[float] = []

    def add(self, frame: Any, number: int) -> None:  # noqa: ANN401 - a DataFrame
        """See ``foreachBatch``."""
        self.began_s.append(time.monotonic())
        self.tasks.append(frame.rdd.getNumPartitions())
        self.sizes.append(frame.count())

    def of(self, spark: SparkSession, root: Path, **more: str) -> DataStreamWriter:
        """Return a query on the archive that passes its batches to this object."""
        given = {"archive": root.as_uri(), "namespace": "test", "subscribe": "s"}
        frame = spark.readStream.format("rhumbline").options(**given, **more)
        return frame.option("startingOffsets", "earliest").load().writeStream.foreachBatch(self.add)


def test_batches_are_limited_divided_and_followed_by_their_lag(
    spark: SparkSession, archive: tuple[Path, list[Row]]
) -> None:
    root, rows = archive
    batches = Batches()
    given = {"maxOffsetsPerTrigger": "60", "minPartitions": "2", "maxRecordsPerPartition": "20"}
    query = batches.of(spark, root, **given).trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    assert sum(batches.sizes) == len(rows)
    assert max(batches.sizes) <= 60
    for size, tasks in zip(batches.sizes, batches.tasks, strict=True):
        assert tasks >= max(2, size // 20)
    left = [len(rows) - sum(batches.sizes[: end + 1]) for end in range(len(batches.sizes))]
    assert [_lag(progress) for progress in query.recentProgress if progress["numInputRows"]] == left
    assert rhumbline.spark.lag(query) == {}


def _lag(progress: Any) -> int:  # noqa: ANN401 - a dictionary or an object
    latest = progress["sources"][0]["latestOffset"]
    found = json.loads(latest) if isinstance(latest, str) else latest
    return sum(found[RECORDS_BEHIND].values())


def test_a_batch_waits_for_enough_records_or_the_delay(
    spark: SparkSession, archive: tuple[Path, list[Row]]
) -> None:
    root, rows = archive
    batches = Batches()
    given = {"minOffsetsPerTrigger": str(len(rows) + 1), "maxTriggerDelay": f"{DELAY_MS}ms"}
    started_s = time.monotonic()
    query = batches.of(spark, root, **given).trigger(processingTime="0 seconds").start()
    try:
        while not any(batches.sizes):
            assert query.exception() is None
            assert time.monotonic() < started_s + 60
            query.awaitTermination(1)
    finally:
        query.stop()
    first = next(number for number, size in enumerate(batches.sizes) if size)
    assert batches.sizes[first] == len(rows)
    assert batches.began_s[first] - started_s >= DELAY_MS / 1000

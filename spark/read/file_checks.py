"""Verifies files of an archive on executors, before Spark's own reader opens them (rule ARC-51)."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from pyspark.sql import SparkSession

from ...coldstore.proof.verify_columns import CheckedFile, PlannedFile, check_file
from ...coldstore.stores.open_store import open_cold_store


def check_files(
    spark: SparkSession, archive: str, files: Sequence[PlannedFile], columns: Sequence[str]
) -> dict[str, CheckedFile]:
    """Verify columns of files in one Spark job, and return the results by key.

    Raises the errors of the cold store as Spark passes them on.
    """
    if not files:
        return {}
    context = spark.sparkContext
    spread = context.parallelize(files, min(len(files), 4 * context.defaultParallelism))
    return dict(spread.mapPartitions(lambda few: _check(archive, few, columns)).collect())


def _check(
    archive: str, files: Iterable[PlannedFile], columns: Sequence[str]
) -> Iterator[tuple[str, CheckedFile]]:
    """Verify files. Runs on an executor."""

    async def work() -> list[tuple[str, CheckedFile]]:
        cold = open_cold_store(archive)
        try:
            return [(file.key, await check_file(cold, file, columns)) for file in files]
        finally:
            await cold.close()

    return iter(asyncio.run(work()))

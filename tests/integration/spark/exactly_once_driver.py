"""A Spark driver that tests kill. It writes each micro-batch to a Parquet folder of its own.

Arguments: metadata URI, cold URI, checkpoint, output, ``forever`` or ``drain``.
"""

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import rhumbline.spark
from rhumbline.spark.session import FAST_PYTHON, QUICK_START


def main() -> None:
    metadata, cold, checkpoint, output, mode = sys.argv[1:]
    spark = (
        SparkSession.builder.config(map=FAST_PYTHON | QUICK_START)
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    rhumbline.spark.register(spark)
    records = (
        spark.readStream.format("rhumbline")
        .option("metadata", metadata)
        .option("archive", cold)
        .option("namespace", "test")
        .option("subscribe", "s")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "400" if mode == "forever" else "20000")
        .load()
    )

    def keep(frame: Any, number: int) -> None:  # noqa: ANN401 - a DataFrame
        """Write a batch; a repeated batch replaces its first output."""
        folder = Path(output) / f"batch-{number:06d}"
        frame.select("dlsn", "payload").write.mode("overwrite").parquet(str(folder))

    writing = records.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    if mode == "drain":
        writing = writing.trigger(availableNow=True)
    writing.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()

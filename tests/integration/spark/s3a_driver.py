"""A Spark driver that reads archives in S3 twice: through S3A, and with the data source.

Arguments: the folder of S3A's jars, settings of Spark as JSON, and the URIs of the archives. Prints
for each archive the records of both as JSON, or the error of ``read_archive``.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import rhumbline.spark
from rhumbline.errors import RhumblineError
from rhumbline.spark.session import QUICK_START


def main(jars: str, settings: str, *archives: str) -> None:
    """Read stream "s" of namespace "test" of each archive."""
    names = ",".join(str(path) for path in Path(jars).glob("*.jar"))
    given = {**QUICK_START, "spark.jars": names, **json.loads(settings)}
    spark = rhumbline.spark.open_session("s3a", master="local[2]", **given)
    for archive in archives:
        print("RESULT", json.dumps(read(spark, archive)))
    spark.stop()


def read(spark: SparkSession, archive: str) -> list[Any]:
    """Return the records by ``read_archive`` and by the data source, or an error and its text."""
    options = {"archive": archive, "namespace": "test", "subscribe": "s"}
    try:
        fast = rhumbline.spark.read_archive(spark, **options)
    except RhumblineError as error:
        return [type(error).__name__, str(error)]
    slow = spark.read.format("rhumbline").options(**options).load()
    found = []
    for frame in (fast, slow):
        rows = frame.orderBy("lssn", "entry_id", "slot").collect()
        found.append([(row.dlsn, row.txid, row.payload.hex()) for row in rows])
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])

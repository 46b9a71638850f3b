"""A Spark query over the stream, in a process: ``-m ...wan.programs.spark_query JSON``.

Reads archive and ledgers as one table and writes ``[dlsn, payload]`` lines.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from .app import STREAM


def query(told: dict[str, Any]) -> None:
    """Runs it to its end."""
    from pyspark.sql import SparkSession

    from .....spark import register

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[1]")
        .appName("rhumbline-lab")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    register(session)
    options = {
        **told["options"],
        "subscribe": STREAM,
        "startingOffsets": json.dumps({STREAM: told["start"]}) if told["start"] else "earliest",
        "endingOffsets": json.dumps({STREAM: told["until"]}),
    }
    frame = session.read.format("rhumbline").options(**options).load()
    found = frame.select("dlsn", "payload").collect()
    lines = [json.dumps([row.dlsn, bytes(row.payload).decode("latin-1")]) for row in found]
    Path(told["rows"]).write_text("\n".join(lines))
    session.stop()


if __name__ == "__main__":
    query(json.loads(sys.argv[1]))

"""A process that reads the whole stream with Spark: ``-m ...wan.programs.spark_query JSON``.

It queries archive and ledgers as one table and writes one ``[dlsn, payload]`` line per record.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from .app import STREAM


def query(settings: dict[str, Any]) -> None:
    """Run the query and write its rows."""
    from pyspark.sql import SparkSession

    from .....spark import register
    from .....spark.session import FAST_PYTHON

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.config(map=FAST_PYTHON)
        .master("local[1]")
        .appName("rhumbline-lab")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    register(session)
    options = {
        **settings["options"],
        "subscribe": STREAM,
        "startingOffsets": json.dumps({STREAM: settings["start"]})
        if settings["start"]
        else "earliest",
        "endingOffsets": json.dumps({STREAM: settings["until"]}),
    }
    frame = session.read.format("rhumbline").options(**options).load()
    found = frame.select("dlsn", "payload").collect()
    lines = [json.dumps([row.dlsn, bytes(row.payload).decode("latin-1")]) for row in found]
    Path(settings["rows"]).write_text("\n".join(lines))
    session.stop()


if __name__ == "__main__":
    query(json.loads(sys.argv[1]))

"""A Spark driver with its UI and event log: writes and reads through a proxy with TLS and a token.

Arguments: the URI, the stream, and the options as JSON. Prints plans, and what the UI's API says.
"""

import json
import sys
import urllib.request

from pyspark.sql import SparkSession

import rhumbline.spark
from rhumbline.spark.session import FAST_PYTHON, QUICK_START

_PAGES = ("", "/jobs", "/stages", "/environment", "/sql?details=true", "/executors")


def main(uri: str, stream: str, options: str, folder: str) -> None:
    """Run one write and one read."""
    builder = SparkSession.builder.config(map=FAST_PYTHON | QUICK_START)
    session = (
        builder.master("local[1]")
        .config("spark.ui.enabled", "true")
        .config("spark.ui.port", "0")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", f"file://{folder}")
        .config("spark.eventLog.compress", "false")
        .config("spark.log.level", "INFO")
        .getOrCreate()
    )
    rhumbline.spark.register(session)
    given = {"metadata": uri, **json.loads(options)}
    rows = session.range(100).selectExpr("CAST(id AS STRING) AS payload")
    rows.write.format("rhumbline").options(**given, stream=stream).mode("append").save()
    found = session.read.format("rhumbline").options(**given, subscribe=stream).load()
    print("rows", found.count())
    found.explain(extended=True)
    found.explain(mode="formatted")
    api = f"{session.sparkContext.uiWebUrl}/api/v1/applications"
    application = session.sparkContext.applicationId
    for page in _PAGES:
        with urllib.request.urlopen(f"{api}/{application}{page}", timeout=30) as response:
            print("page", page, response.read().decode())
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

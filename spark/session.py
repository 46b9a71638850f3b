"""Spark sessions, and how the data source becomes known to one."""

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from .source import RhumblineSource

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

FAST_PYTHON = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.buffer.size": str(1 << 20),
}
"""Settings with which rows go from Python workers to Spark at less cost. They count only when they
are given to a new session."""

QUICK_START: dict[str, Any] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
}
"""Settings for a new session on this machine that lives for a few queries: half the CPU until the
first result, since Java compiles less; slower in long work."""

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


def register(spark: SparkSession) -> None:
    """Registers the format ``rhumbline``, and lets Spark push filters to Python data sources.

    ``spark.read.format("rhumbline").option(...).load()``; the options are in ``options``. A repeat
    is safe.
    """
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(RhumblineSource)


def open_session(name: str, *, master: str | None = None, **settings: str) -> SparkSession:
    """The session of this process, with the data source; a new one if there is none.

    Without ``master`` it is the one of spark-submit, or all cores of this machine. On this machine
    the Python workers are of this environment.
    """
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName(name)
    for key, value in FAST_PYTHON.items():
        builder = builder.config(key, value)
    if not is_submitted:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.master(master or "local[*]")
        for key, value in (_LOCAL | settings).items():
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark

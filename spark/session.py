"""Opens Spark sessions and registers the data source."""

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from .hadoop_settings import s3_environment
from .source import RhumblineSource

FAST_PYTHON: dict[str, Any] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.buffer.size": str(1 << 20),
}
"""Settings that make the transfer of rows from Python workers to Spark cheaper and keep stray TCP
clients from it. They take effect only in a new session."""

QUICK_START: dict[str, Any] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
}
"""Settings for a new local session that runs only a few queries. They halve the CPU time until the
first result, because the JVM compiles less, but make long queries slower."""

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


def register(spark: SparkSession) -> None:
    """Register the format ``rhumbline``.

    Python workers get the S3 settings that Hadoop has at this moment (``fs.s3a.access.key``,
    ``secret.key``, ``endpoint`` and ``endpoint.region``).

    Read with ``spark.read.format("rhumbline").option(...).load()``. ``spark.read.options`` and
    ``spark.write.write_options`` of this package describe the options. Safe to repeat.
    """
    spark.sparkContext.environment.update(s3_environment(spark))
    spark.dataSource.register(RhumblineSource)


def open_session(name: str, *, master: str | None = None, **settings: str) -> SparkSession:
    """Return the session of this process with the data source; open one if there is none.

    Under spark-submit its master is used, and ``master`` and ``settings`` are ignored. Otherwise
    ``master`` defaults to all cores of this machine, ``settings`` are added to the session, and the
    Python workers use the interpreter of this process.
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

"""One Spark session for all tests of a process, because starting a session is slow."""

import functools
import os
import sys
import warnings
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rhumbline.spark
from rhumbline.spark.session import FAST_PYTHON, QUICK_START


@functools.cache
def _session() -> SparkSession:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # FAST_PYTHON uses Unix sockets. On a TCP port, Spark may take a stray client for the Python
    # worker that it waits for: it reads the client's first four bytes as a length, and runs out of
    # heap.
    builder = SparkSession.builder.config(map=FAST_PYTHON | QUICK_START)
    session = (
        builder.master("local[2]")
        .appName("rhumbline-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    rhumbline.spark.register(session)
    return session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark warns about other libraries
        session = _session()
    yield session
    session.stop()

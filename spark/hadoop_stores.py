"""Cold stores that Spark opens through Hadoop's file systems, besides Rhumbline itself.

Rhumbline verifies files that Spark reads. That is only worth something if both open the same
store (rule ARC-52).
"""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..coldstore.stores.open_store import ColdStoreOpener, open_cold_store, open_s3_store
from ..core.protocol.errors import ConfigurationError
from .hadoop_settings import S3_ENDPOINT, s3_environment

_HADOOP_SCHEMES = {"s3": "s3a"} | {
    name: name for name in ("file", "s3a", "hdfs", "webhdfs", "swebhdfs")
}


class HadoopStore:
    """A cold store that Spark's own readers open, too. Raises ConfigurationError for others."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        parts = urlsplit(uri)
        if parts.scheme not in _HADOOP_SCHEMES:
            raise ConfigurationError(
                f"{uri!r}: Spark's Parquet reader cannot open this store; use "
                'spark.read.format("rhumbline")'
            )
        self._spark = spark
        self._uri = uri
        self._parts = parts
        self._scheme = _HADOOP_SCHEMES[parts.scheme]
        self.settings: Mapping[str, str] = (
            s3_environment(spark, parts.netloc) if self._scheme == "s3a" else {}
        )
        """Environment variables for processes that open the store without Hadoop."""

    @property
    def path(self) -> str:
        """The root as a path of Hadoop, without a slash at its end.

        Options of the URI, such as an endpoint, are left out: Hadoop has its own settings for them.
        """
        parts = self._parts
        path = unquote(parts.path) if self._scheme == "file" else parts.path
        return f"{self._scheme}://{parts.netloc}{path.rstrip('/')}"

    @property
    def opener(self) -> ColdStoreOpener:
        """Opens the store in this process, with the settings of Hadoop."""
        if self._scheme != "s3a":
            return open_cold_store
        return partial(open_s3_store, environ={**os.environ, **self.settings})

    def check(self) -> None:
        """Check that Spark can open the store, and opens the same one (rule ARC-52).

        Raises ConfigurationError.
        """
        if self._scheme == "s3a":
            self._check_endpoint()
        self._check_class()
        self._check_root()

    def _check_class(self) -> None:
        hadoop = self._spark.sparkContext._jsc.hadoopConfiguration()
        name = hadoop.get(f"fs.{self._scheme}.impl")
        if name and hadoop.getClassByNameOrNull(name) is None:
            java: Any = self._spark.sparkContext._jvm
            version = java.org.apache.hadoop.util.VersionInfo.getVersion()
            raise ConfigurationError(
                f"{self._uri!r}: Spark lacks the class {name}; add it with "
                f"spark.jars.packages=org.apache.hadoop:hadoop-aws:{version}, or use "
                'spark.read.format("rhumbline"), which does not need it'
            )

    def _check_endpoint(self) -> None:
        options = dict(parse_qsl(self._parts.query))
        ours = options.get("endpoint") or {**os.environ, **self.settings}.get(S3_ENDPOINT)
        theirs = self.settings.get(S3_ENDPOINT)
        if _comparable(ours) != _comparable(theirs):
            raise ConfigurationError(
                f"{self._uri!r}: the files would be verified at {ours}, but Spark would read them "
                f"at {theirs or 'Amazon S3'}; set spark.hadoop.fs.s3a.endpoint to the same endpoint"
            )

    def _check_root(self) -> None:
        """Ask Hadoop's client for the root, before files are verified that it cannot read."""
        hadoop = self._spark.sparkContext._jsc.hadoopConfiguration()
        java: Any = self._spark.sparkContext._jvm
        root = java.org.apache.hadoop.fs.Path(f"{self.path}/")
        try:
            root.getFileSystem(hadoop).exists(root)
        except (Py4JJavaError, PySparkException) as error:
            raise ConfigurationError(
                f"{self._uri!r}: Spark cannot open this store: {_first_line(error)}"
            ) from error


def _first_line(error: Exception) -> str:
    """Return the message of an error in Java without its trace."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else error
    return str(cause).partition("\n")[0]


def _comparable(endpoint: str | None) -> str:
    return (endpoint or "").lower().rstrip("/")

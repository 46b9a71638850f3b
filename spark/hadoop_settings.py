"""Translates between the settings of Hadoop and those of cold stores.

A cold store in S3 takes its credentials from the environment. Executors of a Spark cluster often
have them only as Hadoop settings, such as ``spark.hadoop.fs.s3a.access.key``.
"""

from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from ..core.protocol.errors import ConfigurationError

_KEYS = {
    "fs.s3a.access.key": "RHUMBLINE_S3_ACCESS_KEY",
    "fs.s3a.secret.key": "RHUMBLINE_S3_SECRET_KEY",
    "fs.s3a.endpoint.region": "RHUMBLINE_S3_REGION",
}
_ENDPOINT, _USES_TLS = "fs.s3a.endpoint", "fs.s3a.connection.ssl.enabled"
_CENTRAL_ENDPOINT = "s3.amazonaws.com"


def s3_environment(spark: SparkSession) -> dict[str, str]:
    """Return the environment variables that the Hadoop settings of a session stand for."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    found = {name: hadoop.get(key) for key, name in _KEYS.items()}
    endpoint = hadoop.get(_ENDPOINT)
    if endpoint and endpoint != _CENTRAL_ENDPOINT:
        scheme = "http" if hadoop.get(_USES_TLS) == "false" else "https"
        found["RHUMBLINE_S3_ENDPOINT"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    return {name: value for name, value in found.items() if value}


def hadoop_path(uri: str) -> str:
    """Return the root of a cold store as a path of Hadoop, without a slash at its end.

    Options of the URI, such as an endpoint, are left out: Hadoop has settings of its own for them.
    Raises ConfigurationError for a store that Hadoop has no file system for.
    """
    parts = urlsplit(uri)
    scheme = {"s3": "s3a"}.get(parts.scheme, parts.scheme)
    if scheme not in ("file", "s3a", "hdfs", "webhdfs", "swebhdfs"):
        raise ConfigurationError(
            f"{uri!r}: Spark's Parquet reader cannot open this store; use "
            'spark.read.format("rhumbline")'
        )
    path = unquote(parts.path) if scheme == "file" else parts.path
    return f"{scheme}://{parts.netloc}{path.rstrip('/')}"

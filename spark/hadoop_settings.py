"""Finds the S3 settings of Spark's Hadoop configuration for the Python processes of queries.

A cold store in S3 takes its credentials from the environment. Executors of a Spark cluster often
have them only as Hadoop settings, such as ``spark.hadoop.fs.s3a.access.key``.
"""

from pyspark.sql import SparkSession

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

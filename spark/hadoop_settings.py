"""Translates settings of Hadoop to those of cold stores in S3.

A cold store in S3 takes its credentials from the environment. Executors of a Spark cluster often
have them only as Hadoop settings, such as ``spark.hadoop.fs.s3a.access.key``.
"""

from pyspark.sql import SparkSession

_KEYS = {
    "access.key": "RHUMBLINE_S3_ACCESS_KEY",
    "secret.key": "RHUMBLINE_S3_SECRET_KEY",
    "session.token": "RHUMBLINE_S3_SESSION_TOKEN",
    "endpoint.region": "RHUMBLINE_S3_REGION",
}
_ENDPOINT, _USES_TLS = "endpoint", "connection.ssl.enabled"
S3_ENDPOINT = "RHUMBLINE_S3_ENDPOINT"
_CENTRAL_ENDPOINT = "s3.amazonaws.com"


def s3_environment(spark: SparkSession, bucket: str | None = None) -> dict[str, str]:
    """Return the environment variables that the Hadoop settings of a session stand for.

    With a bucket, its own settings (``fs.s3a.bucket.NAME.endpoint`` and so on) take precedence.
    """
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()

    def setting(name: str) -> str | None:
        own = hadoop.get(f"fs.s3a.bucket.{bucket}.{name}") if bucket else None
        found: str | None = own or hadoop.get(f"fs.s3a.{name}")
        return found

    found = {name: setting(key) for key, name in _KEYS.items()}
    endpoint = setting(_ENDPOINT)
    if endpoint and endpoint != _CENTRAL_ENDPOINT:
        scheme = "http" if setting(_USES_TLS) == "false" else "https"
        found[S3_ENDPOINT] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    return {name: value for name, value in found.items() if value}
